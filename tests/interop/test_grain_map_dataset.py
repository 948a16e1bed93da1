"""The elements of Grain's MapDataset: for any tree, at any index, and what a class of a user's adds."""

import numpy as np
from grain_pipelines import spelled
from grain_trees import TREES, built, told
from hypothesis import given
from hypothesis import strategies as st

import loaderkit.interop.grain as grain

FIRST = [*range(15)]


@given(TREES, st.lists(st.integers(0, 10**6), max_size=3))
def test_elements_are_those_of_grain_byte_for_byte(installed_grain, tree, far):
    """At the first indices and at far ones, with nested mixtures, several seeds and filters."""
    import grain as theirs

    indices = [*FIRST, *far]
    assert told(grain, tree, indices) == told(theirs, tree, indices)


@given(TREES, st.integers(0, 10**6))
def test_many_indices_at_once_give_what_each_gives(tree, first):
    """The elements of `__getitems__` are those of `ds[i]`, whatever the order of the indices."""
    one_by_one = told(grain, tree, [first + 3, first, first + 1])
    if {"error", "no tree"} & {*one_by_one}:
        return
    many = built(grain, tree).__getitems__(np.array([first + 3, first, first + 1]))
    assert [spelled(element) for element in many] == one_by_one[1:]
