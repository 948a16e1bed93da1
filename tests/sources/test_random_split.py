"""`lk.random_split` and `lk.k_fold`: exact sizes, shares of classes, whole groups, and what they refuse."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order.apportion import largest_remainder, nearest_sum

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def shares_of(sizes):
    return [Fraction(size, sum(sizes)) for size in sizes]


@given(
    SIZES, st.lists(st.integers(0, 6), min_size=40, max_size=90), st.integers(0, (1 << 64) - 1), st.booleans()
)
def test_parts_are_everything_once_with_exact_sizes_and_shares_of_classes(sizes, labels, seed, stratified):
    """Each class in each part: the exact share rounded down or up; keys ascend; the same seed gives the same parts."""
    source, shares = range(len(labels)), shares_of(sizes)
    wanted = largest_remainder(len(labels), shares)
    given_ = labels if stratified else None
    if 0 in wanted:
        with pytest.raises(ValueError, match="expected a record or more in each part"):
            lk.random_split(source, shares, seed=seed, stratify=given_)
        return
    parts = [list(part) for part in lk.random_split(source, shares, seed=seed, stratify=given_)]
    assert (
        parts == [list(part) for part in lk.random_split(source, wanted, seed=seed, stratify=given_)]
        or stratified
    )
    assert [len(part) for part in parts] == wanted
    assert sorted(itertools.chain(*parts)) == list(source)
    assert all(part == sorted(part) for part in parts)
    if stratified:
        total = Counter(labels)
        for part, share in zip(parts, shares):
            here = Counter(labels[key] for key in part)
            assert all(abs(here[label] - total[label] * share) < 1 for label in total)


@given(st.lists(st.integers(1, 30), max_size=9), st.integers(0, 120))
def test_the_nearest_sum_is_that_of_a_search_through_all_subsets(sizes, target):
    chosen = nearest_sum(sizes, target)
    assert len({*chosen}) == len(chosen)
    sums = {sum(some) for count in range(len(sizes) + 1) for some in itertools.combinations(sizes, count)}
    nearest = min(sums, key=lambda one: (abs(one - target), one))
    assert sum(sizes[place] for place in chosen) == nearest


@given(
    SIZES.filter(lambda sizes: len(sizes) > 1),
    st.lists(st.integers(0, 12), min_size=60, max_size=90),
    st.integers(0, 99),
)
def test_groups_stay_whole(sizes, groups, seed):
    """And the first part has the size nearest to its share that whole groups reach, if that is none at all."""
    shares, counts = shares_of(sizes), list(Counter(groups).values())
    sums = {sum(some) for count in range(len(counts) + 1) for some in itertools.combinations(counts, count)}
    target = largest_remainder(len(groups), shares)[0]
    nearest = min(sums, key=lambda one: (abs(one - target), one))
    if nearest in (0, len(groups)) or len(counts) < len(sizes):
        return
    try:
        parts = lk.random_split(range(len(groups)), shares, seed=seed, groups=groups)
    except ValueError:  # a later part reaches no group
        return
    assert len(parts[0]) == nearest
    found = [{groups[key] for key in part} for part in parts]
    assert not any(one & other for one, other in itertools.combinations(found, 2))
    assert sorted(itertools.chain(*parts)) == list(range(len(groups)))


def test_many_groups_reach_the_size_exactly():
    """Of more sums than are looked at together, too."""
    groups = np.random.default_rng(0).integers(0, 5_000, 100_000)
    train, valid = lk.random_split(range(100_000), [0.9, 0.1], seed=0, groups=groups)
    assert (len(train), len(valid)) == (90_000, 10_000)
    assert not np.intersect1d(groups[list(train)], groups[list(valid)]).size


@pytest.mark.parametrize("options", [{}, {"stratify": [0, 1] * 15}, {"groups": list(range(10)) * 3}])
def test_folds_validate_each_record_once(options):
    pairs = lk.k_fold(range(30), 4, seed=1, **options)
    assert sorted(itertools.chain(*(valid for _, valid in pairs))) == list(range(30))
    for train, valid in pairs:
        assert sorted([*train, *valid]) == list(range(30))


def test_a_part_is_a_source_of_its_own():
    """Its state isn't taken for another part's; chunks of the source stay together."""
    source = lk.RangeDataSource(0, 40, 1)
    train, valid = lk.random_split(source, [30, 10], seed=3)
    state = iter(lk.load(train, shuffle=True, seed=0)).get_state()
    iter(lk.load(train, shuffle=True, seed=0)).set_state(state)
    with pytest.raises(lk.CheckpointMismatchError):
        iter(lk.load(valid, shuffle=True, seed=0)).set_state(state)
    assert train.fingerprint() == lk.random_split(source, [0.75, 0.25], seed=3)[0].fingerprint()
    assert train.fingerprint() != lk.random_split(source, [0.75, 0.25], seed=4)[0].fingerprint()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: lk.random_split(range(5), [0.5, 0.4], seed=0),
            r"sizes: expected fractions of sum 1, got .* 0\.9",
        ),
        (
            lambda: lk.random_split(range(5), [3, 1], seed=0),
            r"sizes: expected numbers of records that are 5 together",
        ),
        (
            lambda: lk.random_split(range(5), [0.9, 0.1, 0.0], seed=0),
            r"sizes\[2\]: expected a number above 0",
        ),
        (
            lambda: lk.random_split(range(2), [0.9, 0.05, 0.05], seed=0),
            "expected a record or more in each part",
        ),
        (lambda: lk.random_split([], [1.0], seed=0), "source: expected a record or more"),
        (lambda: lk.random_split(range(2), [1, 1], seed=-1), "seed: expected"),
        (lambda: lk.random_split(range(2), [1, 1], seed=0, stratify=[1]), "stratify: expected one for each"),
        (
            lambda: lk.random_split(range(2), [1, 1], seed=0, stratify=[1, 2], groups=[1, 2]),
            "expected one of them",
        ),
        (lambda: lk.random_split(range(4), [2, 2], seed=0, groups=[7] * 4), "in whole groups"),
        (lambda: lk.k_fold(range(3), 4, seed=0), "expected a record or more in each part"),
        (lambda: lk.k_fold(range(3), 1, seed=0), "folds: expected"),
    ],
)
def test_what_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
