"""Mixture orders beside naive twins in Python's integers: the bound, random access, counts, and the way back."""

import math
import random
from bisect import bisect_left
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loaderkit._order.mixing import fold
from loaderkit._order.mixture.fair_table import fair_slots, slot_counts
from loaderkit._order.mixture.order import _sources, order_of, pattern_order, shuffled

MOST = 1 << 62
PLACES = st.integers(0, MOST - 20_000)
few_weights = st.lists(st.integers(1, 60), min_size=1, max_size=7)


def lognormal(seed, count, spread):
    draw = random.Random(f"{seed} {spread}").lognormvariate
    return [round(10**9 * draw(0, spread)) + 1 for _ in range(count)]


# Near each other and far apart, few and many.
any_weights = st.one_of(
    st.lists(st.integers(1, 10**18), min_size=1, max_size=40),
    st.lists(st.builds(lambda e, m: m << e, st.integers(0, 50), st.integers(1, 7)), min_size=2, max_size=60),
    st.builds(lognormal, st.integers(0, 10**6), st.integers(200, 400), st.sampled_from([0.1, 1, 3])),
)


def named(weights):
    return {f"c{number:05}": Fraction(weight) for number, weight in enumerate(weights)}


class NaiveOrder:
    """The rules of `order_of` with Python's integers: slot by slot, and a place at a time."""

    def __init__(self, weights, slots, most_slots):
        divisor = math.gcd(*weights.values())
        weights = {name: weight // divisor for name, weight in weights.items()}
        total = sum(weights.values())
        self.tail, self.tail_name, self.tail_share = None, None, Fraction(0)
        if total <= slots:
            children = sorted(weights.items())
            counts = [weight for _, weight in children]
        else:
            children, group = [], {}
            for name, weight in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
                if Fraction(weight, total) >= Fraction(1, 256):
                    children.append((name, weight))
                    continue
                group[name] = weight
                if Fraction(sum(group.values()), total) >= Fraction(1, 256):
                    children.append((self.inside(group, most_slots), sum(group.values())))
                    group = {}
            if group:
                self.tail_name = min(group)
                self.period = round(Fraction(total, sum(group.values())))
                self.tail_share = Fraction(1, self.period)
                self.tail = self.inside(group, most_slots)
            counts = self.rounded([weight for _, weight in children], slots)
        self.children = [child for child, _ in children]
        self.shares = [(1 - self.tail_share) * Fraction(count, sum(counts)) for count in counts]
        self.fill(earliest_deadline_first(counts))
        if isinstance(self.tail, NaiveOrder):
            self.tail.fill(self.tail.slots[::-1])

    def fill(self, slots):
        self.slots = slots
        self.slots_of = [
            [slot for slot, other in enumerate(slots) if other == child]
            for child in range(len(self.children))
        ]

    @staticmethod
    def rounded(weights, slots):
        exact = [Fraction(weight * slots, sum(weights)) for weight in weights]
        counts = [math.floor(one) for one in exact]
        order = sorted(range(len(exact)), key=lambda place: counts[place] - exact[place])
        for place in order[: slots - sum(counts)]:
            counts[place] += 1
        return [count // math.gcd(*counts) for count in counts]

    @staticmethod
    def inside(group, most_slots):
        direct = [weight for weight in group.values() if 256 * weight >= sum(group.values())]
        slots = (
            math.ceil(Fraction(most_slots // 256 * sum(group.values()), min(direct)))
            if direct
            else most_slots
        )
        return NaiveOrder(group, min(slots, most_slots), most_slots)

    def read(self, place):
        """The name that a place reads, and its ordinal."""
        if self.tail is not None:
            before = place // self.period
            if place % self.period == self.period - 1:
                return self.tail.read(before)
            place -= before
        rounds, slot = divmod(place, len(self.slots))
        child = self.slots[slot]
        ordinal = rounds * len(self.slots_of[child]) + bisect_left(self.slots_of[child], slot)
        name = self.children[child]
        return (name, ordinal) if isinstance(name, str) else name.read(ordinal)

    def leaves(self, share=Fraction(1), bound=Fraction(0)):
        """For each name its share, and the bound of its counts: bound is that of this order's own count."""
        for child, part in zip(self.children, self.shares, strict=True):
            if isinstance(child, str):
                yield child, share * part, 1 + part * bound
            else:
                yield from child.leaves(share * part, 1 + part * bound)
        if self.tail is not None:
            # What is read from the end keeps the bound of its own; a tail beside it in the tail doesn't.
            inner = 1 + self.tail_share * bound if self.tail.tail is not None else self.tail_share * bound
            yield from self.tail.leaves(share * self.tail_share, inner)


def earliest_deadline_first(counts):
    size, done, slots = sum(counts), [0] * len(counts), []
    for slot in range(size):
        due, child = min(
            (-(-(done[child] + 1) * size // count), child)
            for child, count in enumerate(counts)
            if done[child] < count and -(-done[child] * size // count) <= slot
        )
        assert due > slot, "late"
        done[child] += 1
        slots.append(child)
    return slots


def check(order, places=4000, start=0, bounds=None):
    """Ordinals ascend without a gap, counts and places_of agree with of, and the bounds hold at every prefix.

    bounds: {name: an upper end of |count - n * share|}, itself not reached.
    """
    here = np.arange(start, start + places)
    components, ordinals = order.of(here)
    counts = order.counts(start).tolist()
    assert sum(counts) == start
    assert sum(order.weights.values()) == 1
    assert ordinals.dtype == np.int64
    for component in range(len(order.names)):
        own = np.flatnonzero(components == component)
        first = counts[component]
        assert ordinals[own].tolist() == list(range(first, first + own.size))
        assert order.places_of(component, ordinals[own]).tolist() == here[own].tolist()
        counts[component] += own.size
        if bounds is not None:
            share, bound = order.weights[order.names[component]], bounds[order.names[component]]
            share, whole, least = share.numerator, share.denominator, bound * share.denominator
            # A count is furthest ahead behind a record of its own, and furthest behind before the next one.
            for ordinal, place in zip(ordinals[own].tolist(), here[own].tolist(), strict=True):
                assert (ordinal + 1) * whole - (place + 1) * share < least
                assert place * share - ordinal * whole < least
            assert (start + places) * share - counts[component] * whole < least
    assert order.counts(start + places).tolist() == counts


@given(few_weights)
def test_a_table_is_earliest_deadline_first_and_in_time(weights):
    assert fair_slots(weights).tolist() == earliest_deadline_first(weights)


def test_all_small_tables_keep_the_tight_bound():
    """Also where a place more lies between two of the table's, before or behind it."""
    for size in range(1, 15):
        for counts in partitions(size, size):
            slots = fair_slots(counts)
            for child, count in enumerate(counts):
                before = np.concatenate([[0], np.cumsum(slots == child)])
                prefix = np.arange(size + 1)
                assert (before * size > prefix * count - size).all()
                assert (before[1:] * size <= prefix[:-1] * count + size).all()


def partitions(total, most):
    if total == 0:
        yield []
    for first in range(min(total, most), 0, -1):
        for rest in partitions(total - first, first):
            yield [first, *rest]


@given(few_weights, PLACES)
def test_exact_weights(weights, start):
    order = order_of(named(weights))
    total = sum(weights)
    assert list(order.weights.values()) == [Fraction(weight, total) for weight in weights]
    check(order, 2 * total, bounds=dict.fromkeys(order.names, 1))
    check(order, 100, start=start, bounds=dict.fromkeys(order.names, 1))


@given(any_weights, st.sampled_from([256, 300, 1024]), PLACES)
@example([10**9, 1, 1, 1], 256, 0)
@example([10**6, 9 * 10**5, 3, 2, 1], 300, 0)
@example([1 << place for place in range(62)], 256, MOST - 20_000)
def test_weights_of_any_ratio(weights, most_slots, start):
    """The same as the twin, exact in shares, and with its bounds at every prefix."""
    order = order_of(named(weights), most_slots=most_slots)
    names = named(weights)
    divisor = math.gcd(*weights)
    twin = NaiveOrder(
        {name: int(weight) // divisor for name, weight in names.items()}, most_slots, most_slots
    )
    leaves = {name: (share, bound) for name, share, bound in twin.leaves()}
    assert order.names == tuple(sorted(names))
    assert order.weights == {name: share for name, (share, _) in leaves.items()}
    bounds = {name: bound for name, (_, bound) in leaves.items()}
    assert max(bounds.values()) < 2.01
    check(order, 2000, bounds=bounds)
    check(order, 200, start=start, bounds=bounds)
    places = [*range(300), *range(start, start + 50)]
    components, ordinals = order.of(np.array(places))
    read = [
        (order.names[component], ordinal) for component, ordinal in zip(components, ordinals, strict=True)
    ]
    assert read == [twin.read(place) for place in places]


@pytest.mark.parametrize(
    "weights",
    [[10**5, 10**5, 30, 20, 7], [2000, 1], [10**5 + 7, 3 * 10**4, 100, 99, 98, 1]],
)
def test_the_bound_beside_a_tail_and_in_it(weights):
    """Over many of its periods: closer than 1 in the table and in a tail that has a table only."""
    order = order_of(named(weights), most_slots=1024)
    assert order.tails[0] >= 0
    n = np.arange(1, 300_000)
    components, _ = order.of(n - 1)
    for component, name in enumerate(order.names):
        share = order.weights[name]
        counts = np.cumsum(components == component)
        off = counts * share.denominator - n * share.numerator
        assert share.denominator < 2**42
        assert abs(off).max() < share.denominator


@pytest.mark.parametrize("total", [65_535, 65_536, 65_537])
def test_weights_whose_sum_fits_are_exact(total):
    weights = [total - 40_000, 39_998, 2]
    order = order_of(named(weights))
    exact = [Fraction(weight, total) for weight in weights]
    assert (list(order.weights.values()) == exact) == (total <= 65_536)
    check(order, 3000, bounds=dict.fromkeys(order.names, 1))
    check(order, 3000, start=10**15, bounds=dict.fromkeys(order.names, 1))


@pytest.mark.parametrize("numerator", [255, 256, 257])
def test_shares_beside_the_least_of_a_slot_of_its_own(numerator):
    """Below, at and above 1/256."""
    rest = (1 << 16) * 1001
    order = order_of(named([rest - numerator * 1001, numerator * 1001 - 1, 1]))
    assert sum(order.weights.values()) == 1
    assert abs(order.weights["c00001"] * 65_536 / numerator - 1) < Fraction(1, 200)
    check(order, 3000, bounds=dict.fromkeys(order.names, 2))


def test_a_share_of_exactly_the_least_has_slots_of_its_own():
    part = 257 * 1001
    order = order_of(named([255 * part - 1, part, 1]))
    assert order.owners[1] == 0
    assert order.child_counts[1] * 256 == order.table_sizes[0]


def test_weights_far_apart_are_kept():
    order = order_of({name: Fraction(repr(weight)) for name, weight in (("a", 1e-9), ("b", 1e9), ("c", 1.0))})
    assert abs(order.weights["a"] * 10**18 - 1) < Fraction(1, 100)
    assert abs(order.weights["c"] * 10**9 - 1) < Fraction(1, 100)
    place = order.places_of(0, np.array([0, 1, 2]))
    components, ordinals = order.of(place)
    assert (components.tolist(), ordinals.tolist()) == ([0, 0, 0], [0, 1, 2])
    assert 0.99e18 < place[1] - place[0] < 1.01e18


@pytest.mark.parametrize(
    "weights",
    [lognormal(1, 1000, 1), lognormal(2, 300, 3), [1] * 10_000],
    ids=["1,000", "300 apart", "10,000"],
)
def test_many_components(weights):
    """Shares near what was given, nothing lost; the bound of members of groups."""
    order = order_of(named(weights))
    total = sum(weights)
    assert max(
        abs(order.weights[name] * total / weight - 1)
        for name, weight in zip(order.names, weights, strict=True)
    ) < Fraction(1, 64)
    check(
        order,
        5000,
        start=random.Random(len(weights)).choice([0, 10**12]),
        bounds=dict.fromkeys(order.names, 2),
    )


@given(any_weights, PLACES)
def test_any_places_in_any_order(weights, start):
    order = order_of(named(weights), most_slots=256)
    for one in (order, shuffled(order, 3)):
        here = np.arange(start, start + 3000)
        components, ordinals = one.of(here)
        some = np.random.default_rng(0).integers(0, 3000, 200)
        assert [part.tolist() for part in one.of(here[some])] == [
            components[some].tolist(),
            ordinals[some].tolist(),
        ]
        assert [part.tolist() for part in one.of(here[:0])] == [[], []]


@given(few_weights, st.integers(0, MOST))
def test_places_beyond_the_last_one(weights, ordinal):
    """They are 2**62; a place below it is right."""
    for most_slots, scale in ((65_536, 1), (256, 10**6)):
        order = order_of(named([*(weight * scale for weight in weights), 1]), most_slots=most_slots)
        for component in range(len(order.names)):
            for one in (order, shuffled(order, 1)):
                (place,) = one.places_of(component, np.array([ordinal])).tolist()
                assert place <= MOST
                if place < MOST:
                    assert [part.tolist() for part in one.of(np.array([place]))] == [[component], [ordinal]]
                else:
                    assert one.counts(MOST)[component] <= ordinal


@pytest.mark.parametrize("weights", [[3, 2], [1], [60, 1, 7], [1, 10**6]])
def test_the_last_places(weights):
    """Those of a few ordinals on both sides of 2**62, in Python's integers."""
    order = order_of(named(weights))
    twin = NaiveOrder({name: int(weight) for name, weight in named(weights).items()}, 65_536, 65_536)
    for component, name in enumerate(order.names):
        near = int(order.counts(MOST)[component])
        ordinals = [near + step for step in range(-3, 130)]
        if name == twin.tail_name:
            expected = [ordinal * twin.period + twin.period - 1 for ordinal in ordinals]
        else:
            slots = twin.slots_of[twin.children.index(name)]
            rounds = [divmod(ordinal, len(slots)) for ordinal in ordinals]
            expected = [turn * len(twin.slots) + slots[slot] for turn, slot in rounds]
            if twin.tail is not None:
                expected = [place + place // (twin.period - 1) for place in expected]
        places = order.places_of(component, np.array(ordinals)).tolist()
        assert places == [min(place, MOST) for place in expected]
        assert min(expected) < MOST < max(expected)


@given(few_weights, st.integers(0, 2**64 - 1), PLACES)
def test_shuffled(weights, key, start):
    """Ascending ordinals, and at ends of blocks the counts of the even order."""
    even = order_of(named(weights))
    order = shuffled(even, key)
    check(order, 5000)
    check(order, 3000, start=start)
    for block in (0, 1, start >> 11):
        assert order.counts(block << 11).tolist() == even.counts(block << 11).tolist()


WORD = (1 << 32) - 1


@given(few_weights, st.integers(0, 2**64 - 1), st.integers(0, (MOST >> 11) - 1))
def test_shuffled_is_its_twin(weights, key, block):
    even = order_of(named(weights))

    def rank(slot):
        folded = fold(key, block)
        mixed = (fold(slot) ^ folded) & WORD
        mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & WORD
        mixed = (mixed ^ mixed >> 13 ^ folded >> 32) * 0xC2B2AE35 & WORD
        return (mixed ^ mixed >> 16) >> 11, slot

    here = np.arange(block << 11, (block + 1) << 11)
    before = even.of(here)[0].tolist()
    components = [-1] * 2048
    for slot, to in enumerate(sorted(range(2048), key=rank)):
        components[to] = before[slot]
    assert shuffled(even, key).of(here)[0].tolist() == components


def test_shuffled_is_the_same_in_wider_words():
    """Those that more than 2**21 components take."""
    components = np.arange(2048, dtype=np.int32) % 7
    sources = _sources(5, components, 7)
    assert _sources(5, components << 24, 7 << 24).tolist() == sources.tolist()
    assert sorted(sources.tolist()) == list(range(2048))


@pytest.mark.parametrize("key", [0, 1])
def test_shuffled_blocks_are_like_random_ones(key):
    """A component's slots in blocks are even over the block, and neighbours are independent of each other."""
    order = shuffled(order_of({"a": Fraction(3), "b": Fraction(1)}), key)
    components, _ = order.of(np.arange(400 * 2048))
    blocks = components.reshape(400, 2048)
    ones = blocks.sum(axis=0)
    assert abs((ones - 100).std() - math.sqrt(400 * 3 / 16)) < 0.5
    pairs = (blocks[:, 1:] & blocks[:, :-1]).mean()
    assert abs(pairs - 1 / 16) < 0.001
    assert len({bytes(block) for block in blocks.astype(np.uint8)}) == 400


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_pattern(pattern):
    order = pattern_order(pattern)
    components, _ = order.of(np.arange(100))
    said = [pattern[place % len(pattern)] for place in range(100)]
    assert [order.names[component] for component in components] == said
    assert order.weights == {name: Fraction(count, len(pattern)) for name, count in Counter(pattern).items()}
    check(order, 100)


def test_the_order_in_which_weights_are_given_and_their_scale_change_nothing():
    weights = {"b": Fraction(1, 3), "a": Fraction(1, 3), "c": Fraction(2)}
    same = {"a": Fraction(2), "c": Fraction(12), "b": Fraction(2)}
    assert order_of(weights) is order_of(same)


def test_threads_get_equal_orders():
    weights = named(lognormal(5, 30, 1))
    with ThreadPoolExecutor(4) as pool:
        orders = list(pool.map(lambda _: order_of(weights, most_slots=512), range(8)))
    assert len({order.slots.tobytes() for order in orders}) == 1


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: order_of({"a": Fraction(1), "b": Fraction(1, 1 << 63)}),
            r"weights\['b'\]: expected a share of 2\*\*-62 or more, got 1.08e-19; leave it out or give it more",
        ),
        (lambda: order_of({}), "weights: expected a component or more, got none"),
        (
            lambda: order_of({"a": Fraction(0)}),
            r"weights\['a'\]: expected a positive weight, got 0; leave it out",
        ),
        (lambda: order_of({"a": Fraction(1)}, most_slots=255), "most_slots: expected 256 or more, got 255"),
        (lambda: pattern_order([]), "pattern: expected a name or more, got none"),
        (lambda: shuffled(pattern_order(["a"]), -1), "key: expected an int from 0 to"),
    ],
)
def test_what_makes_no_order_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_slots_by_largest_remainder_are_in_the_smallest_integers():
    assert slot_counts([1, 1, 2], 256) == [1, 1, 2]
    assert slot_counts([2**61, 2**61 + 1], 7) == [3, 4]
