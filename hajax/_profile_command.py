"""`hajax profile` without the command line: what was asked for as values, the profile as JSON, tables for people."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hajax.whole_model import MODELS, PROMPTS, Model, ModelProfile, Prefill, model_named, profile_prefills
from hajax.whole_model.hub_config import model_from_file
from hajax.whole_model.prefill import MOST_TOKENS, Amount

MODELLED = (
    "modelled, not measured on a device: the delta rule's bytes are counted and its time modelled by the emulator, "
    "the rest is the cost model's"
)
_LATE = 1.0  # seconds until progress is shown
_MOST_LENGTHS = 64


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for. model_config: a name or a path; tokens: numbers with commas, None for PROMPTS."""

    model_config: str
    tokens: str | None = None
    target: str = "ascend310p1"
    schedule: str | None = None


def run(request: Request) -> dict[str, Any]:
    """The profile as JSON has it. Raises ValueError or OSError naming the argument."""
    model, lengths = find_model(request.model_config), parse_tokens(request.tokens)
    with _late_progress(model.name, len(lengths)) as progress:
        profile = profile_prefills(
            model, tuple(lengths), target=request.target, schedule=request.schedule, progress=progress
        )  # fmt: skip
    return as_json(profile, lengths)


def find_model(text: str) -> Model:
    """By name, in any case, or from a config.json or a folder with one."""
    named = text.lower() in (name.lower() for name in MODELS)
    if named or not (Path(text).exists() or "/" in text or text.endswith(".json")):
        return model_named(text)
    try:
        return model_from_file(text)
    except OSError as error:
        raise ValueError(f"--model-config: cannot read {text} ({error.strerror or 'no such file'})") from None
    except ValueError as error:
        raise ValueError(f"--model-config: {error}") from None


def parse_tokens(text: str | None) -> dict[int, tuple[str, ...]]:
    """Each length once, in order, with the prompts that it is of."""
    found: dict[int, tuple[str, ...]] = {}
    if text is None:
        for name, ends in PROMPTS.items():
            for end, word in zip(ends, ("shortest", "longest"), strict=True):
                found[end] = (*found.get(end, ()), f"{name}, {word}")
        return found
    for part in text.split(","):
        digits = part.strip()
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 10 and 1 <= int(digits) <= MOST_TOKENS):
            raise ValueError(f"--tokens: expected numbers from 1 to {MOST_TOKENS}, with commas between them, got {text!r}")
        found[int(digits)] = ()
    if len(found) > _MOST_LENGTHS:
        raise ValueError(f"--tokens: expected at most {_MOST_LENGTHS} lengths, got {len(found)}")
    return found


def as_json(profile: ModelProfile, prompts: Mapping[int, tuple[str, ...]]) -> dict[str, Any]:
    """One object: the model on the chip, and each prefill with its kinds, layers and kernels."""
    return {
        "model": profile.model,
        "parameters": profile.parameters,
        "weights_gb": profile.weight_bytes / 1e9,
        "memory_gb": profile.memory_bytes / 1e9,
        "fits": profile.fits,
        "target": profile.target,
        "schedule": profile.schedule,
        "modelled": MODELLED,
        "notes": list(profile.notes),
        "prefills": [_prefill(one, prompts.get(one.tokens, ())) for one in profile.prefills],
    }


def does_not_fit(report: Mapping[str, Any]) -> str:
    """The warning for weights that are larger than the chip's memory."""
    return (
        f"{report['model']} does not fit: {report['weights_gb']:.1f} GB of fp16 weights, "
        f"{report['memory_gb']:.1f} GB of memory on {report['target']}; its time is modelled as if it did"
    )


def describe(report: Mapping[str, Any]) -> list[RenderableType]:
    """The profile as tables; kernels only where one length was asked for."""
    size = f"{report['parameters'] / 1e9:.2f} G parameters, {report['weights_gb']:.1f} of {report['memory_gb']:.1f} GB in fp16"
    parts: list[RenderableType] = [
        f"{report['model']} on {report['target']}, schedule {report['schedule']}: {size}",
        report["modelled"],
        *(f"note: {note}" for note in report["notes"]),
        _lengths_table(report["prefills"]),
    ]
    for title, key in (("time", "time_share"), ("energy", "energy_share"), ("GM bytes", "gm_bytes_share")):
        parts.append(_shares_table(title, key, report["prefills"]))
    if len(report["prefills"]) == 1:
        parts += [_layers_table(report["prefills"][0]), _kernels_table(report["prefills"][0])]
    return parts


def _prefill(prefill: Prefill, prompts: tuple[str, ...]) -> dict[str, Any]:
    total = prefill.total
    kinds = {
        kind: _amount(amount)
        | {
            "time_share": amount.microseconds / total.microseconds,
            "energy_share": amount.microjoules / total.microjoules,
            "gm_bytes_share": amount.gm_bytes / total.gm_bytes,
        }
        for kind, amount in prefill.by_kind
    }
    layers = [
        {"layer": row.number, "mixer": row.mixer, "feed_forward": row.feed_forward}
        | _amount(row.total)
        | {"kinds": {kind: _amount(amount) for kind, amount in row.by_kind}}
        for row in prefill.layers
    ]
    kernels = [
        {"layer": row.layer, "name": row.name, "kind": row.kind, "times": row.times, "bound": row.bound, "by": row.by}
        | _amount(row.each)
        for row in prefill.kernels
    ]
    head = {"tokens": prefill.tokens, "prompts": list(prompts), "schedule": prefill.schedule} | _amount(total)
    return head | {"kinds": kinds, "layers": layers, "kernels": kernels}


def _amount(amount: Amount) -> dict[str, float | int]:
    return {
        "modelled_ms": amount.microseconds / 1e3,
        "modelled_mj": amount.microjoules / 1e3,
        "gm_bytes": amount.gm_bytes,
        "ddr_bytes": amount.ddr_bytes,
        "launches": amount.launches,
    }


def _lengths_table(prefills: list[Any]) -> Table:
    table = _table(
        "prefill", "tokens", "time to first token, ms", "energy, J", "GM, GB", "DDR, GB", "launches", "schedule", "prompt"
    )
    for one in prefills:
        table.add_row(
            str(one["tokens"]), f"{one['modelled_ms']:.1f}", f"{one['modelled_mj'] / 1e3:.2f}", f"{one['gm_bytes'] / 1e9:.1f}",
            f"{one['ddr_bytes'] / 1e9:.1f}", str(one["launches"]), one["schedule"], "; ".join(one["prompts"]),
        )  # fmt: skip
    return table


def _shares_table(title: str, key: str, prefills: list[Any]) -> Table:
    kinds = list(prefills[0]["kinds"])
    table = _table(f"share of {title}", "tokens", *kinds)
    for one in prefills:
        table.add_row(str(one["tokens"]), *(f"{one['kinds'][kind][key]:.1%}" for kind in kinds))
    return table


def _layers_table(prefill: Mapping[str, Any]) -> Table:
    table = _table("layers", "layer", "mixer", "feed forward", "ms", "mJ", "GM, MB")
    for row in prefill["layers"]:
        table.add_row(
            str(row["layer"]), row["mixer"], row["feed_forward"], f"{row['modelled_ms']:.3f}", f"{row['modelled_mj']:.1f}",
            f"{row['gm_bytes'] / 1e6:.1f}",
        )  # fmt: skip
    return table


def _kernels_table(prefill: Mapping[str, Any]) -> Table:
    table = _table("kernels, each", "layer", "kernel", "times", "ms", "mJ", "GM, MB", "busiest pipe", "by")
    for row in prefill["kernels"]:
        table.add_row(
            row["layer"], row["name"], str(row["times"]), f"{row['modelled_ms']:.3f}", f"{row['modelled_mj']:.1f}",
            f"{row['gm_bytes'] / 1e6:.1f}", row["bound"], row["by"],
        )  # fmt: skip
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    words = ("schedule", "prompt", "mixer", "feed forward", "layer", "kernel", "busiest pipe", "by")
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right")
    return table


@contextlib.contextmanager
def _late_progress(name: str, count: int) -> Iterator[Callable[[int, int], object] | None]:
    """A line on a terminal's standard error once it takes longer."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(name)
    timer = threading.Timer(_LATE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda index, tokens: bar.update(task, description=f"{name}: {tokens} tokens, {index + 1} of {count}")
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
