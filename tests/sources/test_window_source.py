"""Windows of a series equal those of a loop, from any kind of source."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.testing import check_source


class Bulk(list[Any]):
    """A list that notes the keys of each call."""

    def __getitems__(self, keys: Any) -> list[Any]:
        self.calls = [*getattr(self, "calls", []), list(keys)]
        return [self[key] for key in keys]


@given(st.integers(1, 30), st.integers(1, 6), st.none() | st.integers(1, 7), st.integers(1, 4))
def test_windows_are_those_of_a_loop(n: int, size: int, shift: int | None, stride: int) -> None:
    series = {"x": np.arange(2 * n).reshape(n, 2), "t": np.arange(n, dtype=np.int32)}
    step, span = shift or size, (size - 1) * stride + 1
    expected = [range(first, first + span, stride) for first in range(0, n - span + 1, step)]
    sources = [lk.ArrayDataSource(series), Bulk({"x": series["x"][k], "t": series["t"][k]} for k in range(n))]
    for source in sources:
        if not expected:
            with pytest.raises(ValueError, match=f"size: expected windows of at most {n} records, as"):
                lk.sources.WindowDataSource(source, size, shift=shift, stride=stride)
            continue
        windows = lk.sources.WindowDataSource(source, size, shift=shift, stride=stride)
        assert len(windows) == len(expected)
        for key, rows in enumerate(expected):
            window = windows[key]
            assert np.array_equal(window["x"], series["x"][rows]) and np.array_equal(window["t"], rows)
            assert window["t"].dtype == np.int32


def test_columns_are_written_in_place_and_the_stream_is_the_same() -> None:
    series = np.arange(1000, dtype=np.float32).reshape(500, 2)
    of_columns = lk.sources.WindowDataSource(lk.ArrayDataSource({"x": series}), 8, shift=3)
    of_records = lk.sources.WindowDataSource([{"x": row} for row in series], 8, shift=3)
    out = [np.empty((2, 8, 2), np.float32)]
    of_columns.take([5, 7], out=out)
    assert np.array_equal(out[0], np.stack([series[15:23], series[21:29]]))
    assert not hasattr(of_records, "take") and not hasattr(of_records, "__getitems__")

    def batches(source: Any, **running: Any) -> list[bytes]:
        with lk.load(source, batch_size=4, shuffle=True, seed=0, num_epochs=1, **running) as loader:
            return [batch["x"].tobytes() for batch in loader]

    assert (
        batches(of_columns)
        == batches(of_records)
        == batches(of_columns, worker_count=2, worker_kind="thread")
    )


def test_shared_records_are_read_once() -> None:
    source = Bulk(np.int64(k) for k in range(10))
    made = lk.sources.WindowDataSource(source, 4, shift=1).__getitems__([0, 1, 2])
    assert [window.tolist() for window in made] == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
    assert source.calls == [[0, 1, 2, 3, 4, 5]]


def test_it_is_a_source() -> None:
    check_source(
        lk.sources.WindowDataSource(lk.ArrayDataSource({"x": np.arange(20)}), 4, shift=2), progress=False
    )
    windows = lk.sources.WindowDataSource(range(9), 2)
    assert repr(windows) == "WindowDataSource(range(0, 9), size=2, shift=2, stride=1)"
    assert windows.fingerprint()["shift"] == 2 and windows.read_ahead == 0
    with pytest.raises(IndexError):
        windows[4]
    with pytest.raises(ValueError, match="source: expected records of one structure in a window"):
        lk.sources.WindowDataSource([{"x": 1}, {"y": 2}], 2)[0]
    with pytest.raises(ValueError, match="shift: expected 1 or more, got 0"):
        lk.sources.WindowDataSource(range(9), 2, shift=0)
