"""Whether a plan's items write every output once: each sequence, head, state column and chunk, over all launches."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from hajax import abi
from hajax.plans.footprint import chunks_back
from hajax.plans.model import Shape
from hajax.plans.program import Item, Launch, Program, Programs, Step
from hajax.targets import NpuTarget

_SIDE = 16
_ENDLESS = 1 << 31  # behind the last chunk, however many there are


def verify_items(shape: Shape, programs: Programs, target: NpuTarget) -> None:
    """Raises ValueError naming the item, or what is written twice or never."""
    writes = [_written(program, shape, f"launch.programs[{n}]") for n, program in enumerate(programs.programs)]
    segments = {n for n, program in enumerate(programs.programs) if _ends_with_sequence(program)}
    back = [max(map(chunks_back, (*p.setup, *p.body, *p.finish)), default=0) for p in programs.programs]
    covered: dict[str, list[tuple[int, int, int, int, int]]] = {"output": [], "state_out": []}
    if not programs.launches:
        raise ValueError("plan.launch.launches: expected at least one, got none")
    for at, launch in enumerate(programs.launches):
        here = f"launch.launches[{at}]"
        if not 1 <= len(launch.cores) <= target.ai_cores:
            raise ValueError(f"plan.{here}.cores: expected 1 to {target.ai_cores}, got {len(launch.cores)}")
        _verify_synced(programs.launches, at, here)
        for core, items in enumerate(launch.cores):
            for number, item in enumerate(items):
                where = f"plan.{here}.cores[{core}][{number}]"
                _verify_item(item, programs, shape, back, where)
                program = programs.programs[item.program]
                end = _ENDLESS if item.chunks < 0 else item.first_chunk + item.chunks
                for tensor in writes[item.program]:
                    ends = (item.first_chunk, end) if tensor == "output" or item.program in segments else (0, _ENDLESS)
                    for head in range(item.head, item.head + program.heads):
                        for column in range(item.column, item.column + program.columns, _SIDE):
                            covered[tensor].append((item.sequence, head, column, *ends))
    assert shape.batch is not None, "the shape was checked before"
    for tensor, pieces in covered.items():
        _verify_cover(tensor, pieces, shape.batch * shape.sequences, shape)


def _verify_synced(launches: Sequence[Launch], at: int, here: str) -> None:
    if not launches[at].synced:
        return
    if at + 1 == len(launches):
        raise ValueError(f"plan.{here}.synced: expected False, as no launch follows, got True")
    cores, wanted = (len(launch.cores) for launch in launches[at : at + 2])
    if cores != wanted:
        raise ValueError(f"plan.{here}.cores: expected {wanted}, as the launch that follows in the same kernel has, got {cores}")


def _verify_item(item: Item, programs: Programs, shape: Shape, back: Sequence[int], where: str) -> None:
    if not 0 <= item.program < len(programs.programs):
        raise ValueError(f"{where}.program: expected a number below {len(programs.programs)}, got {item.program}")
    program, sequences = programs.programs[item.program], (shape.batch or 0) * shape.sequences
    earlier = back[item.program]
    rules = (
        ("sequence", 0 <= item.sequence < sequences, f"a number below {sequences}"),
        ("head", 0 <= item.head <= shape.value_heads - program.heads, f"{program.heads} heads within {shape.value_heads}"),
        (
            "column",
            item.column % _SIDE == 0 and 0 <= item.column <= shape.value_dim - program.columns,
            f"a multiple of {_SIDE}, {program.columns} columns within {shape.value_dim}",
        ),
        ("first_chunk", item.first_chunk >= 0, ">= 0"),
        ("first_chunk", item.first_chunk >= earlier, f">= {earlier}, as the program reads of chunks that far back"),
        ("chunks", item.chunks == -1 or item.chunks >= 1, "-1 or >= 1"),
        ("first_chunk", item.first_chunk < _ENDLESS, f"below {_ENDLESS}"),
        ("chunks", item.first_chunk + item.chunks < _ENDLESS, f"an end below {_ENDLESS}"),
    )
    for field, holds, expected in rules:
        if not holds:
            raise ValueError(f"{where}.{field}: expected {expected}, got {getattr(item, field)}")


def _written(program: Program, shape: Shape, where: str) -> tuple[str, ...]:
    """Which outputs a program writes: all of an item's part of them, once, or nothing."""
    tensors = abi.names("tensors")
    found = []
    for tensor in ("output", "state_out"):
        pieces: dict[tuple[int, int, int], int] = defaultdict(int)
        for name in ("setup", "body", "finish"):
            for step in getattr(program, name):
                if step.opcode == "rows_from_ub" and tensors[step.p[0]] == tensor:
                    _check_moment(step, tensor, name, where)
                    for piece in _pieces(step, shape):
                        pieces[piece] += 1
        rows = shape.key_dim // _SIDE if tensor == "state_out" else 1
        wanted = [(h, c, r) for h in range(program.heads) for c in range(program.columns // _SIDE) for r in range(rows)]
        wrong = [piece for piece in wanted if pieces[piece] != 1]
        if sum(pieces.values()) and wrong:
            head, column, row = wrong[0]
            raise ValueError(
                f"plan.{where}: expected head {head}, columns from {column * _SIDE}, rows from {row * _SIDE} of {tensor} to be "
                f"written once, got {pieces[wrong[0]]} times"
            )
        if sum(pieces.values()):
            found.append(tensor)
    return tuple(found)


def _ends_with_sequence(program: Program) -> bool:
    """Whether its items write a state only where they have the sequence's last chunk."""
    state = abi.names("tensors").index("state_out")
    stores = [step for step in program.finish if step.opcode == "rows_from_ub" and step.p[0] == state]
    return bool(stores) and all(step.last for step in stores)


def _check_moment(step: Step, tensor: str, section: str, where: str) -> None:
    """output: for every chunk; state_out: once, after the last one."""
    fits = section == "body" and not step.first and not step.last
    if tensor == "state_out":
        fits = section == "finish" or (section == "body" and step.last)
    if not fits:
        raise ValueError(f"plan.{where}.{section} ({step.label or step.opcode}): expected {tensor} to be written elsewhere")


def _pieces(step: Step, shape: Shape) -> list[tuple[int, int, int]]:
    """(head, block of 16 columns, block of 16 rows) of the item; a chunk's rows are one."""
    columns = range(step.p[2], step.p[2] + step.count)
    rows = range(1) if step.p[4] == 0 else range(step.p[5], step.p[5] + (step.p[6] or shape.key_dim // _SIDE))
    return [(step.p[1], column, row) for column in columns for row in rows]


def _covers(pieces: Sequence[tuple[int, int, int, int, int]], sequences: int, shape: Shape) -> bool:
    """Whether each column of each head of each sequence is there from its first chunk to its last one, once."""
    sequence, head, column, start, end = np.array(pieces, np.int64).reshape(-1, 5).T
    columns = shape.value_dim // _SIDE
    place = (sequence * shape.value_heads + head) * columns + column // _SIDE
    order = np.lexsort((start, place))
    place, start, end = place[order], start[order], end[order]
    first = np.append(True, place[1:] != place[:-1])
    last = np.append(first[1:], True)
    whole = np.array_equal(place[first], np.arange(sequences * shape.value_heads * columns))
    return whole and not start[first].any() and (end[last] == _ENDLESS).all() and (start[~first] == end[~last]).all()


def _verify_cover(tensor: str, pieces: list[tuple[int, int, int, int, int]], sequences: int, shape: Shape) -> None:
    if pieces and _covers(pieces, sequences, shape):
        return
    chunks: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    for sequence, head, column, start, end in pieces:
        chunks[sequence, head, column].append((start, end))
    for sequence in range(sequences):
        for head in range(shape.value_heads):
            for column in range(0, shape.value_dim, _SIDE):
                found = sorted(chunks[sequence, head, column])
                ends = [0, *(end for _, end in found)]
                if not found or ends[-1] != _ENDLESS or [start for start, _ in found] != ends[:-1]:
                    part = f"{tensor} of sequence {sequence}, head {head}, columns from {column}"
                    raise ValueError(f"plan.launch.launches: expected {part} to be written once, chunk by chunk, got {found}")
