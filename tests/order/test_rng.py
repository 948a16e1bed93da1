"""The generator of a record: a function of four numbers, whatever was drawn before."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.mixing import fold
from loaderkit._order.rng import RecordRng, child_of, generator

words = st.integers(0, (1 << 64) - 1)
places = st.tuples(st.integers(0, (1 << 63) - 1), words)

USES = {
    "nothing": lambda rng: None,
    "one float": lambda rng: rng.random(),
    "half a word": lambda rng: rng.integers(0, 1 << 16, dtype=np.uint32),
    "one normal": lambda rng: rng.normal(),
    "many words": lambda rng: rng.random(1001),
    "a jump": lambda rng: rng.bit_generator.advance(1 << 100),
    "another key": lambda rng: setattr(rng.bit_generator, "state", np.random.Philox(key=99).state),
}


def state_of(rng: np.random.Generator) -> str:
    return str(rng.bit_generator.state)


@given(
    words,
    st.integers(0, 50),
    st.lists(st.tuples(places, st.sampled_from(sorted(USES))), min_size=1, max_size=8),
)
def test_a_rekeyed_generator_is_a_new_one(seed, ordinal, visits):
    """Nothing of an earlier use is left: not the buffer, not half a word, not the counter."""
    pooled = RecordRng(seed, ordinal)
    for (index, child), use in visits:
        assert state_of(pooled.at(index, child)) == state_of(generator(seed, ordinal, index, child))
        USES[use](pooled.at(index, child))


@given(words, st.integers(0, 50), places)
def test_the_key_and_counter_are_the_documented_ones(seed, ordinal, place):
    """Philox with key (fold(seed, ordinal), index) and counter (0, 0, 0, child), and an empty buffer."""
    index, child = place
    state = generator(seed, ordinal, index, child).bit_generator.state
    assert state["state"]["key"].tolist() == [fold(seed, ordinal), index]
    assert state["state"]["counter"].tolist() == [0, 0, 0, child]
    assert (state["buffer_pos"], state["has_uint32"], state["uinteger"]) == (4, 0, 0)
    assert state["buffer"].tolist() == [0, 0, 0, 0]


def test_two_places_never_share_a_state():
    """All of 2 seeds x 2 operations x 40 indices x 8 children draw something else."""
    children = [child_of(ordinals) for ordinals in [(), (0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)]]
    drawn = {
        generator(seed, ordinal, index, child).bit_generator.random_raw()
        for seed in range(2)
        for ordinal in range(2)
        for index in range(40)
        for child in children
    }
    assert len(drawn) == 2 * 2 * 40 * 8


@given(st.lists(st.integers(0, 1000), max_size=4).map(tuple))
def test_the_child_word_follows_the_flat_maps_passed(ordinals):
    """0 before any, k + 1 after one, folded after more."""
    child = 0
    for depth, ordinal in enumerate(ordinals):
        child = ordinal + 1 if depth == 0 else fold(child, ordinal)
    assert child_of(ordinals) == child


def test_children_of_nested_flat_maps_differ():
    """The generator depends on the ordinals of the children at every depth."""
    paths = [(), *((k,) for k in range(60)), *((j, k) for j in range(60) for k in range(60))]
    paths += [(i, j, k) for i in range(12) for j in range(12) for k in range(12)]
    assert len({child_of(path) for path in paths}) == len(paths)


@pytest.mark.parametrize("make", [lambda: RecordRng(0, 0).at(1), lambda: generator(0, 0, 1, 0)])
def test_spawn_is_refused(make):
    """Spawned generators would depend on how many were spawned before."""
    with pytest.raises(TypeError, match="spawn"):
        make().spawn(1)


def test_jumped_generators_keep_clear_of_children():
    """A jump moves word 2 of the counter; the child is in word 3."""
    jumped = np.random.Philox(key=0, counter=[0, 0, 0, 5]).jumped()
    assert jumped.state["state"]["counter"].tolist() == [0, 0, 1, 5]
    start = generator(3, 0, 1, 5).bit_generator.jumped().state["state"]["counter"].tolist()
    assert start == [0, 0, 1, 5]


def test_it_travels_to_a_worker():
    """Pickled and loaded it gives the same generators."""
    travelled = pickle.loads(pickle.dumps(RecordRng(5, 2)))
    assert state_of(travelled.at(7, 3)) == state_of(RecordRng(5, 2).at(7, 3))


@pytest.mark.parametrize("make", [lambda: generator(1, 2, 3, 4), lambda: RecordRng(1, 2).at(3, 4)])
def test_generators_are_part_of_the_stream(make):
    """These never change: streams that were trained on depend on them."""
    assert make().bit_generator.random_raw(2).tolist() == [5522380933700885667, 14895728945834106208]
