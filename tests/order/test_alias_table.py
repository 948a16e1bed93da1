"""The alias table: its exact probabilities, in Fractions, against those of the weights."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loaderkit._order import alias_table
from loaderkit._order.alias_table import AliasTable

WORD = 1 << 64
# Close together, far apart, equal ones, zeros, and the least and the greatest floats there are.
one_weight = (
    st.sampled_from([0.0, 1.0, 5e-324, 1.7976931348623157e308, 1 + 2.0**-52, 1 - 2.0**-53])
    | st.floats(0, 1e308)
    | st.floats(0.5, 2)
    | st.integers(0, 9).map(float)
)
weight_lists = st.lists(one_weight, min_size=1, max_size=40).filter(any)


def probabilities(table):
    """The exact probability of each record where columns are equally likely."""
    masses = [0] * len(table.thresholds)
    for column, (own, other) in enumerate(
        zip(table.thresholds.tolist(), table.aliases.tolist(), strict=True)
    ):
        masses[column] += own
        masses[other] += WORD - own
    return [Fraction(mass, WORD * len(masses)) for mass in masses]


@given(weight_lists)
@example([1.0, 0.0, 3.0])
@example([1e308] * 3 + [5e-324])
@example([1.0 - 2.0**-53] * 20 + [1.0 + 2.0**-52] * 10)
def test_probabilities_are_those_of_the_weights_within_the_bound(weights):
    """Each at most its share too small, the greatest one a little too large, and zeros exactly 0."""
    found = probabilities(AliasTable.of(np.array(weights)))
    total = sum(map(Fraction, weights))
    assert sum(found) == 1
    greatest = weights.index(max(weights))
    for place, (weight, got) in enumerate(zip(weights, found, strict=True)):
        exact = Fraction(weight) / total
        below = Fraction(1, WORD * len(weights)) + exact / 2**63
        above = Fraction(3, WORD) if place == greatest else 0
        assert exact - below <= got <= exact + above
        assert weight or not got


@given(weight_lists, st.integers(1, 7))
def test_how_weights_are_cut_makes_no_difference(weights, chunk):
    """Weights are worked on in parts."""
    whole = AliasTable.of(np.array(weights))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alias_table, "_CHUNK", chunk)
        parts = AliasTable.of(np.array(weights))
    assert np.array_equal(whole.thresholds, parts.thresholds)
    assert np.array_equal(whole.aliases, parts.aliases)


@given(weight_lists, st.lists(st.tuples(*[st.integers(0, WORD - 1)] * 2), max_size=20), st.data())
def test_a_draw_takes_a_column_and_a_part_of_it(weights, words, data):
    """With Python's integers, and with words at the borders of columns and thresholds."""
    n, table = len(weights), AliasTable.of(np.array(weights))
    column = data.draw(st.integers(0, n - 1))
    first, border = -(-column * WORD // n), int(table.thresholds[column])
    words += [
        (first, border),
        (first, max(border - 1, 0)),
        (first - 1 if first else 0, 0),
        (WORD - 1, WORD - 1),
    ]
    got = table.draw(*(np.array(row, np.uint64) for row in zip(*words, strict=True)))
    assert got.dtype == np.int64
    for (chosen, part), record in zip(words, got.tolist(), strict=True):
        own = chosen * n // WORD
        assert record == (own if part < table.thresholds[own] else table.aliases[own])


def test_a_large_table_lets_no_record_drift():
    """Ten thousand records of very unlike weights: sums of columns in Python's integers are those of the masses."""
    weights = np.random.Generator(np.random.Philox(key=1)).lognormal(sigma=4, size=10_000)
    total = sum(map(Fraction, weights.tolist()))
    found = probabilities(AliasTable.of(weights))
    worst = max(
        abs(got - Fraction(weight) / total) for weight, got in zip(weights.tolist(), found, strict=True)
    )
    assert sum(found) == 1
    assert worst < Fraction(3, WORD)


def test_arrays_are_read_only_also_in_a_copy():
    """12 bytes a record."""
    table = AliasTable.of(np.arange(100.0))
    for one in (table, pickle.loads(pickle.dumps(table))):
        assert one.thresholds.nbytes + one.aliases.nbytes == 1200
        assert not one.thresholds.flags.writeable
        assert not one.aliases.flags.writeable


def test_tables_are_part_of_the_stream():
    """These never change: streams that were trained on depend on them."""
    table = AliasTable.of(np.array([1.0, 0.0, 3.0, 0.1, 5.0]))
    assert table.aliases.tolist() == [2, 2, 4, 4, 4]
    assert [hex(threshold) for threshold in table.thresholds.tolist()] == [
        "0x8ca8ca8ca8ca8ca2",
        "0x0",
        "0x32a32a32a32a3288",
        "0xe10e10e10e10e48",
        "0x0",
    ]
