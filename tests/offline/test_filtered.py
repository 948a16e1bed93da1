"""lk.offline.filtered: a source of the records that a function keeps."""

import pytest

import loaderkit as lk


def test_filtered(tmp_path):
    """Asked once for each record; shuffled by a loader; the kept answers are of this function and source."""
    calls = []

    def odd(record):
        calls.append(record)
        return record % 2 == 1

    kept = lk.offline.filtered(range(100), odd, tmp_path / "odd.npy")
    assert [*kept] == [*range(1, 100, 2)] and calls == [*range(100)]
    assert [*lk.offline.filtered(range(100), odd, tmp_path / "odd.npy")] == [*kept] and len(calls) < 110
    loaded = [*lk.load(kept, shuffle=True, seed=0, num_epochs=1)]
    assert sorted(loaded) == [*kept] != loaded
    with pytest.raises(ValueError, match="Delete it to measure again"):
        lk.offline.filtered(range(100), lambda record: record > 3, tmp_path / "odd.npy")
    with pytest.raises(ValueError, match="expected one record or more to be kept of 3, got none"):
        lk.offline.filtered(range(3), lambda record: record > 3, tmp_path / "none.npy")
    with pytest.raises(TypeError, match="expected True or False for each record, got values of int64"):
        lk.offline.filtered(range(3), lambda record: record, tmp_path / "number.npy")
    with pytest.raises(TypeError, match="predicate: expected a function of a record"):
        lk.offline.filtered(range(3), [1], tmp_path / "no.npy")
