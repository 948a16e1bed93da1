"""The planners of one block, beside loops that do what their descriptions say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packing_twins import naive_best_fit, naive_concat, naive_cut, naive_first_fit

from loaderkit._order.packing.best_fit import best_fit
from loaderkit._order.packing.first_fit import first_fit
from loaderkit._order.packing.pieces import concat_then_split, cut

LENGTHS = st.lists(st.integers(0, 300), max_size=60)
ROW = st.integers(1, 200)


def grouped(pieces, rows):
    """Pieces by row, in their order."""
    found = [[] for _ in range(max(rows, default=-1) + 1)]
    for piece, row in zip(pieces, rows, strict=True):
        found[row].append(piece)
    return found


def pieces_of(lengths, row, long="split"):
    documents, numbers, tokens = cut(np.array(lengths, np.int64).reshape(-1, 1), np.array([row]), long)
    return list(zip(documents.tolist(), (numbers * row).tolist(), tokens[:, 0].tolist()))


@given(LENGTHS, ROW, st.sampled_from(["split", "truncate", "drop"]))
def test_cut(lengths, row, long):
    assert pieces_of(lengths, row, long) == naive_cut(lengths, row, long)


def test_cut_of_features_numbers_pieces_together():
    """A feature that has no tokens left has 0 in the later pieces."""
    pieces = cut(np.array([[9, 2], [0, 1]]), np.array([4, 2]), "split")
    assert pieces.documents.tolist() == [0, 0, 0, 1]
    assert pieces.tokens.tolist() == [[4, 2], [4, 0], [1, 0], [0, 1]]


@given(LENGTHS, ROW)
def test_best_fit(lengths, row):
    pieces = pieces_of(lengths, row)
    order, rows = best_fit(np.array([tokens for *_, tokens in pieces], np.int64), row)
    assert grouped([pieces[k] for k in order], rows.tolist()) == naive_best_fit(pieces, row)


@given(LENGTHS, ROW)
def test_first_fit(lengths, row):
    pieces = pieces_of(lengths, row)
    rows = first_fit(np.array([tokens for *_, tokens in pieces], np.int64).reshape(-1, 1), np.array([row]))
    assert grouped(pieces, rows.tolist()) == naive_first_fit(pieces, row)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=40))
def test_first_fit_of_features(needs):
    """The first row with room in every feature."""
    room, expected = [], []
    for need in needs:
        fitting = [k for k, left in enumerate(room) if left[0] >= need[0] and left[1] >= need[1]]
        if not fitting:
            room.append((9, 5))
        chosen = fitting[0] if fitting else len(room) - 1
        room[chosen] = (room[chosen][0] - need[0], room[chosen][1] - need[1])
        expected.append(chosen)
    assert first_fit(np.array(needs, np.int64).reshape(-1, 2), np.array([9, 5])).tolist() == expected


@given(LENGTHS.filter(any), ROW)
def test_concat_then_split(lengths, row):
    documents, numbers, rows, shifts = concat_then_split(np.array(lengths), row)
    found = grouped(zip(documents.tolist(), numbers.tolist()), rows.tolist())
    expected = naive_concat(lengths, row, "split")
    assert [[document for document, _ in pieces] for pieces in found] == [
        [p[0] for p in row] for row in expected
    ]
    for pieces, shift, twins in zip(found, shifts.tolist(), expected, strict=True):
        assert [number * row - (shift if number else 0) for _, number in pieces] == [
            start for _, start, _ in twins
        ]


@pytest.mark.parametrize("row", [1, 63, 64, 65, 4096, 100_000])
def test_best_fit_fills_rows_of_any_length(row):
    """Words of rooms have 64 bits: rows around and far above that."""
    tokens = np.random.default_rng(row).integers(1, row + 1, 500)
    order, rows = best_fit(tokens, row)
    assert sorted(order) == list(range(500))
    assert np.bincount(rows, tokens[order]).max() <= row
    assert rows.max() + 1 <= len(naive_best_fit([(k, 0, int(n)) for k, n in enumerate(tokens)], row))
