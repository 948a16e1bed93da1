"""Shards are checked when they are made, and resolved to plain numbers."""

import pickle

import numpy as np
import pytest

from loaderkit._order.sharding import NoSharding, ShardBlocks, Sharding, ShardOptions


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (ShardOptions(2, 4), "ShardOptions(shard_index=2, shard_count=4, drop_remainder=False)"),
        (ShardOptions(0, 1, True), "ShardOptions(shard_index=0, shard_count=1, drop_remainder=True)"),
        (NoSharding(), "NoSharding(shard_index=0, shard_count=1, drop_remainder=False)"),
    ],
)
def test_they_print_their_numbers_and_travel(options, text):
    """What is printed says everything, and a pickled copy is equal."""
    assert repr(options) == text
    assert pickle.loads(pickle.dumps(options)) == options
    assert isinstance(options, Sharding)


def test_no_sharding_is_shard_0_of_1():
    """Both notations resolve to equal shards."""
    assert NoSharding().resolve() == ShardOptions(0, 1).resolve() == ShardOptions(0, 1)
    assert type(NoSharding().resolve()) is ShardOptions


def test_numpy_integers_become_plain_ones():
    """Two spellings of a shard are equal and print alike."""
    options = ShardOptions(np.int32(1), np.int64(2))
    assert options == ShardOptions(1, 2)
    assert repr(options) == repr(ShardOptions(1, 2))


def test_they_cant_be_changed():
    """A shard can't be changed."""
    with pytest.raises(AttributeError):
        ShardOptions(0, 2).shard_index = 1


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((0, 0), ValueError, "shard_count: expected 1 or more, got 0; give the number of processes"),
        ((0, -3), ValueError, "shard_count: expected 1 or more, got -3"),
        ((4, 4), ValueError, "shard_index: expected an int from 0 to 3, got 4; shards are"),
        ((-1, 4), ValueError, "shard_index: expected an int from 0 to 3, got -1"),
        ((0.0, 4), TypeError, "shard_index: expected an int, got 0.0"),
        ((0, "4"), TypeError, "shard_count: expected an int, got '4'"),
        ((True, 4), TypeError, "shard_index: expected an int, got True"),
        ((0, 4, 1), TypeError, "drop_remainder: expected True or False, got 1"),
    ],
)
def test_bad_numbers_are_refused_by_name(arguments, error, text):
    """The error names the argument, what was expected, what came and what to do."""
    with pytest.raises(error, match=text):
        ShardOptions(*arguments)


@pytest.mark.parametrize("blocks", [(), (2,), (1, 0), (0, 0), (-1,)])
def test_bad_blocks_are_refused(blocks):
    """Blocks have to ascend, and to exist."""
    with pytest.raises(ValueError, match="blocks: expected some of 0 to 1, ascending"):
        ShardBlocks(blocks, 2, (0, 0))


def test_each_block_has_a_writer():
    """A state names the process that writes each part of it."""
    with pytest.raises(ValueError, match="writers: expected one for each of 2 blocks"):
        ShardBlocks((0,), 2, (0,))
