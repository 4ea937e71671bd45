"""Cycles of one instruction of an Ascend chip: the emulator's formulas over the same rows. Modelled, never measured."""

from collections.abc import Mapping

from hajax import abi
from hajax.targets import NpuTarget

GM_READS = ("gm_to_l1", "gm_to_ub", "gm_to_l0a", "gm_to_l0b", "gm_to_s")
GM_WRITES = ("ub_to_gm", "s_to_gm")
# What a byte costs at the end of a path that lies in the core; GM's end is counted by L2 and DDR bytes.
_END_FIELDS = {
    "GM": "", "L1": "pj_per_l1_byte", "UB": "pj_per_ub_byte", **dict.fromkeys(("L0A", "L0B", "L0C"), "pj_per_l0_byte"),
}  # fmt: skip
_SCALAR = ("gm_to_s", "s_to_gm")  # the scalar unit waits for its own accesses, a few bytes each: only the way counts


def path_rate(target: NpuTarget, path: str, *, in_l2: bool = True) -> float:
    """Bytes a cycle of long copies on a path of paths.def; on those of GM, with the bytes in L2 or not."""
    share = target.sustained_share
    if path in GM_READS:
        return target.gm_l2_read_rate * share if in_l2 else target.gm_ddr_read_rate
    if path in GM_WRITES:
        return target.gm_l2_write_rate * share if in_l2 else target.gm_ddr_write_rate
    rates = {
        "ub_to_l1": target.ub_to_l1_rate * share,
        "l1_to_ub": target.l1_to_ub_rate * share,
        "l1_to_l0a": target.l1_to_l0a_rate,
        "l1_to_l0b": target.l1_to_l0b_rate,
        "l0c_to_ub": target.l0c_to_ub_rate,
        "ub_to_l0c": target.ub_to_l0c_rate,
        "ub_to_ub": target.ub_to_ub_rate,
    }
    if path not in rates:
        raise ValueError(f"path: expected one of {', '.join((*GM_READS, *GM_WRITES, *rates))}, got {path!r}")
    return rates[path]


def instruction_cycles(
    target: NpuTarget, instruction: str, *, units: int = 0, bytes: int = 0, path: str | None = None, missed: int = 0
) -> float:
    """Cycles that an instruction keeps its pipe busy, its start included.

    instruction: of instructions.def; units: repeats, tiles or fractals; bytes: moved on `path`, of which `missed` are not in L2.
    A cube instruction right behind another one does not pay its start again.
    """
    if instruction not in target.costs:
        raise ValueError(f"instruction: expected one of {', '.join(target.costs)}, got {instruction!r}")
    if path in _SCALAR:
        return target.scalar_gm_cycles
    start, per_unit = target.costs[instruction]
    if path is None:
        return start + per_unit * units
    cycles = start + (bytes - missed) / path_rate(target, path)
    return cycles + missed / path_rate(target, path, in_l2=False) if missed else cycles


def instruction_latency(target: NpuTarget, instruction: str, *, path: str | None = None) -> float:
    """Cycles from an instruction's last busy one until its result is there; its successor on the pipe overlaps them."""
    if instruction == "mad":
        return target.cube_latency
    if path in _SCALAR:
        return 0.0
    if path in GM_READS:
        return target.gm_read_latency
    if path in GM_WRITES:
        return target.gm_write_latency
    return target.l1_latency if path in ("ub_to_l1", "l1_to_ub", "l1_to_l0a", "l1_to_l0b") else 0.0


def dynamic_microjoules(target: NpuTarget, counts: Mapping[str, int], *, l2_bytes: int, ddr_bytes: int) -> float:
    """Energy from a run's counts, by name as in `SimRun.counts`: MACs in whole tiles, vector lanes, bytes at both ends of a path.

    l2_bytes: between the cores and L2; ddr_bytes: between L2 and DDR.
    """
    picojoules = target.pj_per_mac * counts.get("macs", 0) + target.pj_per_vector_lane * counts.get("vector_lanes", 0)
    for _, path, source, to, *_ in abi.rows("paths"):
        ends = [_END_FIELDS[str(space)] for space in (source, to)]
        picojoules += sum(getattr(target, field) for field in ends if field) * counts.get(str(path), 0)
    return (picojoules + target.pj_per_l2_byte * l2_bytes + target.pj_per_ddr_byte * ddr_bytes) * 1e-6
