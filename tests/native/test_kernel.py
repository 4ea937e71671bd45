"""The kernels of libhajax_cpu, called directly, against a token recurrence in float64. Each run is checked to have been the ISA
that was asked for.
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_driver import DTYPES, ISAS, ON_TILES, Case, decode, execute, ffi, inputs_of, last_error, library, recurrence

from hajax import abi

ROOT = Path(__file__).parents[2]
NMSE = 1e-11
EPS = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}  # rounding of an output element


def nmse(got, expected):
    return ((got - expected) ** 2).sum() / max((expected**2).sum(), 1e-30)


def check(case):
    inputs = inputs_of(case)
    status, output, state, counters = execute(case, inputs)
    assert status == 0, last_error()
    expected, expected_state = recurrence(case, inputs, case.dk**-0.5)
    got = decode(output, case.out)
    assert np.isfinite(got).all()
    assert np.isfinite(state).all()
    rounding = 0 if case.out == "float32" else EPS[case.out]
    assert nmse(got, expected) <= NMSE + rounding**2
    assert nmse(state.astype(np.float64), expected_state) <= NMSE
    largest = np.abs(expected).max(initial=1e-30)
    assert np.abs(got - expected).max(initial=0) <= (3e-5 + rounding) * largest
    assert counters["isa"] == abi.table("isas")[case.isa], "another ISA ran"
    assert counters["tasks"] == case.batch * inputs["state_in"].shape[1] * case.hk * case.r // case.group * case.blocks
    lengths = np.diff(inputs["bounds"], axis=1)
    share = case.hk * case.r // case.group * case.blocks
    assert counters["token_steps"] == lengths[lengths <= case.steps].sum() * share
    assert counters["chunks"] == (-(-lengths[lengths > case.steps] // case.chunk)).sum() * share
    return inputs, output, state, counters


LENGTHS = [1, 2, 5, 15, 16, 17, 63, 64, 65, 130, 300]
DIMS = [(8, 8), (24, 8), (8, 24), (40, 40), (128, 128), (128, 24), (40, 256), (256, 40)]
CASES = [
    *[Case(t=t, steps=0) for t in LENGTHS],
    *[Case(t=t, steps=1000) for t in LENGTHS],
    *[Case(t=t, chunk=chunk, steps=0) for t in (31, 33, 130) for chunk in (16, 32, 128)],
    *[Case(dk=dk, dv=dv, steps=steps, t=35, hk=2) for dk, dv in DIMS for steps in (0, 1000)],
    *[
        Case(hk=2, r=r, group=group, dv=dv, steps=steps)
        for r in (2, 3)
        for group in {1, r}
        for dv in (24, 64)
        for steps in (0, 99)
    ],
    *[
        Case(hk=4, r=r, group=heads * r, steps=steps, t=70, dk=16, g=g, channels=channels, blocks=blocks, dv=72)
        for r in (1, 2)
        for heads in (2, 4)
        for steps in (0, 99)
        for g, channels, blocks in (("mixed", False, 1), ("mixed", True, 1), ("none", False, 2))
    ],
    *[Case(dv=dv, blocks=blocks, steps=steps, r=2) for dv, blocks in ((64, 2), (72, 2), (128, 3), (128, 4)) for steps in (0, 99)],
    *[
        Case(g=g, t=70, dtype=d)
        for g in ("none", "0", "-1e-4", "-5", "-20", "-80", "-1e4", "-1e30", "-inf")
        for d in ("float32", "bfloat16")
    ],
    *[  # decays that add up over chunks until a state has to take them in, and that are too strong for tiles in some heads
        Case(g=g, t=300, r=r, group=r, steps=0, dk=40)
        for g in ("-0.02", "-0.3", "-0.7", "-0.78", "-0.8", "mixed")
        for r in (1, 2)
    ],
    *[Case(g=g, t=20, steps=99) for g in ("none", "0", "-1e-4", "-20", "-1e4", "-inf")],
    *[Case(beta=beta, g="-1e-4", steps=steps) for beta in ("0", "1") for steps in (0, 99)],
    *[Case(eps=eps, steps=steps, g="-0.05") for eps in (-1.0, 1e-6, 1e-3) for steps in (0, 99)],
    *[Case(delta=0, g=g, steps=steps, eps=-1.0) for g in ("none", "mixed") for steps in (0, 99)],
    *[Case(strengths=2, g=g, steps=steps, t=t) for g in ("none", "mixed") for steps in (0, 99) for t in (7, 70)],
    *[Case(strengths=2, channels=True, g="mixed", steps=steps, t=70) for steps in (0, 99)],
    *[Case(channels=True, t=t, steps=0) for t in LENGTHS],
    *[Case(channels=True, t=t, steps=1000) for t in (1, 2, 17)],
    *[Case(channels=True, t=t, chunk=chunk, steps=0) for t in (8, 9, 24, 31, 100, 130) for chunk in (16, 32, 128)],
    *[Case(channels=True, dk=dk, dv=dv, steps=steps, t=35, hk=2, r=2) for dk, dv in DIMS for steps in (0, 99)],
    *[Case(channels=True, r=r, group=group, dv=72, blocks=2, t=70, hk=2) for r in (2, 3) for group in {1, r}],
    *[Case(channels=True, delta=0, g="mixed", t=t, steps=steps, eps=-1.0) for t in (9, 70) for steps in (0, 99)],
    *[
        Case(channels=True, g=g, t=t, steps=steps)
        for g in ("0", "-1e-4", "-0.3", "-5", "-20", "-80", "-1e4", "-1e30", "-inf")
        for t, steps in ((70, 0), (9, 99))
    ],
    *[Case(channels=True, dtype=d, out=d, t=40) for d in ("bfloat16", "float16")],
    *[Case(channels=True, batch=3, t=97, lengths=(1, 0, 40, 3, 0, 50), start=2, state=s, alias=s) for s in (True, False)],
    *[Case(dtype=d, out=o, dv=40, steps=s) for d in DTYPES for o in DTYPES for s in (0, 99)],
    *[Case(batch=3, t=97, lengths=(1, 0, 40, 3, 0, 50), start=2, state=s, alias=a) for s in (True, False) for a in (True, False)],
    Case(lengths=(0,), t=9),
    Case(lengths=(0, 0), t=0),
    Case(lengths=(65,), t=65, dv=72, alias=True, blocks=2, r=2, group=2),
    Case(steps=99, t=20, alias=True),
    Case(dk=128, dv=128, t=200, hk=2, r=2, group=2, blocks=2),
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_the_recurrence(case, isa):
    check(replace(case, isa=isa))


@pytest.mark.parametrize("isa", ON_TILES)
@pytest.mark.parametrize("case", [case for case in CASES if case.steps < case.t and not case.channels], ids=str)
def test_matrix_tiles_equal_the_recurrence(case, isa):
    """Within the same bounds: products of bf16 parts lose no more than fp32 does."""
    case = replace(case, isa=isa, bf16_dot=1)
    counters = check(case)[3]
    assert counters["bf16_dot"] == int(counters["chunks"] > 0)
    if case.g == "mixed":  # most chunks have a decay that is too strong, and ran in floats: once more without
        mild = check(replace(case, g="mild"))[3]
        assert not mild["chunks"] or mild["macs"] > check(replace(case, g="mild", bf16_dot=0))[3]["macs"]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("steps", [0, 99])
def test_subnormal_numbers_count_as_zero_whoever_calls(isa, channels, steps):
    """As under XLA, whose threads flush them. The caller's own arithmetic goes on as before."""
    case = Case(isa=isa, t=20, g="-1e-4", steps=steps, channels=channels, workers=2)
    inputs = inputs_of(case)
    inputs["state_in"] = np.full_like(inputs["state_in"], 1e-40)
    inputs["value"] = np.zeros_like(inputs["value"])
    status, output, state, _ = execute(case, inputs)
    assert status == 0, last_error()
    assert not state.any() and not decode(output, case.out).any()
    assert np.float32(1e-40) * np.float32(0.5) > 0


@pytest.mark.skipif(not library().hajax_cpu_bf16_dot(), reason="this CPU has no bf16 dot product")
@pytest.mark.parametrize("t", LENGTHS)
def test_bf16_dot_equals_the_recurrence(t):
    case = Case(isa="avx512", dtype="bfloat16", bf16_dot=1, t=t, steps=0, dk=128, dv=128, r=2, group=2)
    assert check(case)[3]["bf16_dot"] == 1


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "case",
    [
        Case(r=2, hk=3, blocks=2, dv=72, t=150),
        Case(t=3, hk=4, steps=9),
        Case(batch=2, hk=2, t=40),
        Case(channels=True, r=2, hk=3, blocks=2, dv=72, t=150),
        Case(channels=True, t=3, hk=4, steps=9),
    ],
    ids=str,
)
def test_bits_do_not_depend_on_workers_or_on_the_run(case, isa):
    case = replace(case, isa=isa)
    inputs = inputs_of(case)
    runs = [execute(replace(case, workers=w), inputs) for w in (1, 1, 2, 3)]
    for status, output, state, counters in runs:
        assert status == 0, last_error()
        assert output.tobytes() == runs[0][1].tobytes()
        assert state.tobytes() == runs[0][2].tobytes()
        assert counters["macs"] == runs[0][3]["macs"]
    assert [run[3]["workers"] for run in runs] == [1, 1, 2, 3]


@pytest.mark.parametrize("isa", ISAS)
def test_work_is_counted_with_its_padding(isa):
    token = check(Case(isa=isa, t=3, steps=4, hk=2, r=2, dk=16, dv=24))[3]
    assert token["macs"] == 3 * 3 * 2 * 2 * 16 * 24
    chunk = check(Case(isa=isa, t=64, steps=0, dk=128, dv=128))[3]
    least = 3 * 64 * 128 * 128 + 2 * 128 * 64 * 65 // 2 + 2 * 128 * 64 * 63 // 2
    assert least <= chunk["macs"] <= 1.25 * least
    if isa in ON_TILES:  # six products of bf16 parts for one of floats, less those that are solved in floats, and larger tiles
        tiles = check(Case(isa=isa, t=64, steps=0, dk=128, dv=128, g="mild", bf16_dot=1))[3]
        assert 5.5 * least <= tiles["macs"] <= 7 * least


@pytest.mark.parametrize("channels", [False, True])
def test_a_state_carried_over_calls_equals_one_call(channels):
    for isa in ISAS:
        case = Case(isa=isa, t=130, hk=2, dk=64, dv=32, channels=channels)
        inputs = inputs_of(case)
        whole = execute(case, inputs)
        state, outputs = inputs["state_in"], []
        for begin, end in ((0, 1), (1, 64), (64, 67), (67, 130)):
            part = {k: v[:, begin:end] for k, v in inputs.items() if k not in ("state_in", "bounds")}
            part |= {"state_in": state, "bounds": np.array([[0, end - begin]], np.int32)}
            status, output, state, _ = execute(replace(case, t=end - begin), part)
            assert status == 0
            outputs.append(output)
        assert nmse(np.concatenate(outputs, 1).astype(float), whole[1].astype(float)) <= NMSE
        assert nmse(state.astype(float), whole[2].astype(float)) <= NMSE


def test_the_library_was_built_from_this_abi():
    assert ffi().string(library().hajax_abi_digest()).decode() == abi.digest()


def test_isa_objects_hold_no_weak_symbol():
    objects = sorted(ROOT.glob("build/**/hajax_kernels.dir/cpu/kernels/*.o"))
    if not objects or not shutil.which("nm"):
        pytest.skip("no object files beside the sources, or no nm")
    for path in objects:
        lines = subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout.splitlines()
        kinds = {line.split()[-1]: line.split()[-2] for line in lines}
        assert not [name for name, kind in kinds.items() if kind in "WwVvu"], path
        assert len([name for name, kind in kinds.items() if kind in "TDBR"]) == 1, f"{path}: more than its one table is exported"
