"""Large rows that lie side by side in one array become a column without a copy; all others are copied as ever."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit.transforms.column import batch_of, column_of

BASE = np.arange(8 * 1024, dtype=np.int64).reshape(8, 1024).copy()


def test_consecutive_rows_are_a_view():
    """Of the rows themselves; a batch of them is a copy, because the memory may be the source's own."""
    column = column_of(list(BASE[2:6]), {np.ndarray})
    assert np.shares_memory(column, BASE)
    assert np.array_equal(column, BASE[2:6])
    assert not np.shares_memory(batch_of(column), BASE)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.booleans())
def test_any_rows_are_what_they_are(places, consecutive):
    """In whatever order they are taken, doubled ones too."""
    places = sorted({*places}) if consecutive else places
    column = column_of([BASE[place] for place in places], {np.ndarray})
    assert np.array_equal(column, BASE[places])
    assert np.shares_memory(column, BASE) == (places == list(range(places[0], places[0] + len(places))))


@pytest.mark.parametrize(
    "leaves",
    [
        list(BASE.reshape(4, 2048)[:, :1024]),  # of longer rows
        list(BASE.T.copy().T[:2]),  # of another memory order
        [BASE[0], BASE.copy()[1]],
        [BASE[0], BASE[1].view(np.float64)],
        [BASE[0].view(np.uint64), BASE[1].view(np.uint64)],
        [BASE[0], BASE[1][::-1]],
        list(BASE[:2, :8]),  # small ones
        list(BASE.reshape(-1)[4 : 4 + 2048].reshape(2, 1024)),  # not at the begin of a row
    ],
    ids=["longer", "fortran", "apart", "mixed", "viewed", "backwards", "small", "shifted"],
)
def test_rows_that_lie_otherwise_are_copied(leaves):
    """The result is np.stack's, or the list where there is none without loss."""
    column = column_of(leaves, {np.ndarray})
    if isinstance(column, list):
        assert len({leaf.dtype for leaf in leaves}) > 1
        return
    assert column.dtype == leaves[0].dtype
    assert np.array_equal(column, np.stack(leaves))
