"""Slots of the workspace: tiles that live together never share bytes, others do; pieces of columns lie side by side."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hajax.lowering import slots, staged_channel, staged_scalar
from hajax.lowering.assembler import FULL, HALF, UNIT, Assembler, Constants, Dims
from hajax.lowering.slots import FP32, Field, put_parts, put_tile, room_for, slot_bytes, slot_of, take_parts
from hajax.lowering.tiles import Parts
from hajax.lowering.vector_tiles import Tile
from hajax.plans.program import Operand

HEAD = Dims(64, 128, 128, 1, False)
KIB = 1024
TILES = st.dictionaries(
    st.sampled_from("abcdefuhx"),
    st.tuples(st.integers(1, 4), st.integers(1, 8), st.sampled_from([FP32, 1, 2]), st.integers(0, 6), st.integers(0, 6)),
    min_size=1,
)


def drawn(found):
    """Tiles and lives."""
    tiles = {name: value[:3] for name, value in found.items()}
    return tiles, {name: (min(value[3:]), max(value[3:])) for name, value in found.items()}


def together(lives, one, other):
    return lives[one][0] <= lives[other][1] and lives[other][0] <= lives[one][1]


def ends(field):
    return field.place, field.place + field.bytes


@given(TILES)
def test_tiles_that_live_together_lie_apart(found):
    tiles, lives = drawn(found)
    slot = slot_of(tiles, lives)
    assert slot.keys() == tiles.keys()
    for one in slot:
        assert (slot[one].rows, slot[one].columns, slot[one].parts) == tiles[one]
        for other in slot:
            if one < other and together(lives, one, other):
                (start, end), (first, last) = ends(slot[one]), ends(slot[other])
                assert end <= first or last <= start, (one, other)


@given(TILES)
def test_a_slot_is_no_larger_than_it_may_be_and_holds_what_lives_at_once(found):
    tiles, lives = drawn(found)
    slot = slot_of(tiles, lives)
    bytes_of = {name: Field(0, *tile, False).bytes for name, tile in tiles.items()}
    at_once = max(sum(bytes_of[name] for name, (first, last) in lives.items() if first <= stage <= last) for stage in range(7))
    assert at_once <= slot_bytes(slot) <= sum(bytes_of.values())
    assert min(field.place for field in slot.values()) == 0
    assert all(field.place % UNIT == 0 for field in slot.values())


@given(TILES)
def test_a_tile_lies_as_far_down_as_those_that_live_with_it_let_it(found):
    """So it shares bytes wherever it can: what lies right before it lives with it."""
    tiles, lives = drawn(found)
    slot = slot_of(tiles, lives)
    for name, field in slot.items():
        ended = [other for other in slot if slot[other].place + slot[other].bytes == field.place]
        assert field.place == 0 or any(together(lives, name, other) for other in ended)


@given(TILES, st.randoms())
def test_the_order_in_which_tiles_are_named_changes_nothing(found, random):
    tiles, lives = drawn(found)
    names = list(tiles)
    random.shuffle(names)
    assert slot_of(tiles, lives) == slot_of({n: tiles[n] for n in names}, {n: lives[n] for n in names})


def test_only_tiles_that_live_have_a_place():
    assert slot_of({"A": (1, 1, 1), "B": (1, 1, 1)}, {"B": (0, 0)}) == {"B": Field(0, 1, 1, 1, False)}
    assert slot_of({}, {}) == {} and slot_bytes({}) == 0


@pytest.mark.parametrize(("parts", "fractal", "size"), [(FP32, FULL, FULL), (1, HALF, HALF), (2, HALF, 2 * HALF)])
def test_bytes_of_a_tile(parts, fractal, size):
    field = Field(0, 4, 3, parts, False)
    assert (field.fractal, field.part_bytes, field.bytes) == (fractal, 12 * fractal, 12 * size)


def test_what_stages_hand_on_is_what_the_study_counts():
    """KiB of a chunk and head of 64 x 128: with split operands A 16, w 32, u 32 in fp32, h 64, x 32; half of it in one part."""
    sizes = {name: Field(0, *tile, False).bytes // KIB for name, tile in staged_scalar.tiles_of(HEAD, 2).items()}
    assert sizes == {"A": 16, "w": 32, "u": 32, "h": 64, "x": 32}
    halves = {name: Field(0, *tile, False).bytes // KIB for name, tile in staged_scalar.tiles_of(HEAD, 1).items()}
    assert halves == {"A": 8, "w": 16, "u": 16, "h": 32, "x": 16}
    more = {name: Field(0, *tile, False).bytes for name, tile in staged_channel.tiles_of(HEAD, 2).items()}
    kept = staged_channel.kept_keys(HEAD)
    assert sum(more[name] for name in kept) == 32 * KIB
    assert more["P"] == 10 * 2 * HALF and more["decay"] == 8 * FULL
    assert set(more) == {*sizes, "P", "decay", *kept}


def steps_of(emit, parts=2):
    asm = Assembler(HEAD, Constants(), parts)
    asm.section = "body"
    emit(asm)
    return asm.steps["body"]


def stride(step):
    return step.p[4] + 256 * step.p[5]


PLACED = {
    "state columns": Field(3 * KIB, 4, 8, 2, True),
    "state columns in fp32": Field(3 * KIB, 4, 8, FP32, True),
    "keys": Field(3 * KIB, 4, 8, 2, False),
}


@pytest.mark.parametrize("name", PLACED)
def test_what_a_piece_of_columns_moves_starts_behind_the_columns_before_it(name):
    field, tile = PLACED[name], Tile(Operand("tile"), 4, 2, "blocked")
    (*_, last) = steps = [s for s in steps_of(lambda asm: put_tile(asm, tile, field, "t")) if s.opcode == "workspace_from_ub"]
    wanted = field.rows * field.fractal // UNIT if field.pieces else 0
    assert {stride(step) for step in steps} == {wanted}
    assert {step.size * UNIT for step in steps} == {4 * 2 * field.fractal}
    assert last.constant * UNIT == field.place + (max(1, field.parts) - 1) * field.part_bytes


def test_the_state_has_columns_and_what_is_handed_to_it_has_keys():
    tiles = staged_channel.tiles_of(HEAD, 2)
    slot = slot_of(tiles, dict.fromkeys(tiles, (0, 0)))
    assert {name for name, field in slot.items() if field.pieces} == {"u", "h", "x"}
    assert all(slot[name].columns == HEAD.values for name in ("u", "h", "x"))


@pytest.mark.parametrize("first", [0, 3])
def test_a_tile_may_be_put_from_any_column_block_on(first):
    field = PLACED["keys"]
    emitted = steps_of(lambda asm: put_tile(asm, Tile(Operand("tile"), 4, 2, "blocked"), field, "t", first=first))
    places = [step.constant * UNIT for step in emitted if step.opcode == "workspace_from_ub"]
    assert places == [field.place + part * field.part_bytes + first * 4 * HALF for part in range(2)]


@pytest.mark.parametrize("columns", [2, 8])
@pytest.mark.parametrize("parts", [1, 2])
def test_parts_that_are_put_lie_where_they_are_taken_from(parts, columns):
    field = dataclasses.replace(PLACED["state columns"], parts=parts)
    source = Parts(Operand("source"), 4 * columns if parts == 2 else 0)
    written = steps_of(lambda asm: put_parts(asm, source, field, columns, "t"), parts)
    read = steps_of(lambda asm: take_parts(asm, field, room_for(asm, field, "t", columns), columns, "t"), parts)
    assert bytes_in_slot(written, "workspace_from_ub") == bytes_in_slot(read, "workspace_to_l1")
    assert len(bytes_in_slot(read, "workspace_to_l1")) * UNIT == parts * 4 * columns * HALF
    moved = [(step.src0.offset, step.size * UNIT) for step in written if step.opcode == "l1_to_ub"]
    assert all(size <= slots.PIECE for _, size in moved)
    assert sorted(moved)[0][0] == 0 and sum(size for _, size in moved) == parts * 4 * columns * HALF


def bytes_in_slot(steps, opcode):
    """Units of 32 bytes, each once."""
    found = [unit for step in steps if step.opcode == opcode for unit in range(step.constant, step.constant + step.size)]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("parts", [0, 3, -2])
def test_operands_are_kept_in_one_or_two_parts(parts):
    with pytest.raises(ValueError, match=rf"^parts: expected 1 or 2, of fp16 that an operand is kept in, got {parts}$"):
        Assembler(HEAD, Constants(), parts)
