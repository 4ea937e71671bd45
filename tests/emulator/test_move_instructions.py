"""Moves between the memories of the emulated chip against numpy, over drawn counts, lengths, gaps, strides and modes."""

import re

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from move_model import BROADCASTS, COPIES, FILLS, LOADS, PRESET_MODES, RESULT_MODES, RESULTS, WINDOW, Model, images
from move_program import BLOCK, CRMODES, DTYPES, FRACTAL, OPCODES, Program, half_of_float, library, runs

from hajax import abi
from hajax.backends import sim
from hajax.backends.sim import SimFault

pytestmark = pytest.mark.native


def test_every_instruction_has_a_case():
    cases = [*COPIES, *LOADS, *FILLS, *RESULTS, *BROADCASTS]
    moves = {str(row[1]) for row in abi.rows("instructions") if row[3] == "move"}
    assert moves == {name for name in moves if any(case == name or case.startswith(f"{name}_") for case in cases)}
    assert set(cases) <= set(OPCODES)


def reach(count, length, gap, unit=BLOCK):
    return count * length * unit + (count - 1) * gap


@st.composite
def copies(draw):
    name = draw(st.sampled_from(sorted(COPIES)))
    to, source, _ = COPIES[name]
    count = draw(st.one_of(st.integers(1, 4), st.integers(5, 40)))
    length = draw(st.one_of(st.integers(1, 2), st.integers(3, 30)))
    half = 2 if to == source else 1  # UB to UB: from the lower half to the upper
    most = min(30, (min(WINDOW[to], WINDOW[source]) // half // BLOCK - count * length) // count)
    gaps = st.one_of(st.just(0), st.integers(0, most))
    src_gap, dst_gap = draw(gaps), draw(gaps)
    room = [WINDOW[space] // half - reach(count, length, gap * BLOCK) for space, gap in ((to, dst_gap), (source, src_gap))]
    steps = [1 if space == "GM" else BLOCK for space in (to, source)]
    dst, src = (draw(st.integers(0, r // step)) * step for r, step in zip(room, steps, strict=True))
    return name, dst + (WINDOW["UB"] // 2 if half == 2 else 0), src, count, length, src_gap, dst_gap


@settings(max_examples=25)
@given(st.lists(copies(), min_size=1, max_size=12), st.integers(0, 1 << 30))
def test_copies_move_the_runs_that_their_arguments_name(drawn, seed):
    note(f"case copies seed={seed} {drawn}")
    model, program = Model(seed), Program()
    for one in drawn:
        program.add(*one, 0)
        model.copy(*one)
    model.expect(program, images(seed))


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize(("count", "length", "src_gap", "dst_gap"), [(1, 1, 0, 0), (7, 1, 3, 0), (7, 1, 0, 3), (3, 5, 2, 1)])
def test_each_copy(name, count, length, src_gap, dst_gap):
    model, program = Model(1), Program()
    case = (name, 48 * 1024, 1024, count, length, src_gap, dst_gap)
    program.add(*case, 0)
    model.copy(*case)
    done = model.expect(program, images(1))
    assert done.counts[name] == 1


@st.composite
def loads(draw):
    name = draw(st.sampled_from(sorted(LOADS)))
    to, source, _ = LOADS[name]
    repeat = draw(st.integers(0, 12))
    stride = draw(st.one_of(st.just(0), st.integers(1, 8)))
    gap = draw(st.one_of(st.just(0), st.integers(1, 6)))
    down = draw(st.booleans())
    most = WINDOW[source] // FRACTAL - 1
    span = max(repeat - 1, 0) * stride
    start = draw(st.integers(span, most) if down else st.integers(0, most - span))
    odd = draw(st.integers(0, min(5, most - start))) if source == "L1" else 0
    src = odd * BLOCK if start < most and (down or start + span < most) else 0
    rest = (draw(st.integers(0, 1)) if name in ("load_cbuf_to_ca", "load_cbuf_to_cb") else 0, int(down))
    step = BLOCK if to == "L1" else FRACTAL
    dst = draw(st.integers(0, (WINDOW[to] - max(reach(repeat, 1, gap * FRACTAL, FRACTAL), 0)) // step)) * step
    return name, dst, src, start, repeat, stride, gap, *(rest if source == "L1" else rest[1:])


@settings(max_examples=25)
@given(st.lists(loads(), min_size=1, max_size=12), st.integers(0, 1 << 30))
def test_loads_take_fractals_up_or_down_and_turn_them(drawn, seed):
    note(f"case loads seed={seed} {drawn}")
    model, program = Model(seed), Program()
    for one in drawn:
        program.add(*one)
        model.load(*one)
    model.expect(program, images(seed))


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("down", [0, 1])
def test_each_load(name, down):
    rest = (int(name in ("load_cbuf_to_ca", "load_cbuf_to_cb")), down) if LOADS[name][1] == "L1" else (down,)
    case = (name, 2 * FRACTAL, FRACTAL, 20, 5, 3, 1, *rest)
    model, program = Model(2), Program()
    program.add(*case)
    model.load(*case)
    done = model.expect(program, images(2))
    assert done.counts[re.sub("_[su]8$", "", name)] == 1


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("repeat", [0, 1, 7])
def test_fills_are_fractals_of_one_value(name, repeat):
    case = (name, 3 * FRACTAL, repeat, 0xBEEF)
    model, program = Model(3), Program()
    program.add(*case)
    model.fill(*case)
    done = model.expect(program, images(3))
    assert done.counts[name] == 1


def test_fills_of_310b_have_blocks_and_gaps():
    before = {space: image for space, image in images(4).items() if space != "GM"}
    program = Program()
    program.add("create_cbuf_matrix_b32", 64, 3 | 2 << 16 | 5 << 32, 0x12345678)
    program.add("create_ca_matrix_b32", FRACTAL, 2 | 3 << 16 | 1 << 32, 0x9ABCDEF0)
    program.add("create_cb_matrix_b32", 0, 4 | 0 << 16, 7)  # no blocks: nothing
    found, _ = program.run(before, np.zeros(BLOCK, np.uint8), "ascend310b1")
    before["L1"][64 + runs(3, 2, 5 * BLOCK)] = np.full(3 * 2 * BLOCK // 4, 0x12345678, np.uint32).view(np.uint8)
    words = np.full(2 * 3 * FRACTAL // 4, 0x9ABCDEF0, np.uint32).view(np.uint8)
    before["L0A"][FRACTAL + runs(2, 3, FRACTAL, FRACTAL)] = words
    for space, image in before.items():
        np.testing.assert_array_equal(found[space], image, err_msg=space)


def test_310b_loads_elements_of_four_bytes():
    before = {space: image for space, image in images(5).items() if space != "GM"}
    program = (
        Program().add("load_cbuf_to_ca_f32", 0, 0, 1, 3, 2, 0, 0, 0).add("load_cbuf_to_cb_f32", FRACTAL, 0, 4, 2, 1, 1, 0, 0)
    )
    found, _ = program.run(before, np.zeros(BLOCK, np.uint8), "ascend310b1")
    for i in range(3):
        np.testing.assert_array_equal(found["L0A"][i * FRACTAL :][:FRACTAL], before["L1"][(1 + 2 * i) * FRACTAL :][:FRACTAL])
    for i in range(2):
        np.testing.assert_array_equal(
            found["L0B"][(1 + 2 * i) * FRACTAL :][:FRACTAL], before["L1"][(4 + i) * FRACTAL :][:FRACTAL]
        )


def scale_word(mode, factor, relu_after=False):
    if mode == "DEQSCALE_DEQ16":
        return int(np.array([factor], np.float32).view(np.uint32)[0]) | int(relu_after) << 47
    return int(np.array([factor], np.float16).view(np.uint16)[0])


@st.composite
def results(draw):
    out, vector = draw(st.booleans()), draw(st.booleans())
    pair = draw(st.sampled_from(sorted(RESULT_MODES if out else PRESET_MODES)))
    mode = draw(st.sampled_from((RESULT_MODES if out else PRESET_MODES)[pair]))
    name = f"copy_{'vector' if vector else 'matrix'}_{'cc_to_ubuf' if out else 'ubuf_to_cc'}_{'_'.join(pair)}"
    count, length = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    l0c_gap, ub_gap = draw(st.integers(0, 4)), draw(st.integers(0, 9))
    sizes = [np.dtype(DTYPES[part]).itemsize for part in pair]
    l0c_bytes, ub_bytes = (sizes[1], sizes[0]) if out else sizes
    l0c_room = WINDOW["L0C"] // (256 * l0c_bytes) - reach(count, length, l0c_gap, 1)
    ub_room = (WINDOW["UB"] - reach(count, length, ub_gap * BLOCK, (16 if vector else 256) * ub_bytes)) // BLOCK
    l0c = draw(st.integers(0, l0c_room)) * 256 * l0c_bytes
    ub = draw(st.integers(0, ub_room)) * BLOCK
    scale = scale_word(mode, draw(st.sampled_from([1.0, 0.0625, -3.0, 0.3])), draw(st.booleans()))
    operands = (ub, l0c, count, length, l0c_gap, ub_gap) if out else (l0c, ub, count, length, ub_gap, l0c_gap)
    return name, *operands, CRMODES.index(mode), scale


@settings(max_examples=30)
@given(st.lists(results(), min_size=1, max_size=8), st.integers(0, 1 << 30))
def test_results_move_between_l0c_and_ub_as_fractals_or_their_first_rows(drawn, seed):
    note(f"case results seed={seed} {drawn}")
    model, program = Model(seed), Program()
    for one in drawn:
        before = images(seed)
        model, program = Model(seed), Program()
        # Integers that a scale leaves in range, where the source is one of them.
        if one[0].endswith("_f16_s32"):
            before["L0C"] = np.random.default_rng(seed).integers(-(1 << 26), 1 << 26, WINDOW["L0C"] // 4, np.int32).view(np.uint8)
            model.image["L0C"] = before["L0C"].copy()
        if one[0].endswith("_f16_f16") and "cc_to_ubuf" in one[0]:
            before["L0C"] = half_of_float(before["L0C"].view(np.float32)).view(np.uint8).repeat(2)[: WINDOW["L0C"]]
            before["L0C"] = np.where(before["L0C"] & 0x7C == 0x7C, before["L0C"] & 0x83, before["L0C"]).astype(np.uint8)
            model.image["L0C"] = before["L0C"].copy()
        program.together("set_deqscale", one[-1])
        program.add(*one[:-1])
        model.result(*one)
        model.expect(program, before)


@pytest.mark.parametrize("name", RESULTS)
def test_each_move_of_results_and_the_modes_that_it_refuses(name):
    pair = tuple(name.split("_")[-2:])
    known = (RESULT_MODES if "cc_to_ubuf" in name else PRESET_MODES).get(pair, ())
    zeros = {"L0C": np.zeros(8192, np.uint8), "UB": np.zeros(8192, np.uint8)}
    for number, mode in enumerate(CRMODES):
        program = Program().add(name, 0, 0, 1, 1, 0, 0, number)
        if mode in known:
            done = program.run(zeros, np.zeros(BLOCK, np.uint8))[1]
            assert done.counts[re.sub("_[fsu][0-9]+_[fsu][0-9]+$", "", name)] == 1
            continue
        with pytest.raises(SimFault, match=rf"mode {number}") as caught:
            program.run(zeros, np.zeros(BLOCK, np.uint8))
        assert caught.value.check == "unsupported"


def test_floats_become_halves_to_nearest_even_and_clamped():
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2
    values = [halves, middles, np.nextafter(middles, np.float32(0)), np.nextafter(middles, np.float32(np.inf))]
    values.append(np.array([65519.996, 65520, 65536, 1e30, np.inf, 1e-30, 2.0**-25, 2.0**-24 * 1.5], np.float32))
    positive = np.concatenate(values)
    every = np.concatenate([positive, -positive, np.array([np.nan], np.float32)])
    for part in np.array_split(every, 16):
        source = np.zeros(WINDOW["L0C"] // 4, np.float32)
        source[: part.size] = part
        fractals = -(-part.size // 256)
        program = Program().add("copy_matrix_cc_to_ubuf_f16_f32", 0, 0, 1, fractals, 0, 0, CRMODES.index("F32toF16_NONE"))
        found, done = program.run({"L0C": source, "UB": np.zeros(WINDOW["UB"], np.uint8)}, np.zeros(BLOCK, np.uint8))
        with np.errstate(over="ignore"):
            clamped = int(np.isinf(part.astype(np.float16)).sum())
        expected = half_of_float(part).view(np.uint16)
        np.testing.assert_array_equal(found["UB"].view(np.uint16)[: part.size], expected)
        assert done.counts["saturated"] == clamped


def test_clamping_is_an_error_on_request():
    source = np.full(256, 1e6, np.float32)
    program = Program().add("copy_matrix_cc_to_ubuf_f16_f32", 0, 0, 1, 1, 0, 0, CRMODES.index("F32toF16_NONE"))
    before = {"L0C": source, "UB": np.zeros(512, np.uint8)}
    with pytest.raises(SimFault, match="256 results were clamped") as caught:
        program.run(before, np.zeros(BLOCK, np.uint8), fatal_saturation=True)
    assert caught.value.check == "saturated"


@pytest.mark.parametrize("kind", ["f16", "f32", "s32"])
@pytest.mark.parametrize(("count", "length", "src_gap", "dst_gap"), [(1, 1, 0, 0), (1, 4, 0, 0), (3, 2, 1, 2)])
def test_a_broadcast_fills_fractals_with_rows(kind, count, length, src_gap, dst_gap):
    case = (f"broadcast_ub_to_cc_{kind}", 2048, 96, count, length, src_gap, dst_gap)
    model, program = Model(6), Program()
    program.add(*case)
    model.broadcast(*case)
    done = model.expect(program, images(6))
    assert done.counts["broadcast_ub_to_cc"] == 1


@pytest.mark.parametrize(("setter", "dtype"), [("f32", np.float32), ("f16", np.float16), ("s16", np.int16), ("s32", np.int32)])
def test_atomic_copies_add_to_what_gm_holds(setter, dtype):
    rng = np.random.default_rng(7)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        held, added = rng.integers(info.min, info.max, (2, 512), dtype)
        expected = np.clip(held.astype(np.int64) + added, info.min, info.max).astype(dtype)
    else:
        held, added = (rng.uniform(-1, 1, (2, 512)) * 65000).astype(dtype)
        exact = held.astype(np.float32) + added.astype(np.float32)
        expected = half_of_float(exact) if dtype == np.float16 else exact
    odd = 3  # GM operands may start anywhere
    gm = np.zeros(4096, np.uint8)
    gm[odd : odd + held.nbytes] = held.view(np.uint8)
    after = gm.copy()
    blocks = held.nbytes // BLOCK
    after[odd : odd + held.nbytes] = expected.view(np.uint8)
    program = Program().add(f"set_atomic_{setter}").add("copy_ubuf_to_gm", odd, 0, 2, blocks // 2, 0, 0)
    program.add("set_atomic_none").add("copy_ubuf_to_gm", 3072, 0, 1, 1, 0, 0)
    after[3072 : 3072 + BLOCK] = added.view(np.uint8)[:BLOCK]
    found, _ = program.run({"UB": added}, gm, "ascend310b1")
    np.testing.assert_array_equal(found["GM"], after)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("rounds", [1, 3])
def test_cores_add_in_their_order_whatever_the_threads(threads, rounds):
    rng = np.random.default_rng(8)
    cores = 6
    terms = (rng.standard_normal((cores, 256)) * 10.0 ** rng.integers(-6, 6, (cores, 256))).astype(np.float32)
    expected = np.zeros(256, np.float32)
    for term in [*terms] * rounds:
        expected = expected + term
    for _ in range(5):
        options = sim.SimOptions(threads=threads)
        arguments = [terms, np.zeros(256, np.float32), 1024, rounds]
        done = sim.run(library(), "add_up", arguments, blocks=cores, options=options)
        np.testing.assert_array_equal(done.arrays[1], expected)


def test_counts_need_no_arithmetic():
    program = Program()
    program.add("copy_gm_to_ubuf", 0, 0, 3, 1, 2, 0).add("load_cbuf_to_ca", 0, 0, 0, 2, 1, 0, 1, 0)
    program.add("copy_matrix_cc_to_ubuf_f16_f32", 0, 0, 1, 2, 0, 0, CRMODES.index("F32toF16_NONE"))
    program.add("mad_f32_f16", 0, 0, 0, 16, 32, 16, 0).add("create_cb_matrix", 0, 3, 1).add(
        "broadcast_ub_to_cc_f32", 0, 0, 1, 1, 0, 0
    )
    before = images(9)
    gm = before.pop("GM")
    left = program.run(before, gm)[1].counts
    right = program.run(before, gm, counts_only=True)[1].counts
    assert {name: n for name, n in left.items() if name != "saturated"} == {n: c for n, c in right.items() if n != "saturated"}
