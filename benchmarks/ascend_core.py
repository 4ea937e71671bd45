"""Six systems on one emulated chip: what each moves, multiplies and takes, held against fp64 and beside published figures.

    python benchmarks/ascend_core.py [--quick] [--json] [--lengths ...] [--heads 16x16,...] [--mechanism gdn|kda|both]
                                     [--targets ...] [--operands split|single|both] [--jobs 2]

Systems: hajax.schedules.COMPARED, by docs/schedules; all run the same kernel, routines and numerics, chunks of 64. Problems: the
cores of the Qwen3.5 models (equal ones are run once and shown for each model) on 310P1, 310P3 and, as a what-if, on a chip with
the sizes and rates of 310B1 that takes the 310P's instructions, as the kernel is written for those. Operands: split (every
operand that is not exact in fp16 has a high and a low part, and the error bound holds) or single (rounded to fp16 once, as the
originals have them, no bound; hajax has no such form).

A row: system, mechanism, target, model, Hk, Hv, T, operands; counted: gm_bytes, l1_to_l0_bytes, macs (useful: one round of each
product of the algorithm as the plan has it, again for each core that repeats it), macs_split (low parts), macs_bookkeeping (all
else), transform_bytes, launches, gm_workspace_bytes, gm_memory_bytes (workspace, inputs, output and states in GM),
peak_kernel_bytes (UB, L1, L0A, L0B, L0C in use on a core at most, of the launch that uses most), peaks (of each); modelled:
modelled_cycles, modelled_ms, modelled_mj, matrix_utilisation (the products that any form needs, 5 C D D a chunk of 128
channels, over what the cubes could do in the time: the same work for all systems); output_nmse and state_nmse of the cell's
plan against fp64 in its first checked_tokens.

extended: null, or the two lengths from which the figures were extended on a line in the chunks: MACs and workspace never are,
and a plan that is not of the same programs and items as those two is run. Runs end at T = 4096, of vllm_ascend with single
operands, which has over a hundred launches, at 2048. extension_checks holds how far off that is at one length more.

beside: rows of FlashQLA as its constants for a larger chip have it, long sequences in segments whose summaries are computed
first, on 310P1 up to where runs end: not one of the six, as it is slower here, but what the published figures may mean.

Claims are true or false, with figures; the program fails when one is false. --quick: 310P1, T = 512 and 4096, split operands,
nothing extended, within 3 minutes on two cores; the whole table takes less than 20.
"""

import argparse
import concurrent.futures
import dataclasses
import itertools
import multiprocessing
import sys
from typing import Any

import _ascend
import _cells
import _claims
import _harness
import _machine
import _published
import _tables
import utilisation
from _cells import CHECKED, PARTS, SYSTEMS, Place

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
QUICK_LENGTHS = (512, 4096)
MODELS = {"Qwen3.5-0.8B": (16, 16), "Qwen3.5-2B": (16, 16), "Qwen3.5-4B": (16, 32), "Qwen3.5-9B": (16, 32)}
HEADS = ("16x16", "16x32")
TARGETS = ("ascend310p1", "ascend310p3", "ascend310b1")
LONGEST = dict.fromkeys(itertools.product(SYSTEMS, PARTS), 4096) | {("vllm_ascend", _cells.SINGLE): 2048}
CHECK_PLACES = ("ascend310p1", 16, 16)  # where extension is held against runs
STAGES_AT = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What a place is asked for. longest: of a system and operands, tokens from which on it is extended."""

    lengths: tuple[int, ...]
    operands: tuple[str, ...]
    longest: dict[tuple[str, str], int]
    checks: bool  # of extension


def measure_place(place: Place, settings: Settings) -> dict[str, Any]:
    """Rows of all systems, lengths and operands, without models; what goes with them."""
    checker = _cells.Checker(place)
    found: dict[str, Any] = {
        "rows": [],
        "agreement": [],
        "auto": [],
        "extension_checks": [],
        "stages": [],
        "beside": [],
        "missing": [],
    }
    for tokens in settings.lengths:
        for operands in settings.operands:
            _harness.progress(f"{place} T={tokens} {operands}")
            outputs = []
            for system in SYSTEMS:
                if (why := _cells.lacking(system, operands)) is not None:
                    absent = {"system": system, "operands": operands, "reason": why}
                    found["missing"] += [] if absent in found["missing"] else [absent]
                    continue
                row, output = _row(place, tokens, system, operands, settings, checker)
                found["rows"].append(row)
                outputs.append(output)
            if place.target == _published.TARGET and tokens <= settings.longest["flashqla", operands]:
                found["beside"].append(_row(place, tokens, _cells.BESIDE, operands, settings, checker)[0])
            found["agreement"].append(
                {**_where(place, tokens), "operands": operands, "most_apart_nmse": _cells.most_apart(outputs)}
            )
        if "split" in settings.operands:
            found["auto"].append({**_where(place, tokens), "schedule": _cells.auto(place, tokens)})
        if tokens == STAGES_AT and "split" in settings.operands:
            found["stages"] += _stages(place, tokens, settings.operands)
    if settings.checks:
        found["extension_checks"] = [_extension_check(place, system, settings) for system in SYSTEMS]
    return found


def _where(place: Place, tokens: int) -> dict[str, Any]:
    return {
        "mechanism": place.mechanism, "target": place.target, "Hk": place.key_heads, "Hv": place.value_heads, "T": tokens,
    }  # fmt: skip


def _row(
    place: Place, tokens: int, system: str, operands: str, settings: Settings, checker: _cells.Checker
) -> tuple[dict[str, Any], Any]:
    counts, extended = _cells.counted(place, tokens, system, operands, settings.longest.get((system, operands), tokens))
    macs = _cells.macs(place, tokens, system, operands)
    if extended is None and macs.total != counts["executed_macs"]:
        raise AssertionError(f"{place} {system}: {macs.total} MACs in the plan, {counts['executed_macs']} counted")
    checked = checker.check(tokens, system, operands)
    workspace = _cells.workspace_bytes(place, tokens, system, operands)
    target = _cells.target_of(place.target)
    useful = utilisation.useful_macs(place.heads(tokens))
    row = {
        "system": system,
        **_where(place, tokens),
        "operands": operands,
        "gm_bytes": counts["gm_bytes"],
        "l1_to_l0_bytes": counts["l1_to_l0_bytes"],
        "macs": macs.useful,
        "macs_split": macs.split,
        "macs_bookkeeping": macs.bookkeeping,
        "transform_bytes": counts["transform_bytes"],
        "launches": counts["launches"],
        "gm_workspace_bytes": workspace,
        "gm_memory_bytes": workspace + _cells.tensor_bytes(place, tokens),
        "peak_kernel_bytes": counts["peak_kernel_bytes"],
        "peaks": counts["peaks"],
        "modelled_cycles": round(counts["modelled_cycles"]),
        "modelled_ms": round(counts["modelled_ms"], 4),
        "modelled_mj": round(counts["modelled_mj"], 4),
        "matrix_utilisation": round(useful / (_cells.TILE * target.ai_cores * counts["modelled_cycles"]), 4),
        "output_nmse": checked.output_nmse,
        "state_nmse": checked.state_nmse,
        "saturated": checked.saturated,
        "checked_tokens": min(tokens, CHECKED),
        "extended": extended,
    }
    return row, checked.output


def _stages(place: Place, tokens: int, operands: tuple[str, ...]) -> list[dict[str, Any]]:
    """What each launch of the systems with few of them does: where the bytes and products of a figure come from."""
    return [
        {**_where(place, tokens), "system": system, "operands": kind, **stage}
        for kind in operands
        for system in ("hajax", "hanpu", "fla", "flashqla")
        if _cells.lacking(system, kind) is None
        for stage in _cells.stages(place, tokens, system, kind)
    ]


def _extension_check(place: Place, system: str, settings: Settings) -> dict[str, Any]:
    """Figures of a length that is extended, over those of a run of it."""
    longest = settings.longest[system, "split"]
    tokens = 2 * longest
    _harness.progress(f"{place} {system}: extension to T={tokens} against a run")
    extended, lengths = _cells.counted(place, tokens, system, "split", longest)
    run = _cells.count(place, tokens, system, "split")
    off = {name: round(extended[name] / run[name] - 1, 6) if run[name] else 0.0 for name in _cells.ADDED}
    return {**_where(place, tokens), "system": system, "extended": lengths, "off": off}


def for_models(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The row once for each model that has such heads; for others their counts stand for a model."""
    heads = row["Hk"], row["Hv"]
    names = [name for name, of in MODELS.items() if of == heads] or [f"{heads[0]}x{heads[1]}"]
    return [
        {"system": row["system"], "mechanism": row["mechanism"], "target": row["target"], "model": name} | row for name in names
    ]


def run(places: list[Place], settings: Settings, checked: list[Place], jobs: int) -> dict[str, Any]:
    """Everything of these places, in processes of their own. checked: where extension is."""
    found: dict[str, Any] = {
        "rows": [],
        "agreement": [],
        "auto": [],
        "extension_checks": [],
        "stages": [],
        "beside": [],
        "missing": [],
    }
    ordered = sorted(places, key=lambda place: (place.mechanism != "kda", -place.value_heads, place.target))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        asked = {
            place: pool.submit(measure_place, place, dataclasses.replace(settings, checks=place in checked)) for place in ordered
        }
        for place in places:
            for name, of_place in asked[place].result().items():
                found[name] += [one for one in of_place if one not in found[name]] if name == "missing" else of_place
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing, claims, ...}")
    parser.add_argument("--quick", action="store_true", help="310P1, T = 512 and 4096, split operands")
    parser.add_argument("--lengths", help="tokens, comma-separated")
    parser.add_argument("--heads", default=",".join(HEADS), help="key heads x value heads, comma-separated")
    parser.add_argument("--mechanism", choices=(*_ascend.NAMES, "both"), default="both")
    parser.add_argument("--targets", help="chips, comma-separated")
    parser.add_argument("--operands", choices=(*PARTS, "both"))
    parser.add_argument("--jobs", default="2", help="processes")
    given = parser.parse_args()
    usual = QUICK_LENGTHS if given.quick else LENGTHS
    lengths = tuple(_ascend.positive(parser, "lengths", t) for t in given.lengths.split(",")) if given.lengths else usual
    heads = [_ascend.head_counts(parser, "heads", text) for text in given.heads.split(",")]
    targets = given.targets.split(",") if given.targets else TARGETS[:1] if given.quick else TARGETS
    if unknown := set(targets) - set(_cells.npu.names()):
        parser.error(f"--targets: expected some of {', '.join(_cells.npu.names())}, got {', '.join(sorted(unknown))}")
    operands = given.operands or ("split" if given.quick else "both")
    mechanisms = tuple(_ascend.NAMES) if given.mechanism == "both" else (given.mechanism,)
    places = [Place(m, target, *of) for m in mechanisms for target in targets for of in heads]
    longest = dict.fromkeys(LONGEST, max(lengths)) if given.quick else LONGEST
    settings = Settings(tuple(sorted(lengths)), tuple(PARTS) if operands == "both" else (operands,), longest, False)
    checked = [
        place for place in places if dataclasses.astuple(place)[1:] == CHECK_PLACES and max(lengths) > min(longest.values())
    ]
    found = run(places, settings, checked, _ascend.positive(parser, "jobs", given.jobs))
    cells = found["rows"]
    report = {
        "machine": _machine.facts(),
        **found,
        "rows": [row for cell in cells for row in for_models(cell)],
        "missing": found["missing"],
        "published": _published.compare([*cells, *found["beside"]]),
        "claims": _claims.claims(cells, found["auto"], found["agreement"], found["extension_checks"]),
    }
    _harness.publish(report, given.json, _tables.show)
    if false := [claim["claim"] for claim in report["claims"] if not claim["holds"]]:
        sys.exit(f"ascend_core: not true: {'; '.join(false)}")


if __name__ == "__main__":
    main()
