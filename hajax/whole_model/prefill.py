"""A whole prefill on a chip nobody has at hand: the delta rule by the emulator, everything else by the cost model."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hajax import planner
from hajax.targets import NpuTarget, npu
from hajax.whole_model.delta_rule import delta_rule_cost, delta_rule_plan
from hajax.whole_model.kernel_cost import kernel_cost
from hajax.whole_model.kernels import KINDS, DeltaRuleCore, Kernel, Kind
from hajax.whole_model.layers import embedding_kernels, head_kernels, layer_kernels
from hajax.whole_model.roofline import Cost
from hajax.whole_model.sizes import Attention, DeltaRule, Experts, LatentAttention, Layer, Model, parameters

MOST_TOKENS = 131072
WEIGHT_BYTES = 2  # fp16
EMULATED, MODELLED = "emulator", "cost model"


@dataclass(frozen=True, slots=True)
class Amount:
    """Time and energy, modelled; bytes between cores and GM, of which ddr_bytes pass L2; launches."""

    microseconds: float = 0.0
    microjoules: float = 0.0
    gm_bytes: int = 0
    ddr_bytes: int = 0
    launches: int = 0

    def plus(self, other: "Amount", times: int = 1) -> "Amount":
        """This one and `times` the other."""
        return Amount(
            self.microseconds + times * other.microseconds,
            self.microjoules + times * other.microjoules,
            self.gm_bytes + times * other.gm_bytes,
            self.ddr_bytes + times * other.ddr_bytes,
            self.launches + times * other.launches,
        )


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel of the prefill and how often it comes up. bound: the busiest pipe; by: emulator or cost model."""

    layer: str
    name: str
    kind: Kind
    times: int
    each: Amount
    bound: str
    by: str


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer: its mixer, its feed forward, what it takes, and what each kind of kernel does of that."""

    number: int
    mixer: str
    feed_forward: str
    total: Amount
    by_kind: tuple[tuple[Kind, Amount], ...]


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prompt's prefill: time to first token is total.microseconds. schedule: of the plan that ran, "" without a delta rule."""

    tokens: int
    schedule: str
    total: Amount
    by_kind: tuple[tuple[Kind, Amount], ...]
    layers: tuple[LayerRow, ...]
    kernels: tuple[KernelRow, ...]


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """Prefills of a model on a chip. schedule: as asked for; fits: whether the fp16 weights fit into the chip's memory."""

    model: str
    target: str
    schedule: str
    parameters: int
    weight_bytes: int
    memory_bytes: int
    fits: bool
    notes: tuple[str, ...]
    prefills: tuple[Prefill, ...]


def profile_prefills(
    model: Model,
    tokens: tuple[int, ...],
    *,
    target: str | NpuTarget = "ascend310p1",
    schedule: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> ModelProfile:
    """Time and energy of the prefill of one sequence of each of these lengths, layer by layer, modelled.

    schedule: of the delta rule; None: the planner's default. progress(number, tokens) is called before each length.
    A chip that the kernel is not written for stands for its what-if (targets.npu.as_kernel_chip), as a note says.
    Raises ValueError for lengths outside 1..131072, an unknown chip, a schedule that there is not.
    """
    chip = _chip(target)
    for number in tokens:
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_TOKENS:
            raise ValueError(f"tokens: expected 1 to {MOST_TOKENS}, got {number!r}")
    found = []
    for index, number in enumerate(tokens):
        if progress is not None:
            progress(index, number)
        found.append(_prefill(model, number, chip, schedule))
    count = parameters(model)
    size = count * WEIGHT_BYTES
    return ModelProfile(
        model=model.name,
        target=chip.name,
        schedule=schedule or planner.default_schedule(chip),
        parameters=count,
        weight_bytes=size,
        memory_bytes=chip.gm_bytes,
        fits=size <= chip.gm_bytes,
        notes=_notes(model, chip),
        prefills=tuple(found),
    )


def _chip(target: str | NpuTarget) -> NpuTarget:
    name = target if isinstance(target, str) else target.name
    if name not in npu.names() and isinstance(target, str):
        raise ValueError(f"target: expected one of {', '.join(npu.names())}, got {name!r}")
    return npu.as_kernel_chip(target)


def _notes(model: Model, chip: NpuTarget) -> tuple[str, ...]:
    found = list(model.notes)
    if chip.name not in npu.names():
        found.append(f"{chip.name} is a what-if: instructions of a 310P with the sizes, rates and cores of another chip")
    if any(isinstance(layer.feed_forward, Experts) for layer in model.layers):
        found.append("tokens times top-k are spread evenly over the experts; the weights of each that has some are read once")
    return tuple(found)


def _prefill(model: Model, tokens: int, target: NpuTarget, schedule: str | None) -> Prefill:
    ends = [("before and after", kernel) for kernel in (*embedding_kernels(model, tokens), *head_kernels(model))]
    rows = [_row(place, kernel, 1, target, schedule) for place, kernel in ends]
    times = Counter(model.layers)
    by_layer: dict[Layer, tuple[KernelRow, ...]] = {}
    for layer, number in times.items():
        place = f"{mixer_name(layer)} + {feed_forward_name(layer)}"
        kernels = layer_kernels(layer, model.hidden, tokens)
        by_layer[layer] = tuple(_row(place, kernel, number, target, schedule) for kernel in kernels)
        rows += by_layer[layer]
    layers = tuple(_layer_row(number, layer, by_layer[layer]) for number, layer in enumerate(model.layers))
    total = _sum(rows)
    by_kind = tuple((kind, _sum([row for row in rows if row.kind == kind])) for kind in KINDS)
    return Prefill(tokens, _schedule(model, tokens, target, schedule), total, by_kind, layers, tuple(rows))


def _schedule(model: Model, tokens: int, target: NpuTarget, schedule: str | None) -> str:
    """Of the plan that ran, which "auto" leaves to the planner; all delta rules of a model are alike."""
    for layer in model.layers:
        for kernel in layer_kernels(layer, model.hidden, tokens):
            if isinstance(kernel, DeltaRuleCore):
                return delta_rule_plan(target, kernel, schedule).schedule
    return ""


def _row(place: str, kernel: Kernel, times: int, target: NpuTarget, schedule: str | None) -> KernelRow:
    if isinstance(kernel, DeltaRuleCore):
        cost, by = delta_rule_cost(target, kernel, schedule), EMULATED
    else:
        cost, by = kernel_cost(target, kernel), MODELLED
    return KernelRow(place, kernel.name, kernel.kind, times, _amount(cost), cost.bound, by)


def _amount(cost: Cost) -> Amount:
    return Amount(cost.microseconds, cost.microjoules, cost.gm_bytes, cost.ddr_bytes, cost.launches)


def _layer_row(number: int, layer: Layer, rows: tuple[KernelRow, ...]) -> LayerRow:
    once = [(row.kind, row.each) for row in rows]
    kinds = tuple(kind for kind in KINDS if any(kind == one for one, _ in once))
    by_kind = tuple((kind, _add([each for one, each in once if one == kind])) for kind in kinds)
    return LayerRow(number, mixer_name(layer), feed_forward_name(layer), _add([each for _, each in once]), by_kind)


def _add(amounts: list[Amount]) -> Amount:
    total = Amount()
    for one in amounts:
        total = total.plus(one)
    return total


def _sum(rows: list[KernelRow]) -> Amount:
    total = Amount()
    for row in rows:
        total = total.plus(row.each, row.times)
    return total


def mixer_name(layer: Layer) -> str:
    """In a few words."""
    match layer.mixer:
        case DeltaRule(mechanism=name):
            return name.replace("_", " ")
        case Attention():
            return "attention"
        case LatentAttention():
            return "latent attention"


def feed_forward_name(layer: Layer) -> str:
    """In a word."""
    return "experts" if isinstance(layer.feed_forward, Experts) else "MLP"
