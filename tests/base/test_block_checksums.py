"""A flipped bit in a block is an error before the first use of that block, and costs nothing after it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._base.block_checksums import BLOCK_BYTES, BlockChecksums, CheckedBlocks
from loaderkit.errors import ChecksumError


def checksums_of(data: np.ndarray, cuts: list[int]) -> np.ndarray:
    checksums = BlockChecksums()
    for begin, end in itertools.pairwise([0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]):
        checksums.update(data[begin:end].data)
    return checksums.values()


def blocks_of(data: np.ndarray, offset: int = 0) -> CheckedBlocks:
    return CheckedBlocks("x.plan", data, checksums_of(data, []), offset=offset, advice="make it again")


LENGTHS = st.sampled_from([0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 200_000])


@given(LENGTHS, st.lists(st.integers(0, 200_000), max_size=5), st.integers(0, 9))
def test_pieces_do_not_matter(length: int, cuts: list[int], seed: int) -> None:
    """The checksums of bytes are those of their blocks, however the bytes were cut when they were written."""
    data = np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8)
    whole = checksums_of(data, [])
    assert np.array_equal(checksums_of(data, cuts), whole)
    assert len(whole) == -(-length // BLOCK_BYTES)
    CheckedBlocks("x", data, whole, offset=0, advice="").check_all()


@given(st.data())
def test_a_flip_is_an_error_of_its_block_alone(data: st.DataObject) -> None:
    """Ranges that touch the damaged block raise, named by their place in the file; all others don't, in any order."""
    length = data.draw(st.integers(1, 5 * BLOCK_BYTES))
    content = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)
    blocks = blocks_of(content, offset=100)
    place = data.draw(st.integers(0, length - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    damaged = place // BLOCK_BYTES
    ranges = st.tuples(st.integers(0, length - 1), st.integers(1, 2 * BLOCK_BYTES))
    for many in data.draw(st.lists(st.lists(ranges, min_size=1, max_size=4), min_size=1, max_size=4)):
        begins = np.array([begin for begin, _ in many])
        ends = np.minimum(begins + [size for _, size in many], length)
        touches = any(
            begin // BLOCK_BYTES <= damaged <= (end - 1) // BLOCK_BYTES for begin, end in zip(begins, ends)
        )
        for check in (
            lambda begins=begins, ends=ends: blocks.check_each(begins, ends),
            lambda begins=begins, ends=ends: [
                blocks.check(*each) for each in zip(begins.tolist(), ends.tolist())
            ],
        ):
            if touches:
                with pytest.raises(
                    ChecksumError, match=f"x.plan: bytes {100 + damaged * BLOCK_BYTES:,} to .*make it"
                ):
                    check()
            else:
                check()


@given(st.data())
def test_of_parts_that_were_read_the_whole_blocks_are_compared(data: st.DataObject) -> None:
    """A flip is an error of each part that has its whole block, each time, and of no other part."""
    length = data.draw(st.integers(1, 4 * BLOCK_BYTES))
    content = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)
    blocks = blocks_of(content)
    place = data.draw(st.integers(0, length - 1))
    content[place] ^= 1
    low = place // BLOCK_BYTES * BLOCK_BYTES
    near = st.sampled_from([0, low, min(low + BLOCK_BYTES, length), length])
    begin, end = sorted(data.draw(st.tuples(*[near | st.integers(0, length)] * 2)))
    begins, parts = np.array([0, begin]), [b"", content[begin:end].tobytes()]
    for _ in range(2):
        if begin <= low and end >= min(low + BLOCK_BYTES, length):
            with pytest.raises(ChecksumError, match=f"x.plan: bytes {low:,} to .*make it again"):
                blocks.check_read(begins, parts)
        else:
            blocks.check_read(begins, parts)


def test_a_block_is_compared_once() -> None:
    """What was good at its first use isn't read again: a later flip isn't noticed, and nothing is computed."""
    data = np.zeros(3 * BLOCK_BYTES, np.uint8)
    blocks = blocks_of(data)
    blocks.check_all()
    data[0] = 1
    blocks.check_all()
    blocks.check_each(np.array([0]), np.array([1]))


def test_the_number_of_checksums_must_fit() -> None:
    """A table that was cut is refused when the file is opened."""
    with pytest.raises(ValueError, match="checksums: expected 2, one for each block, got 1"):
        CheckedBlocks("x", np.zeros(BLOCK_BYTES + 1, np.uint8), np.zeros(1, np.uint32), offset=0, advice="")


def test_empty_ranges_need_nothing() -> None:
    """A range without bytes, or a file without any, has no block to compare."""
    blocks = blocks_of(np.empty(0, np.uint8))
    blocks.check(0, 0)
    blocks.check_all()
    blocks.check_each(np.empty(0, np.int64), np.empty(0, np.int64))
