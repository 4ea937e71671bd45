"""Chunks of all heads dealt out: each once, in order, in equal shares, as one item a head wherever they follow one another."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hajax.passes.stages_to_cores import chunks_to_cores

SIZES = st.integers(1, 9)


def chunks_of(share, chunks):
    """(sequence, head, chunk) of a core's ranges, in the order in which it takes them."""
    found = []
    for one in share:
        end = chunks if one.chunks == -1 else one.first_chunk + one.chunks
        found += [(one.sequence, one.head, chunk) for chunk in range(one.first_chunk, end)]
    return found


@given(SIZES, SIZES, st.integers(1, 70), st.integers(1, 12))
def test_every_chunk_is_dealt_out_once_and_in_order(sequences, heads, chunks, cores):
    shares, _ = chunks_to_cores(sequences, heads, chunks, cores)
    assert len(shares) == cores
    dealt = [chunk for share in shares for chunk in chunks_of(share, chunks)]
    assert dealt == list(itertools.product(range(sequences), range(heads), range(chunks)))


@given(SIZES, SIZES, st.integers(1, 70), st.integers(1, 12))
def test_shares_differ_by_a_chunk_at_most_and_have_an_item_a_head(sequences, heads, chunks, cores):
    shares, note = chunks_to_cores(sequences, heads, chunks, cores)
    sizes = [len(chunks_of(share, chunks)) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert f"at most {max(sizes)} each" in note.choice and f"{sum(sizes)} chunks of heads on {cores} cores" in note.choice
    for share in shares:
        assert len(share) == len({(one.sequence, one.head) for one in share})
    assert note.saved == f"{sum(sizes) - sum(map(len, shares))} items"


@given(SIZES, SIZES, st.integers(1, 70), st.integers(1, 12))
def test_a_range_is_open_where_its_head_ends_and_nowhere_else(sequences, heads, chunks, cores):
    """So that a longer sequence than planned has one item for what is behind."""
    ranges = list(itertools.chain(*chunks_to_cores(sequences, heads, chunks, cores)[0]))
    ends = [one.chunks == -1 for one in ranges]
    following = [later.first_chunk == 0 for later in ranges[1:]]
    assert ends == [*following, True]
    assert sum(ends) == sequences * heads
    assert all(one.chunks == -1 or 0 < one.chunks < chunks for one in ranges)


def test_cores_without_work_have_no_items():
    shares, _ = chunks_to_cores(1, 1, 2, 4)
    assert [len(share) for share in shares] == [0, 1, 0, 1]


def test_the_mapping_of_a_small_problem():
    shares, _ = chunks_to_cores(1, 2, 5, 3)
    told = [[(one.head, one.first_chunk, one.chunks) for one in share] for share in shares]
    assert told == [[(0, 0, 3)], [(0, 3, -1), (1, 0, 1)], [(1, 1, -1)]]


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize("name", ["sequences", "value_heads", "chunks", "cores"])
def test_sizes_below_one_are_refused_by_name(name, size):
    sizes = {"sequences": 1, "value_heads": 1, "chunks": 1, "cores": 1, name: size}
    with pytest.raises(ValueError, match=rf"^{name}: expected at least 1, got {size}$"):
        chunks_to_cores(**sizes)
