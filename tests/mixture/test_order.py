"""Mixture orders beside naive twins in Python's integers: the bound, random access, counts, and the way back."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._mixture.fair_table import fair_slots
from loaderkit._mixture.order import order_of, pattern_order, shuffled

MOST = 1 << 62
small_weights = st.lists(st.integers(1, 60), min_size=1, max_size=7)
any_weights = st.lists(st.integers(1, 10**18), min_size=1, max_size=40)


def named(weights):
    return {f"c{number:05}": Fraction(weight) for number, weight in enumerate(weights)}


def naive_slots(counts):
    """Earliest deadline first by its definition, a slot at a time."""
    size, done, slots = sum(counts), [0] * len(counts), []
    for slot in range(size):
        ready = [
            (-(-(done[child] + 1) * size // count), child)
            for child, count in enumerate(counts)
            if done[child] < count and -(-done[child] * size // count) <= slot
        ]
        due, child = min(ready)
        assert due > slot, "late"
        done[child] += 1
        slots.append(child)
    return slots


def check(order, places=4000, start=0, bound=None):
    """Ordinals ascend without a gap, counts and places_of agree with of, and the bound holds at every prefix."""
    here = np.arange(start, start + places)
    components, ordinals = order.of(here)
    counts = order.counts(start).tolist()
    assert sum(counts) == start
    weights = [order.weights[name] for name in order.names]
    assert sum(weights) == 1
    for place, (component, ordinal) in enumerate(zip(components.tolist(), ordinals.tolist(), strict=True)):
        assert ordinal == counts[component]
        counts[component] += 1
        if bound is not None:
            n = start + place + 1
            assert abs(counts[component] - n * weights[component]) < bound
            assert abs(ordinal - (n - 1) * weights[component]) < bound
    assert order.counts(start + places).tolist() == counts
    for component in set(components.tolist()):
        own = components == component
        assert order.places_of(component, ordinals[own]).tolist() == here[own].tolist()


@given(small_weights)
def test_a_table_is_earliest_deadline_first(weights):
    assert fair_slots(weights).tolist() == naive_slots(weights)


@given(small_weights, st.integers(0, MOST - 5000))
def test_exact_weights(weights, start):
    order = order_of(named(weights))
    total = sum(weights)
    assert list(order.weights.values()) == [Fraction(weight, total) for weight in weights]
    check(order, 2 * total, bound=1)
    check(order, 100, start=start, bound=1)


@given(any_weights, st.sampled_from([256, 1024, 4096]), st.integers(0, MOST - 5000))
def test_weights_of_any_ratio(weights, most_slots, start):
    order = order_of(named(weights), most_slots=most_slots)
    assert order.names == tuple(sorted(named(weights)))
    check(order, 2000, bound=3)
    check(order, 100, start=start, bound=3)


@given(small_weights, st.integers(0, 2**64 - 1), st.integers(0, MOST - 5000))
def test_shuffled(weights, key, start):
    even = order_of(named(weights))
    order = shuffled(even, key)
    check(order, 5000)
    check(order, 3000, start=start)
    for block in range(3):
        assert order.counts(block * 2048).tolist() == even.counts(block * 2048).tolist()


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_pattern(pattern):
    order = pattern_order(pattern)
    components, ordinals = order.of(np.arange(100))
    said = [pattern[place % len(pattern)] for place in range(100)]
    assert [order.names[component] for component in components] == said
    seen = Counter()
    for name, ordinal in zip(said, ordinals.tolist(), strict=True):
        assert ordinal == seen[name]
        seen[name] += 1
    check(order, 100)


def test_a_share_too_small_for_any_place_is_refused():
    with pytest.raises(
        ValueError, match=r"weights\['b'\]: expected a share of 2\*\*-62 or more.*leave it out"
    ):
        order_of({"a": Fraction(1), "b": Fraction(1, 1 << 63)})
