"""`lk.balance`: shares of classes, each read in an order of its own; what it refuses."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.testing import check_sampler


def test_classes_of_one_size_have_orders_of_their_own():
    """One seed for all would read the third record of each class at the same time."""
    _, sampler = lk.balance(range(40), ["cat"] * 20 + ["dog"] * 20, shuffle=True, seed=5)
    keys = sampler.record_keys(range(40))
    assert (keys[keys < 20] != keys[keys >= 20] - 20).any()


LABELS = ["cat"] * 6 + ["dog"] * 3 + ["emu"]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.sampled_from(["even", "shuffled"]),
    st.booleans(),
    st.integers(0, (1 << 64) - 1),
    st.data(),
)
def test_each_class_has_its_share_and_its_own_order(labels, order, shuffle, seed, data):
    """After any prefix, for "even"; each class reads its records in turn, all once in each of its epochs."""
    classes = sorted(set(labels))
    target = data.draw(
        st.none()
        | st.dictionaries(st.sampled_from(classes), st.integers(0, 5), min_size=1).filter(
            lambda t: any(t.values())
        )
    )
    source = range(len(labels))
    same, sampler = lk.balance(source, labels, target, shuffle=shuffle, seed=seed, order=order)
    assert same is source
    assert sampler.names == tuple(map(str, classes))
    keys = sampler.record_keys(range(200)).tolist()
    weights = target or dict.fromkeys(classes, 1)
    total = sum(weights.values())
    for label in classes:
        members = [key for key, own in enumerate(labels) if own == label]
        read = [key for key in keys if labels[key] == label]
        if not weights.get(label):
            assert not read
        for first in range(0, len(read) - len(members) + 1, len(members)):
            epoch = read[first : first + len(members)]
            assert (sorted(epoch) if shuffle else epoch) == members
        if order == "even":
            share = Fraction(weights.get(label, 0), total)
            counts = np.cumsum([labels[key] == label for key in keys]).tolist()
            assert all(abs(count - n * share) < 1 for n, count in enumerate(counts, start=1))


@pytest.mark.parametrize(
    "labels",
    [
        [2, 10, 2, -1],
        np.array([2, 10, 2, -1], np.int8),
        ("2", "10", "2", "-1"),
        np.array(["2", "10", "2", "-1"]),
    ],
)
def test_labels_may_be_ints_or_strings(labels):
    """The same names and the same stream, sorted as strings are."""
    source, sampler = lk.balance("abcd", labels, {labels[0]: 3, labels[3]: 1}, shuffle=True, seed=4)
    assert sampler.names == ("-1", "10", "2")
    assert sampler == lk.balance("abcd", [2, 10, 2, -1], {2: 3, -1: 1}, shuffle=True, seed=4)[1]
    assert Counter(source[key] for key in sampler.record_keys(range(80))) == {"a": 30, "c": 30, "d": 20}


def test_the_smallest_class_may_end_the_stream():
    """Each record once at most: as many of each class as the smallest one has."""
    source, sampler = lk.balance(LABELS, LABELS, shuffle=True, seed=0, num_epochs=1, when_exhausted="stop")
    read = list(lk.DataLoader(data_source=source, sampler=sampler, operations=[]))
    assert Counter(read)["emu"] == 1
    assert max(Counter(read).values()) <= 2
    _, dropping = lk.balance(LABELS, LABELS, shuffle=True, seed=0, num_epochs=1, when_exhausted="drop")
    assert sorted(dropping.record_keys(range(10)).tolist()) == list(range(10))


def test_another_class_changes_no_order():
    """Orders follow from the seed and the label."""
    _, fewer = lk.balance(LABELS, LABELS, {"cat": 1}, shuffle=True, seed=7)
    _, more = lk.balance([*LABELS, 0], [*LABELS, "yak"], {"cat": 1}, shuffle=True, seed=7)
    assert fewer.record_keys(range(20)).tolist() == more.record_keys(range(20)).tolist()


def test_it_keeps_what_loaderkit_relies_on():
    """With more classes than a loader plans one by one."""
    labels = np.arange(400) % 23
    check_sampler(lk.balance(labels, labels, shuffle=True, seed=3)[1], num_records=400)
    shard = lk.ShardOptions(0, 2)
    assert lk.balance(labels, labels, shuffle=True, seed=3, shard_options=shard)[1].shard_options == shard


def test_a_run_is_reweighed_and_resumes():
    """As any mixture."""

    def loader():
        source, sampler = lk.balance(LABELS, LABELS, shuffle=True, seed=0)
        return lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(6, batch_fn=list)])

    with iter(loader()) as it:
        assert Counter(next(it)) == {"cat": 2, "dog": 2, "emu": 2}
        it.reweigh({"emu": 1})
        state = it.get_state()
        assert Counter(next(it)) == {"emu": 6}
    with iter(loader()) as it:
        it.set_state(state)
        assert Counter(next(it)) == {"emu": 6}


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        (
            {"labels": LABELS[1:]},
            ValueError,
            "labels: expected one for each of the 10 records of .*, got 9; give an int",
        ),
        ({"labels": [LABELS]}, ValueError, "labels: expected one dimension, got"),
        (
            {"labels": "label"},
            TypeError,
            r"labels: expected one for each record, got 'label'; write \[record\[",
        ),
        ({"weights": {"a": 1}}, TypeError, "write instead: .*target={label: weight} of lk.balance"),
        ({"labels": [[1], [1, 2]]}, ValueError, "labels: expected one dimension, got"),
        ({"labels": [0.5] * 10}, TypeError, "labels: expected ints or strings, got an array of float64"),
        ({"labels": [None] * 10}, TypeError, "labels: expected ints or strings, got an array of object"),
        ({"source": [], "labels": []}, ValueError, "labels: expected one or more, got none"),
        ({"source": 3}, TypeError, "source: expected"),
        (
            {"target": {"cow": 1, "cat": 1, 7: 2}},
            ValueError,
            r"target: expected labels of records, got 'cow', 7, which no record .* some of \['cat', 'dog', 'emu'\]",
        ),
        ({"target": ["cat"]}, TypeError, r"target: expected a mapping of label to weight, got \['cat'\]"),
        ({"target": {"cat": -1}}, ValueError, r"weights\['cat'\]: expected 0 or more, got -1"),
        ({"target": {"cat": 0}}, ValueError, "weights: expected a positive weight"),
        (
            {"labels": [1, 2] * 5, "target": {1: 1, "1": 5}},
            ValueError,
            r"target: expected each label once, got \[1, '1'\]; an int and its text are one label",
        ),
        ({"seed": None}, ValueError, "seed: expected an int, as shuffle=True needs a seed"),
        ({"seed": -1}, ValueError, "seed: expected an int from 0"),
        ({"num_epochs": 1}, ValueError, "when_exhausted"),
    ],
)
def test_bad_arguments_are_refused_by_name(said, error, text):
    """The error names the argument, what was expected, what came and what to do."""
    with pytest.raises(error, match=text):
        lk.balance(**{"source": LABELS, "labels": LABELS, "shuffle": True, "seed": 0, **said})


def test_without_shuffle_no_seed_is_needed():
    """Each class in the order of the source."""
    _, sampler = lk.balance(LABELS, LABELS, shuffle=False, seed=None)
    assert sampler.record_keys(range(9)).tolist() == [0, 6, 9, 1, 7, 9, 2, 8, 9]
