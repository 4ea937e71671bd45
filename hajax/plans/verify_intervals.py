"""Who owns which bytes while items run, each access taken as the interval around it: quick, and wrong only on the safe side."""

from collections.abc import Iterator, Mapping, Sequence

from hajax.plans.footprint import Access
from hajax.plans.program import SPACES, Program

ITEMS = (1, 4)  # chunks of two items, one after the other: a single one, and more than there are stages
SETUP, FINISH = 0, 63  # moments; chunks lie between them
MOMENTS = 64
SECTIONS = ("setup", "body", "finish")
Accesses = Mapping[str, Sequence[Sequence[Access]]]  # by section: of each step, what it touches
Walked = Iterator[tuple[str, int, int, int]]  # section, step, version, moment
_Interval = tuple[str, int, int, bool, int, bool]  # memory, start, end, write, owner, kept
_Cut = tuple[str, int, int, bool, int, bool]  # the same, in pieces of the memory


def walk(program: Program, chunks: int, again: bool) -> Walked:
    """The steps of one item in order; `again`: the one before it on the core ran the same program."""
    for number, step in enumerate(program.setup):
        if not (step.first and again):
            yield "setup", number, int(step.last), SETUP
    for iteration in range(chunks + program.stages - 1):
        for number, step in enumerate(program.body):
            chunk = iteration - step.stage
            if 0 <= chunk < chunks and (chunk == 0 or not step.first) and (chunk == chunks - 1 or not step.last):
                yield "body", number, chunk % 2, chunk + 1
    for number in range(len(program.finish)):
        yield "finish", number, (chunks - 1) % 2, FINISH


def misled_by_intervals(program: Program, accesses: Accesses) -> set[str]:
    """Memories where some read would not find its own buffer's bytes if each step touched all from its first to its last one."""
    cut, owners = _cut(program, accesses)
    misled: set[str] = set()
    for again, chunks in enumerate(ITEMS):
        if again:
            _forget(program, cut["setup"], owners)
        for section, number, version, moment in walk(program, chunks, bool(again)):
            for space, first, behind, write, which, kept in cut[section][number][version]:
                mine, owner = which * MOMENTS, owners[space]
                if write:
                    owner[first:behind] = [mine + moment] * (behind - first)
                elif owner[first:behind].count(mine + moment) == behind - first:
                    continue
                elif not all(_allowed(found, mine, moment, kept) for found in owner[first:behind]):
                    misled.add(space)
    return misled


def _allowed(found: int, mine: int, moment: int, kept: bool) -> bool:
    """A kept buffer may hold what it got earlier, any one what setup left."""
    return mine <= found <= mine + moment if kept else found in (mine + moment, mine + SETUP)


def _forget(program: Program, setup: Sequence[Sequence[Sequence[_Cut]]], owners: Mapping[str, list[int]]) -> None:
    """Between two items of a program only what setup writes for the first one lasts, where it is still whole."""
    lasting = [
        (owners[space], first, behind, owners[space][first:behind])
        for step, versions in zip(program.setup, setup, strict=True)
        for space, first, behind, write, which, _ in (versions[step.last] if step.first else ())
        if write and owners[space][first:behind].count(which * MOMENTS + SETUP) == behind - first
    ]
    for owner in owners.values():
        owner[:] = [-1] * len(owner)
    for owner, first, behind, held in lasting:
        owner[first:behind] = held


def _cut(program: Program, accesses: Accesses) -> tuple[dict[str, list[list[list[_Cut]]]], dict[str, list[int]]]:
    """Of each step, its intervals for even and for odd chunks, in pieces; and the owners of each memory's pieces."""
    numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
    bounded = {name: [_intervals(step, program, numbers) for step in accesses[name]] for name in SECTIONS}
    ends: dict[str, set[int]] = {space: set() for space in SPACES}
    for steps in bounded.values():
        for versions in steps:
            for space, start, end, *_ in (*versions[0], *versions[1]):
                ends[space].update((start, end))
    pieces = {space: {end: at for at, end in enumerate(sorted(ends[space]))} for space in SPACES}
    owners = {space: [-1] * len(ends[space]) for space in SPACES}

    def cut(one: _Interval) -> _Cut:
        space, start, end, write, owner, kept = one
        return space, pieces[space][start], pieces[space][end], write, owner, kept

    found = {name: [[[cut(one) for one in version] for version in step] for step in steps] for name, steps in bounded.items()}
    return found, owners


def _intervals(step: Sequence[Access], program: Program, numbers: Mapping[str, int]) -> list[list[_Interval]]:
    """What a step touches with the versions of even chunks, and of odd ones."""
    versions: list[list[_Interval]] = [[], []]
    for access in step:
        number = numbers[access.buffer]
        buffer = program.buffers[number]
        assert buffer.address is not None, "addresses were checked before"
        for odd in (0, 1):
            second = odd == 1 and buffer.versions == 2
            start = buffer.address + (program.slot_bytes[buffer.space] if second else 0)
            versions[odd].append(
                (buffer.space, start + access.start, start + access.end, access.write, 2 * number + second, buffer.kept)
            )
    return versions
