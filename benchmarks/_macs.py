"""MACs of the cube by what they are for, from the steps of a plan that still has its labels.

useful: the products of the published count, operands unsplit; split: the same products again with low parts of operands;
bookkeeping: all else (diagonal scalings, what splits through the accumulator, sums of gates, merges of the inverse).
"""

from dataclasses import dataclass

from hajax.plans.program import Program, Programs, Step

TILE = 16**3
K_GROWS, N_GROWS, TRIANGLE = 2, 8, 16  # bits of p[6] (abi/opcodes.def)
# A W is one product: where it is done as A V and A2 (K S), the first one counts as it. With a decay per channel every level of
# halving does the blocks on the diagonal again: the first one counts as them.
USEFUL = frozenset(
    {"K K^T", "Q K^T", "K S, Q S", "K S", "Q S", "A V", "A W", "x", "u", "u32", "w", "w32", "w S", "M S", "P x", "K^T x", "K^T Y",
     "written keys^T x", "end rows^T x", "near blocks", "far blocks", "level 32", "level 16", "level 8"}
)  # fmt: skip
TWICE = frozenset({"A2 K S"})


@dataclass(frozen=True, slots=True)
class Macs:
    """Counts of whole 16 x 16 x 16 products."""

    useful: int = 0
    split: int = 0
    bookkeeping: int = 0

    @property
    def total(self) -> int:
        return self.useful + self.split + self.bookkeeping

    def plus(self, other: "Macs", times: int = 1) -> "Macs":
        return Macs(
            self.useful + times * other.useful,
            self.split + times * other.split,
            self.bookkeeping + times * other.bookkeeping,
        )


def macs_of(programs: Programs, chunks: int) -> Macs:
    """Of a call whose sequences all have so many chunks."""
    total = Macs()
    for item in (item for launch in programs.launches for core in launch.cores for item in core):
        own = chunks - item.first_chunk
        own = own if item.chunks < 0 else min(own, item.chunks)
        if own > 0:
            total = total.plus(_of_item(programs.programs[item.program], own))
    return total


def _of_item(program: Program, chunks: int) -> Macs:
    total = Macs()
    for section, times in ((program.setup, 1), (program.body, chunks), (program.finish, 1)):
        for step in section:
            if step.opcode == "mmad":
                assert not (step.first or step.last), "products of some chunks only are not counted here"
                total = total.plus(of_step(step), times)
    return total


def of_step(step: Step) -> Macs:
    """Of one mmad step."""
    one = TILE * _tiles(step)
    again = one * ((step.p[7] != 0) + (step.index != 0))
    if step.label in USEFUL:
        return Macs(one, again, 0)
    return Macs(0, again, one) if step.label in TWICE else Macs(0, 0, one + again)


def _tiles(step: Step) -> int:
    """16 x 16 x 16 products of one round."""
    m, n, k = step.p[:3]
    how = step.p[6]
    if how & TRIANGLE:
        return m * n * k * step.count * (step.count + 1) // 2
    return sum(m * (n + i * bool(how & N_GROWS)) * (k + i * bool(how & K_GROWS)) for i in range(step.count))
