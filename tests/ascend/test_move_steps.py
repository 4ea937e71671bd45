"""Steps that move data, against numpy: layouts, heads, columns, tails, states, gates, constants, the workspace."""

from pathlib import Path

import numpy as np
import pytest
import steps
from steps import FREE, ZERO_BYTES, flag, plan, program, step

from hajax import abi
from hajax.backends import npu

TENSOR = abi.table("tensors")
DENSE, COLUMNS, FRACTALS = range(3)
CHUNK = 32
SHAPE = {"key_heads": 2, "value_heads": 6, "key_dim": 48, "value_dim": 64}
WINDOW = SHAPE["key_dim"] * SHAPE["value_dim"] * 4  # bytes of UB that a test sees: what a head's state holds
UNTOUCHED = 0xEE
HEAD, HEADS = 2, 3  # an item's


def rows(tensor, head=0, block=0, layout=DENSE, state=0, first=0, blocks=0, itemsize=0):
    return (TENSOR[tensor], head, block, layout, state, first, blocks, itemsize)


def arrange(tile, layout):
    """A tile [rows, columns] as it lies in the core's memory, in one dimension."""
    count, columns = tile.shape
    if layout == DENSE:
        return tile.reshape(-1)
    if layout == COLUMNS:
        return tile.reshape(count, columns // 16, 16).transpose(1, 0, 2).reshape(-1)
    return tile.reshape(count // 16, 16, columns // 16, 16).transpose(0, 2, 1, 3).reshape(-1)


def run(body, tokens, *, column=0, columns=64, per_channel=False, strengths=1, setup=(), constants=b"", sequences=1, bounds=None,
        sequence=0):  # fmt: skip
    """What a window of UB holds behind the last chunk, after the body's steps, and the arrays of the call."""
    fill = bytes([UNTOUCHED]) * WINDOW + constants
    start = [step("constant_to_ub", dst=FREE, src0=ZERO_BYTES, size=WINDOW // 32), *setup]
    one = program(start, body, (), heads=HEADS, columns=columns)
    # The window goes out as a whole state, which only an item of all columns can write.
    out = program((), (), [step("rows_from_ub", src0=FREE, count=4, p=rows("state_out", state=1, itemsize=4))], columns=64)
    made = plan(
        [one, out], chunk=CHUNK, constants=fill, sequences=sequences, **SHAPE, decay="per_channel" if per_channel else "scalar",
        strengths=strengths, items=[(0, sequence, HEAD, column, 0, -1), (1, sequence, 0, 0, 0, -1)],
    )  # fmt: skip
    arrays = steps.call(tokens, **SHAPE, per_channel=per_channel, strengths=strengths, bounds=bounds, sequences=sequences)
    _, state, (done,) = npu.execute(made, arrays, scale=1.0)
    return np.frombuffer(state[0, sequence, 0].tobytes(), np.uint8), arrays, done


def compare(found, tile, layout, at=0):
    """The window is untouched but for the tile."""
    wanted = np.full(WINDOW, UNTOUCHED, np.uint8)
    flat = np.frombuffer(arrange(tile, layout).tobytes(), np.uint8)
    wanted[at : at + flat.size] = flat
    np.testing.assert_array_equal(found, wanted)


def last_chunk(tensor, head, tokens):
    """The tile of the last chunk with zeros below, all columns."""
    start = (tokens - 1) // CHUNK * CHUNK
    tile = tensor[0, start:tokens, head]
    return np.concatenate([tile, np.zeros((CHUNK - tile.shape[0], tile.shape[1]), tile.dtype)])


@pytest.mark.parametrize("tokens", [1, 15, 31, 32, 33, 64, 69])
@pytest.mark.parametrize("layout", [DENSE, COLUMNS])
@pytest.mark.parametrize("name", ["query", "key", "value", "log_decay"])
def test_rows_to_ub_takes_a_chunks_tokens_and_zeros_below(name, layout, tokens):
    body = [step("rows_to_ub", dst=FREE + 512, count=2, p=rows(name, head=1, block=1, layout=layout))]
    found, arrays, _ = run(body, tokens, per_channel=name == "log_decay")
    head = HEAD + 1 if name in ("value", "log_decay") else (HEAD + 1) // 3
    compare(found, last_chunk(arrays[name], head, tokens)[:, 16:48], layout, 512)


@pytest.mark.parametrize("tokens", [1, 32, 40])
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_rows_to_l1_gathers_column_blocks(name, tokens):
    size = CHUNK * 2 * 32
    body = [
        step("rows_to_l1", dst=1024, count=2, p=rows(name, head=2, block=1), set=[flag("MTE2_MTE1", 0)]),
        step("l1_to_ub", dst=FREE, src0=1024, size=size // 32, wait=[flag("MTE2_MTE1", 0)]),
    ]
    found, arrays, done = run(body, tokens)
    head = HEAD + 2 if name == "value" else (HEAD + 2) // 3
    compare(found, last_chunk(arrays[name], head, tokens)[:, 16:48], COLUMNS)
    chunks, zeros = -(-tokens // CHUNK), -tokens % CHUNK
    assert done.counts["gm_to_l1"] == (tokens + zeros) * 2 * 32
    assert done.counts["gm_to_l1_transfers"] == 2 * chunks + (2 if zeros else 0)


@pytest.mark.parametrize("layout", [DENSE, COLUMNS])
@pytest.mark.parametrize(("first", "blocks"), [(0, 0), (1, 2), (2, 1)])
def test_rows_to_ub_takes_rows_of_a_state(layout, first, blocks):
    body = [step("rows_to_ub", dst=FREE, count=1, p=rows("state_in", 1, 1, layout, 1, first, blocks))]
    found, arrays, _ = run(body, 5, column=32, columns=32)
    height = 16 * (blocks or 3)
    compare(found, arrays["state_in"][0, 0, HEAD + 1, 16 * first : 16 * first + height, 48:64], layout)


def test_an_items_columns_are_those_of_values_only():
    body = [
        step("rows_to_ub", dst=FREE, count=1, p=rows("value", block=1)),
        step("rows_to_ub", dst=FREE + 1024, count=1, p=rows("key", block=1)),
    ]
    found, arrays, _ = run(body, CHUNK, column=16, columns=32)
    assert (found[:1024].view(np.float16).reshape(32, 16) == arrays["value"][0, :, HEAD, 32:48]).all()
    assert (found[1024:2048].view(np.float16).reshape(32, 16) == arrays["key"][0, :, HEAD // 3, 16:32]).all()


@pytest.mark.parametrize("tokens", [3, 32, 50])
@pytest.mark.parametrize(("name", "strengths"), [("log_decay", 1), ("beta", 1), ("erase", 1), ("beta", 2), ("erase", 2)])
def test_gate_to_ub_takes_a_heads_gates_and_zeros_behind(name, strengths, tokens):
    found, arrays, _ = run([step("gate_to_ub", dst=FREE + 64, p=(TENSOR[name], 2))], tokens, strengths=strengths)
    array = arrays["log_decay"] if name == "log_decay" else arrays["beta"]
    if strengths == 2:
        array = array[..., 0 if name == "erase" else 1]
    start = (tokens - 1) // CHUNK * CHUNK
    wanted = np.zeros(CHUNK, np.float32)
    wanted[: tokens - start] = array[0, start:, HEAD + 2]
    compare(found, wanted[None], DENSE, 64)


def test_constants_go_to_ub_and_l1():
    constants = np.arange(1024, dtype=np.float32)
    at = ZERO_BYTES + WINDOW
    body = [
        step("constant_to_ub", dst=FREE, src0=at + 64, size=2),
        step("constant_to_l1", dst=4096, src0=at + 128, size=3, set=[flag("MTE2_MTE1", 7)]),
        step("l1_to_ub", dst=FREE + 64, src0=4096, size=3, wait=[flag("MTE2_MTE1", 7)]),
    ]
    found, _, _ = run(body, 1, constants=constants.tobytes())
    compare(found, constants[None, 16:56], DENSE)


def test_blocks_move_between_ub_and_l1_with_gaps():
    data = np.arange(2048, dtype=np.float32)
    at = ZERO_BYTES + WINDOW
    body = [
        step("constant_to_ub", dst=FREE, src0=at, size=64, set=[flag("MTE2_MTE3", 1)]),
        step("ub_to_l1", dst=2048, src0=FREE + 64, count=3, size=2, p=(1, 0, 5, 0), wait=[flag("MTE2_MTE3", 1)],
             set=[flag("MTE3_MTE1", 2)]),
        step("l1_to_ub", dst=FREE + 2048, src0=2048, count=2, size=2, p=(5, 0, 1, 1), wait=[flag("MTE3_MTE1", 2)]),
    ]  # fmt: skip
    found, _, _ = run(body, 1, constants=data.tobytes())
    blocks = data.reshape(-1, 8)
    for i in range(2):
        seen = found[2048 + i * 32 * (2 + 257) :][:64].view(np.float32).reshape(2, 8)
        assert (seen == blocks[2 + 3 * i : 4 + 3 * i]).all()


@pytest.mark.parametrize("output", ["float16", "float32"])
@pytest.mark.parametrize("tokens", [1, 16, 17, 31, 32, 75])
@pytest.mark.parametrize("layout", [DENSE, COLUMNS, FRACTALS])
def test_rows_from_ub_writes_the_tokens_there_are(layout, tokens, output):
    dtype = np.dtype(output)
    tile = (np.arange(CHUNK * 48) % 2039 / 8).astype(dtype).reshape(CHUNK, 48)
    setup = [step("constant_to_ub", dst=FREE, src0=ZERO_BYTES, size=tile.nbytes // 32)]
    body = [step("rows_from_ub", src0=FREE, count=3, p=rows("output", 1, 1, layout, itemsize=dtype.itemsize))]
    made = plan([program(setup, body, heads=HEADS, columns=64)], chunk=CHUNK, output=output, **SHAPE,
                constants=arrange(tile, layout).tobytes(), items=[(0, 0, HEAD, 0, 0, -1)])  # fmt: skip
    found, _, (done,) = npu.execute(made, steps.call(tokens, **SHAPE), scale=1.0)
    written = found[0, :, HEAD + 1, 16:64]
    assert (written == np.concatenate([tile] * 3)[:tokens]).all()
    found[0, :, HEAD + 1, 16:64] = np.nan
    assert np.isnan(found).all()  # nothing else was written
    assert done.counts["ub_to_gm"] == tokens * 48 * dtype.itemsize


@pytest.mark.parametrize("layout", [DENSE, COLUMNS, FRACTALS])
@pytest.mark.parametrize(("first", "blocks"), [(0, 0), (1, 2), (2, 1)])
def test_rows_from_ub_writes_rows_of_a_state(layout, first, blocks):
    height = 16 * (blocks or 3)
    tile = np.arange(height * 32, dtype=np.float32).reshape(height, 32)
    setup = [step("constant_to_ub", dst=FREE, src0=ZERO_BYTES, size=tile.nbytes // 32)]
    finish = [step("rows_from_ub", src0=FREE, count=2, p=rows("state_out", 2, 0, layout, 1, first, blocks, 4))]
    made = plan([program(setup, (), finish, heads=HEADS, columns=32)], chunk=CHUNK, **SHAPE,
                constants=arrange(tile, layout).tobytes(), items=[(0, 0, HEAD, 32, 0, -1)])  # fmt: skip
    _, state, _ = npu.execute(made, steps.call(40, **SHAPE), scale=1.0)
    place = state[0, 0, HEAD + 2, 16 * first : 16 * first + height, 32:64]
    assert (place == tile).all()
    place[:] = np.nan
    assert np.isnan(state).all()


def test_the_workspace_keeps_a_slot_for_each_head_and_chunk_between_launches():
    slot = CHUNK * 16 * 2
    tile, value = FREE, rows("value", 0, 0)
    write = [
        step("rows_to_ub", dst=tile, count=1, p=value, set=[flag("MTE2_MTE3", 0)]),
        step("workspace_from_ub", dst=64, src0=tile, size=slot // 32, p=(0, 0), wait=[flag("MTE2_MTE3", 0)]),
    ]
    read = [
        step("workspace_to_ub", dst=tile, src0=64, size=slot // 64, p=(0, 0), set=[flag("MTE2_MTE3", 0)]),
        step("workspace_to_l1", dst=0, src0=64 + slot // 2, size=slot // 64, p=(0, 0), set=[flag("MTE2_MTE1", 0)]),
        step("l1_to_ub", dst=tile + slot // 2, src0=0, size=slot // 64, wait=[flag("MTE2_MTE1", 0)], set=[flag("MTE1_MTE3", 0)]),
        step("rows_from_ub", src0=tile, count=1, p=rows("output", itemsize=2), wait=[flag("MTE2_MTE3", 0), flag("MTE1_MTE3", 0)]),
    ]
    programs = [program((), write, columns=16), program((), read, columns=16)]
    bounds = [[0, 40, 41, 100]]
    heads = range(SHAPE["value_heads"])
    items = [(p, s, head, 16, 0, -1) for p in (0, 1) for s in range(3) for head in heads]
    made = plan(programs, chunk=CHUNK, **SHAPE, sequences=3, slot_bytes=64 + slot, items=items,
                launches=[(0, (9, 9)), (18, (6, 6, 6))])  # fmt: skip
    arrays = steps.call(100, **SHAPE, sequences=3, bounds=bounds)
    found, _, runs = npu.execute(made, arrays, scale=1.0)
    assert (found[..., 16:32] == arrays["value"][..., 16:32]).all()
    assert [one.blocks for one in runs] == [2, 3]


def test_every_opcode_that_moves_is_named_here():
    source = Path(__file__).read_text(encoding="utf-8")
    moves = {row[1] for row in abi.rows("opcodes") if row[2] in ("MTE2", "MTE3") or row[1] == "l1_to_ub"}
    assert {name for name in moves if f'step("{name}"' not in source} == set()
