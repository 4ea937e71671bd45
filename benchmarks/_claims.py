"""What ascend_core.py claims of its rows: each claim true or false, with the figures that say so."""

from collections.abc import Callable, Iterator
from typing import Any

Row = dict[str, Any]

LEADS_FROM = 2048  # tokens
OVER_HANPU = 1.5  # modelled time of hanpu over hajax's, GDN at 4096
OUTPUT_BOUND, STATE_BOUND = 5.23e-8, 9.38e-12  # NMSE against fp64 with split operands
SINGLE_BOUND = 3e-3**2  # NMSE: the relative tolerance of plain fp16 kernels
AUTO_SLACK = 1.01  # modelled time of auto's choice over the best
COUNTS_OFF, TIME_OFF = 1e-3, 1e-2  # of what is extended
FITTING, FITTING_OFF = "vllm_ascend", 0.1  # of its operators, one after the other, much or little fits in L2


def claims(rows: list[Row], auto: list[Row], agreement: list[Row], extension: list[Row]) -> list[Row]:
    """Those that these rows say something of."""
    split = [row for row in rows if row["operands"] == "split"]
    found = []
    for target in sorted({row["target"] for row in split}):
        own = [row for row in split if row["target"] == target and row["T"] >= LEADS_FROM]
        found += _leads(own, target, "gm_bytes", "the fewest GM bytes")
        found += _leads(own, target, "modelled_cycles", "the least modelled time")
        found += _over_hanpu(own, target)
    found += _errors(split, "split", OUTPUT_BOUND, STATE_BOUND)
    found += _errors([row for row in rows if row["operands"] == "single"], "single", SINGLE_BOUND, SINGLE_BOUND)
    found += _agree(agreement)
    found += _auto(split, auto)
    found += _extension(extension)
    return found


def where(row: Row) -> str:
    """A place in words."""
    return f"{row['mechanism']} {row['target']} {row['Hk']}x{row['Hv']} T={row['T']}"


def cells_of(rows: list[Row]) -> Iterator[tuple[Row, dict[str, Row]]]:
    """The rows of each place by system, with one of them to say where."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(where(row), {})[row["system"]] = row
    for systems in found.values():
        yield next(iter(systems.values())), systems


def _claim(text: str, holds: bool, **figures: Any) -> Row:
    return {"claim": text, "holds": holds, "figures": figures}


def _leads(rows: list[Row], target: str, name: str, words: str) -> list[Row]:
    """That hajax has the least of something, with the place where another comes nearest."""
    nearest: tuple[float, str, str] | None = None
    for one, systems in cells_of(rows):
        others = {system: row[name] for system, row in systems.items() if system != "hajax"}
        if "hajax" not in systems or not others:
            continue
        second = min(others, key=lambda system: others[system])
        ratio = others[second] / systems["hajax"][name]
        if nearest is None or ratio < nearest[0]:
            nearest = ratio, second, where(one)
    if nearest is None:
        return []
    text = f"{target}: hajax has {words} of the six at T >= {LEADS_FROM}, for every head configuration"
    return [_claim(text, nearest[0] >= 1, next_over_hajax_at_least=round(nearest[0], 4), next=nearest[1], where=nearest[2])]


def _over_hanpu(rows: list[Row], target: str) -> list[Row]:
    ratios = {
        where(one): round(systems["hanpu"]["modelled_cycles"] / systems["hajax"]["modelled_cycles"], 4)
        for one, systems in cells_of(rows)
        if one["mechanism"] == "gdn" and one["T"] == 4096 and {"hajax", "hanpu"} <= set(systems)
    }
    if not ratios:
        return []
    text = f"{target}: hajax takes at least {OVER_HANPU}x less modelled time than hanpu for GDN at T = 4096"
    return [_claim(text, min(ratios.values()) >= OVER_HANPU, hanpu_over_hajax=ratios)]


def _errors(rows: list[Row], operands: str, output: float, state: float) -> list[Row]:
    if not rows:
        return []
    worst = {name: max(rows, key=lambda row: row[name]) for name in ("output_nmse", "state_nmse")}
    holds = worst["output_nmse"]["output_nmse"] <= output and worst["state_nmse"]["state_nmse"] <= state
    clamped = sum(row["saturated"] for row in rows)
    return [
        _claim(
            f"{operands} operands: every cell is within NMSE {output:.3g} of fp64 in its output, {state:.3g} in its state, "
            "and clamps nothing",
            holds and clamped == 0,
            saturated=clamped,
            **{name: f"{row[name]:.3g} ({row['system']}, {where(row)})" for name, row in worst.items()},
        )
    ]


def _agree(agreement: list[Row]) -> list[Row]:
    found = []
    for operands, bound in (("split", OUTPUT_BOUND), ("single", SINGLE_BOUND)):
        own = [row for row in agreement if row["operands"] == operands]
        if own:
            worst = max(own, key=lambda row: row["most_apart_nmse"])
            text = f"{operands} operands: outputs of all systems are within NMSE {bound:.3g} of one another in every cell"
            figure = f"{worst['most_apart_nmse']:.3g} ({where(worst)})"
            found.append(_claim(text, worst["most_apart_nmse"] <= bound, most_apart_nmse=figure))
    return found


def _auto(rows: list[Row], auto: list[Row]) -> list[Row]:
    """That schedule "auto" takes what is best on the emulator; with the places where that is not hajax."""
    chosen = {where(row): row["schedule"] for row in auto}
    worst, others = (0.0, ""), []
    for one, systems in cells_of(rows):
        place = where(one)
        if place not in chosen or len(systems) < 2:
            continue
        best = min(systems, key=lambda system: systems[system]["modelled_cycles"])
        over = systems[chosen[place]]["modelled_cycles"] / systems[best]["modelled_cycles"]
        worst = max(worst, (over, place))
        if best != "hajax" or chosen[place] != best:
            hajax = systems["hajax"]["modelled_cycles"] / systems[best]["modelled_cycles"] if "hajax" in systems else None
            others.append({"where": place, "best": best, "auto": chosen[place], "hajax_over_best": hajax and round(hajax, 4)})
    if not worst[1]:
        return []
    text = f'schedule "auto" chooses what takes the least modelled time of the six, or is within {AUTO_SLACK - 1:.0%} of it'
    return [_claim(text, worst[0] <= AUTO_SLACK, most_over_best=round(worst[0], 4), where=worst[1], hajax_does_not_lead=others)]


def _extension(extension: list[Row]) -> list[Row]:
    if not extension:
        return []

    def most(modelled: bool, wanted: Callable[[str], bool]) -> tuple[float, str]:
        each = (
            (abs(off), f"{name}: {one['system']}, {where(one)}")
            for one in extension
            for name, off in one["off"].items()
            if name.startswith("modelled") == modelled and wanted(one["system"])
        )
        return max(each, default=(0.0, "none"))

    kinds = {
        "counted": (most(False, lambda system: True), COUNTS_OFF),
        "modelled": (most(True, lambda system: system != FITTING), TIME_OFF),
        f"modelled, {FITTING}": (most(True, lambda system: system == FITTING), FITTING_OFF),
    }
    text = (
        f"what is extended is within {COUNTS_OFF:.1%} of a run where it is counted, within {TIME_OFF:.0%} where modelled, of "
        f"{FITTING} within {FITTING_OFF:.0%}"
    )
    figures = {name: f"{off:.3%} ({place})" for name, ((off, place), _) in kinds.items()}
    return [_claim(text, all(off <= bound for (off, _), bound in kinds.values()), **figures)]
