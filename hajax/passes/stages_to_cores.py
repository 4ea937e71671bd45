"""Stages of a schedule of several launches to cores: chunks of all heads dealt out evenly, or whole heads where chunks follow
one another.
"""

from dataclasses import dataclass

from hajax.plans import Note


@dataclass(frozen=True, slots=True)
class Range:
    """Chunks of one head for one core. chunks -1: to the sequence's end."""

    sequence: int
    head: int
    first_chunk: int
    chunks: int


def chunks_to_cores(sequences: int, value_heads: int, chunks: int, cores: int) -> tuple[tuple[tuple[Range, ...], ...], Note]:
    """The chunks of all heads, one head behind the other, in as many equal runs as there are cores.

    Each is one item a head, as setting up a chunk of its own costs more than it works.
    """
    for field, size in (("sequences", sequences), ("value_heads", value_heads), ("chunks", chunks), ("cores", cores)):
        if size < 1:
            raise ValueError(f"{field}: expected at least 1, got {size}")
    total = sequences * value_heads * chunks
    shares = []
    for core in range(cores):
        at, end = total * core // cores, total * (core + 1) // cores
        share = []
        while at < end:
            head, first = divmod(at, chunks)
            last = min(end, (head + 1) * chunks)
            many = -1 if last == (head + 1) * chunks else last - at
            share.append(Range(*divmod(head, value_heads), first, many))
            at = last
        shares.append(tuple(share))
    most = max(total * (core + 1) // cores - total * core // cores for core in range(cores))
    note = Note(
        "stages_to_cores",
        f"{total} chunks of heads on {cores} cores, at most {most} each",
        "an item a chunk and head",
        f"{total - sum(map(len, shares))} items",
    )
    return tuple(shares), note


def segments_of(chunks: int, length: int) -> tuple[tuple[int, int], ...]:
    """First chunk and chunks of the segments of a sequence; the last one may be shorter."""
    if chunks < 1 or length < 1:
        raise ValueError(f"chunks, length: expected at least 1, got {chunks}, {length}")
    return tuple((first, min(length, chunks - first)) for first in range(0, chunks, length))
