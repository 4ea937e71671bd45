"""What each of the planner's choices saves: the same problem through plans with ever more of them switched on.

    python benchmarks/ablation.py [--json] [--length 4096] [--heads 16x16] [--mechanism gdn|kda|both] [--specialised]

On an emulated 310P1, from the chunk-head mapping (schedule chunk_head: none of the switches) to the last variant, each with
the switches of the one before it and one more:
  mapping   heads stay on a core through all their chunks (without it every chunk of every head is an item of its own for what
            needs no state, handed on through GM to a second launch, in which heads take up their states); of a decay per
            channel most work needs no state, so that heads which leave cores idle may take longer than their chunks did
  order     the state's update last and in place (without it a second state version is written and fetched back through GM)
  layouts   each vector chain Blocked or Dense as planned (without it all of them Dense that can be, with transforms at every
            boundary)
  dataflow  splits, row scales and states as products of the cube, instead of elementwise work on the vector unit
All of them run the same kernel and routines with the same numerics: up to dataflow, which rounds elsewhere, their results have
the same bits. Each has the emission order that the planner finds for it, none of those that were searched for beforehand, as
not every variant has one; what they add to the last variant is a row beside, and so is the second state version left in UB.

A row: mechanism, T, switches, gm_bytes, l1_to_l0_bytes, transform_bytes, macs_useful, macs_split, macs_bookkeeping (_macs.py
says which is which), modelled_cycles; launches, peak_ub_bytes and helps (fewer cycles than the row before; null for the first)
beside.
Counts are exact, cycles modelled. Variants that no schedule has, or that do not fit the chip, are named under missing with why.
"""

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any
from unittest import mock

import _ascend
import _harness
import _machine
import _macs

from hajax import plans
from hajax.backends import npu as emulated
from hajax.lowering import vector_state
from hajax.lowering.assembler import Dims
from hajax.mechanisms import MECHANISMS
from hajax.passes import pipeline
from hajax.schedules import ascend, hanpu
from hajax.targets import NpuTarget

CHUNK = 64
Maker = Callable[[_ascend.Heads, NpuTarget], plans.Plan]


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """A plan with some switches on. `beside`: shown for comparison, not one of the chain."""

    switches: str
    make: Maker
    beside: bool = False


def _without_known_orders(make: Maker) -> Maker:
    def made(heads: _ascend.Heads, target: NpuTarget) -> plans.Plan:
        with mock.patch.object(pipeline, "known_order", return_value=None):
            return make(heads, target)

    return made


def _vector(order: vector_state.Order) -> Maker:
    """The vector form in this order, all chains Dense that can be, mapped as hanpu is."""

    @_without_known_orders
    def make(heads: _ascend.Heads, target: NpuTarget) -> plans.Plan:
        mechanism, shape = MECHANISMS[_ascend.NAMES[heads.mechanism]], _ascend.shape_of(heads)
        form = hanpu.form_of(mechanism, order, hanpu.PLAIN[mechanism.decay])
        made = ascend.schedule("hanpu", mechanism, shape, target, 0, form)
        assert isinstance(made.launch, plans.Programs)
        if order != "spilled" or made.launch.workspace_slot_bytes:
            return made
        slot = vector_state.spill_bytes(Dims(CHUNK, heads.key_dim, heads.value_dim, 1, False))
        return dataclasses.replace(made, launch=dataclasses.replace(made.launch, workspace_slot_bytes=slot))

    return make


def _scheduled(name: str) -> Maker:
    return lambda heads, target: _ascend.labelled_plan_of(heads, target, name)


VARIANTS = (
    Variant("none", _without_known_orders(_scheduled("chunk_head"))),
    Variant("mapping", _vector("spilled")),
    Variant("mapping, second state version in UB", _vector("definition"), beside=True),
    Variant("mapping, order", _vector("planned")),
    Variant("mapping, order, layouts", _without_known_orders(_scheduled("hanpu"))),
    Variant("mapping, order, layouts, dataflow", _without_known_orders(_scheduled("hajax"))),
    Variant("mapping, order, layouts, dataflow, searched orders", _scheduled("hajax"), beside=True),
)


def measure(variant: Variant, heads: _ascend.Heads, target: NpuTarget, specialised: bool) -> dict[str, Any]:
    """One row, without `helps`. Raises ValueError when there is no such plan."""
    plan = variant.make(heads, target)
    assert isinstance(plan.launch, plans.Programs)
    more = {"specialised": True} if specialised else {}
    runs = emulated.execute(plans.to_bytes(plan), _ascend.blank(heads), scale=1.0, target=target, options=_ascend.FAST, **more)[2]
    macs = _macs.macs_of(plan.launch, -(-heads.tokens // heads.sequences // CHUNK))

    def total(*names: str) -> int:
        return sum(run.counts[name] for run in runs for name in names)

    if macs.total != total("macs"):
        raise AssertionError(f"{variant.switches}: {macs.total} MACs in the plan, {total('macs')} counted")
    return {
        "mechanism": heads.mechanism,
        "T": heads.tokens,
        "switches": variant.switches,
        "gm_bytes": sum(_ascend.gm_bytes(run.counts) for run in runs),
        "l1_to_l0_bytes": total("l1_to_l0a", "l1_to_l0b"),
        "transform_bytes": total("transform_bytes"),
        "macs_useful": macs.useful,
        "macs_split": macs.split,
        "macs_bookkeeping": macs.bookkeeping,
        "modelled_cycles": round(sum(run.timing["cycles"] for run in runs)),
        "launches": len(runs),
        "peak_ub_bytes": max(run.counts["peak_ub"] for run in runs),
    }


def ablate(heads: _ascend.Heads, target: NpuTarget, specialised: bool) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Rows and what is missing, of one mechanism."""
    rows, missing = [], []
    before: int | None = None
    for variant in VARIANTS:
        _harness.progress(f"{heads.mechanism}: {variant.switches}")
        try:
            row = measure(variant, heads, target, specialised)
        except ValueError as error:
            missing.append({"mechanism": heads.mechanism, "switches": variant.switches, "reason": str(error)})
            continue
        row["helps"] = None if before is None or variant.beside else row["modelled_cycles"] < before
        before = before if variant.beside else row["modelled_cycles"]
        rows.append(row)
    return rows, missing


def show(report: dict[str, Any]) -> None:
    names = ("gm_bytes", "l1_to_l0_bytes", "transform_bytes", "macs_useful", "macs_split", "macs_bookkeeping", "modelled_cycles")
    heads = ("GM MiB", "L1-L0 MiB", "transf. MiB", "useful GMAC", "split", "bookkeep.", "k cycles")
    units = (2**20, 2**20, 2**20, 1e9, 1e9, 1e9, 1e3)
    print(f"{'':<56}" + "".join(f"{head:>12}" for head in heads))
    for row in report["rows"]:
        cells = "".join(f"{row[name] / unit:>12.2f}" for name, unit in zip(names, units, strict=True))
        mark = "  SLOWER" if row["helps"] is False else ""
        print(f"{row['mechanism']} {row['switches']:<52}{cells}{mark}")
    for absent in report["missing"]:
        print(f"missing: {absent['mechanism']}: {absent['switches']}: {absent['reason']}")
    print(_ascend.MODELLED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object {machine, rows, missing}")
    parser.add_argument("--length", default="4096")
    parser.add_argument("--heads", default="16x16", help="key heads x value heads")
    parser.add_argument("--mechanism", choices=(*_ascend.NAMES, "both"), default="both")
    parser.add_argument("--specialised", action="store_true", help="with kernels made of each plan's programs")
    parser.add_argument("--target", default="ascend310p1")
    given = parser.parse_args()
    target = _ascend.chip(given.target)
    tokens = _ascend.positive(parser, "length", given.length)
    key_heads, value_heads = _ascend.head_counts(parser, "heads", given.heads)
    rows, missing = [], []
    for mechanism in _ascend.NAMES if given.mechanism == "both" else (given.mechanism,):
        of = ablate(_ascend.Heads(mechanism, tokens, key_heads, value_heads), target, given.specialised)
        rows += of[0]
        missing += of[1]
    _harness.publish({"machine": _machine.facts(), "rows": rows, "missing": missing}, given.json, show)


if __name__ == "__main__":
    main()
