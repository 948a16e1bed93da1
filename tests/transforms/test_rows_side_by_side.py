"""Large rows that lie side by side in one array become a column without a copy; all others are copied as ever."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.transforms.column import batch_of, column_of

BASE = np.arange(8 * 1024, dtype=np.int64).reshape(8, 1024).copy()


def test_consecutive_rows_are_a_view():
    """Of the rows themselves; a batch of them is a copy, because the memory may be the source's own."""
    column = column_of(list(BASE[2:6]), {np.ndarray}, views=True)
    assert np.shares_memory(column, BASE)
    assert np.array_equal(column, BASE[2:6])
    assert not np.shares_memory(batch_of(column), BASE)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.booleans())
def test_any_rows_are_what_they_are(places, consecutive):
    """In whatever order they are taken, doubled ones too."""
    places = sorted({*places}) if consecutive else places
    column = column_of([BASE[place] for place in places], {np.ndarray}, views=True)
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
    column = column_of(leaves, {np.ndarray}, views=True)
    if isinstance(column, list):
        assert len({leaf.dtype for leaf in leaves}) > 1
        return
    assert column.dtype == leaves[0].dtype
    assert np.array_equal(column, np.stack(leaves))


class OneBuffer:
    """A source that gives the rows of each call in the same memory."""

    def __init__(self):
        self._buffer = np.empty((64, 1024))

    def __len__(self):
        return 64

    def __getitem__(self, record_key):
        return self.__getitems__([record_key])[0]

    def __getitems__(self, record_keys):
        for place, record_key in enumerate(record_keys):
            self._buffer[place] = record_key
        return list(self._buffer[: len(record_keys)])


def test_rows_of_a_source_are_copied_before_the_next_are_read():
    """Rows of several tasks wait for their batch: the source may write to their memory in the meantime."""
    loader = lk.DataLoader(
        data_source=OneBuffer(),
        sampler=lk.SequentialSampler(64),
        operations=[lk.Filter(lambda row: True), lk.Batch(64)],
    )
    with iter(loader) as batches:
        assert next(batches)[:, 0].tolist() == list(range(64))


def test_a_batch_of_a_source_s_own_read_only_array_can_be_written_to():
    kept = np.arange(4.0)
    kept.flags.writeable = False
    assert batch_of(kept).flags.writeable
    assert not np.shares_memory(batch_of(kept), kept)
