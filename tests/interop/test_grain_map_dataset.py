"""The elements of Grain's MapDataset: for any tree, at any index, and what a class of a user's adds."""

import sys

import numpy as np
import pytest
from grain_pipelines import spelled
from grain_trees import TREES, built, told
from hypothesis import given
from hypothesis import strategies as st

import loaderkit.interop.grain as grain


@given(TREES, st.lists(st.integers(0, 10**6), max_size=3))
def test_elements_are_those_of_grain_byte_for_byte(installed_grain, tree, far):
    """At the first indices and at far ones, with nested mixtures, several seeds and filters."""
    import grain as theirs

    indices = [*range(15), *far]
    assert told(grain, tree, indices) == told(theirs, tree, indices)


@given(TREES, st.integers(0, 10**6))
def test_many_indices_at_once_give_what_each_gives(tree, first):
    """The elements of `__getitems__` are those of `ds[i]`, whatever the order of the indices."""
    one_by_one = told(grain, tree, [first + 3, first, first + 1])
    if {"error", "no tree"} & {*one_by_one}:
        return
    many = built(grain, tree).__getitems__(np.array([first + 3, first, first + 1]))
    assert [spelled(element) for element in many] == one_by_one[1:]


@pytest.mark.parametrize("index", [2**52 + 7, sys.maxsize - 1])
def test_indices_times_weights_pass_the_numbers_of_numpy(installed_grain, index):
    """A mixture with uneven weights, a slice and a batch of it, at indices whose products don't fit 64 bits."""
    import grain as theirs

    def mixed(g):
        parts = [g.MapDataset.range(97).shuffle(seed).repeat() for seed in (1, 2, 3)]
        return g.MapDataset.mix(parts, [0.001, 7.5, 1000])

    for made in (
        mixed,
        lambda g: mixed(g)[3::5],
        lambda g: mixed(g).batch(6),
        lambda g: g.MapDataset.range(7, 0, -2),
    ):
        assert spelled(made(grain)[index]) == spelled(made(theirs)[index])


def test_a_class_of_the_users_is_a_node():
    """It is asked for one element after the other, and takes part in seeds and slices; it needn't call __init__."""

    class Twice(grain.MapDataset):
        def __init__(self, parent):
            self._parents = (parent,)

        def __len__(self):
            return 2 * len(self._parent)

        def __getitem__(self, index):
            if isinstance(index, slice):
                return self.slice(index)
            return self._parent[index // 2]

    twice = Twice(grain.MapDataset.range(4).seed(3))
    assert [*twice] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [*twice[1::3].map(abs)] == [0, 2, 3]
    assert sorted(twice.shuffle()) == [*twice]
    assert twice.shuffle()._seed == grain.MapDataset.range(4).seed(3).map(abs).shuffle()._seed


def test_a_function_may_write_into_what_it_is_given():
    """The records of the source stay as they are, and so does the other part of a zip over the same data set."""
    records = [{"x": 1}, {"x": 2}]

    def marked(record):
        record["seen"] = record.get("seen", 0) + 1
        return record

    source = grain.MapDataset.source(records)
    both = grain.experimental.ZipMapDataset([source.map(marked), source.map(marked)]).repeat(2)
    assert all(element == {"x": element["x"], "seen": 1} for pair in both for element in pair)
    assert records == [{"x": 1}, {"x": 2}]


def test_an_error_of_a_users_function_names_the_step_and_the_index():
    """In a note, at the index of that node."""
    ds = grain.MapDataset.range(9).map(lambda x: 1 // (x - 4)).shuffle(3)
    with pytest.raises(ZeroDivisionError) as caught:
        list(ds)
    assert any("raised by <lambda> for index 4" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda ds: ds.shuffle(), "`shuffle` requires a seed"),
        (lambda ds: ds.random_map(max), "`random_map` requires a seed"),
        (lambda ds: ds.shuffle(2**32), "seed: expected an integer between 0 and"),
        (lambda ds: ds.repeat().repeat(2), "repeat: expected a data set with an end"),
        (lambda ds: ds.repeat(0), "num_epochs: expected 1 or more"),
        (lambda ds: ds.filter(bool).batch(2), r"write \.to_iter_dataset\(\) before \.batch"),
        (lambda ds: ds.batch(0), "batch_size must be positive"),
        (
            lambda ds: grain.MapDataset.mix([ds, ds], [1, 0]),
            "weights: expected one other than 0 for each of 2",
        ),
        (
            lambda ds: grain.MapDataset.mix([ds, ds[:0]]),
            r"expected some elements in each, got none in those at \[1\]",
        ),
        (lambda ds: grain.MapDataset.concatenate([ds.repeat()]), "datasets: expected some with an end"),
        (lambda ds: grain.experimental.ZipMapDataset([ds, ds[1:]]), "data sets of the same length"),
    ],
)
def test_what_makes_no_data_set_is_an_error_at_its_line(make, text):
    """A ValueError, as in Grain."""
    with pytest.raises(ValueError, match=text):
        make(grain.MapDataset.range(4))
