"""What programs of a plan move from and to GM, and which pieces of work a launch's cores do one after the other."""

from dataclasses import dataclass

from hajax import abi
from hajax.passes.kernel_clock import STEP_BYTES
from hajax.passes.step_cost import gm_bytes
from hajax.passes.vector_cycles import BLOCK
from hajax.plans.footprint import UNIT, Dims, wide
from hajax.plans.program import Item, Launch, Program, Step

CONSTANTS, CODE = "constants", "code"
_BEHIND = 3  # sections
_OF_COLUMNS = ("value", "output", "state_in", "state_out")

Tensor = tuple[str, bool]  # with True: an item's columns of it
Place = tuple[str, int, int]  # of each slot of the workspace and of the constants, bytes from .. to; else the whole tensor


@dataclass(frozen=True, slots=True)
class Move:
    """What a step moves: of `tensor` bytes start .. end - 1, `each` further on for each block of columns before the item's."""

    tensor: Tensor
    start: int
    end: int
    each: int = 0
    write: bool = False

    @property
    def kept(self) -> bool:
        """Whether all items of a program find the same there."""
        return self.tensor[0] in (CONSTANTS, CODE)

    def place(self, column: int) -> Place:
        """Of an item from this column on."""
        more = column // BLOCK * self.each
        return (self.tensor[0], self.start + more, self.end + more)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of a program: its moves with their bytes, those of each chunk and those of each item, and what its items keep; heads of
    tensors that it moves; of the workspace, to each move those that have touched its bytes before, in the same chunk or the last.
    """

    body: dict[Move, int]
    ends: dict[Move, int]
    kept: dict[Move, int]
    heads: tuple[tuple[Tensor, int], ...]
    earlier: dict[Move, tuple[Move, ...]]

    @property
    def moves(self) -> tuple[Move, ...]:
        """All of them."""
        return tuple({**self.body, **self.ends, **self.kept})


@dataclass(frozen=True, slots=True)
class Piece:
    """An item with its chunks, and when its core works on it: in its launch, from 0 to 1."""

    item: Item
    chunks: int
    first: bool  # its chunks hold the sequence's first
    last: bool
    round: int
    begin: float
    end: float


def pieces_of(launch: Launch, all_chunks: int) -> list[list[Piece]]:
    """By core, the items that find chunks."""

    def chunks_of(item: Item) -> int:
        left = all_chunks - item.first_chunk
        return max(0, left if item.chunks < 0 else min(left, item.chunks))

    most = max(1, *(sum(map(chunks_of, core)) for core in launch.cores))
    cores: list[list[Piece]] = []
    for core in launch.cores:
        found, at = list[Piece](), 0
        for item in core:
            if chunks := chunks_of(item):
                ends = item.first_chunk == 0, item.first_chunk + chunks == all_chunks
                found.append(Piece(item, chunks, *ends, len(found), at / most, (at + chunks) / most))
                at += chunks
        cores.append(found)
    return cores


def traffic_of(number: int, program: Program, dims: Dims) -> Traffic:
    """Of a plan's program with this number."""
    body, ends, heads = dict[Move, int](), dict[Move, int](), dict[tuple[Tensor, int], None]()
    steps = len(program.setup) + len(program.body) + len(program.finish)
    kept = {Move((CODE, False), number, number + 1): steps * STEP_BYTES}
    order: dict[Move, tuple[int, ...]] = {}  # of a chunk's moves: section, stage, step; of those of an earlier chunk: behind all
    for place, (section, sums) in enumerate(((program.setup, ends), (program.body, body), (program.finish, ends))):
        for at, step in enumerate(section):
            move = move_of(step)
            if move is None:
                continue
            if move.kept:
                kept[move] = gm_bytes(step, dims)
                continue
            once = ends if step.first or step.last else sums
            once[move] = once.get(move, 0) + gm_bytes(step, dims)
            heads[move.tensor, step.p[1]] = None
            if move.tensor[0] == "workspace":
                order.setdefault(move, (_BEHIND, 0, 0) if wide(step.p, 2) else (place, step.stage, at))
    earlier = {
        move: tuple(one for one, its in order.items() if its < mine and one.start < move.end and move.start < one.end)
        for move, mine in order.items()
    }
    return Traffic(body, ends, kept, tuple(heads), earlier)


def move_of(step: Step) -> Move | None:
    """What a step moves from or to GM."""
    at, write = (UNIT * step.constant, UNIT * (step.constant + step.size)), step.opcode.endswith("_from_ub")
    if step.opcode.startswith("workspace"):
        each = UNIT * wide(step.p, 4)
        return Move(("workspace", each > 0), *at, each, write)
    if step.opcode.startswith("constant"):
        return Move((CONSTANTS, False), *at)
    if step.opcode.startswith(("rows", "gate")):
        name = abi.names("tensors")[step.p[0]]
        return Move((name, name in _OF_COLUMNS), 0, 1, 0, write)
    return None
