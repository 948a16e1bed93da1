"""Tables that lk.write made of arrays: batches are read by column where the arrays have one shape."""

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._source.optional import ColumnsDifferError

pytest.importorskip("pyarrow")

ROWS = 40
SOURCES = {"arrow": lk.formats.ArrowDataSource, "parquet": lk.ParquetDataSource}


def records(shapes=((4, 5, 3),)):
    rng = np.random.default_rng(0)
    return [
        {
            "image": rng.integers(0, 256, shapes[min(row, len(shapes) - 1)], np.uint8),
            "big": np.full((2, 1), row, ">f4"),
            "tokens": np.arange(row, row + 6, dtype=np.int32),
            "label": row,
            "weight": np.float32(row),
        }
        for row in range(ROWS)
    ]


def written(path, rows, kind):
    lk.write(rows, path / f"x.{kind}", format=kind, overwrite=True)
    return SOURCES[kind](path / f"x.{kind}", cache_bytes=1 << 18)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_batch_is_the_rows_stacked(tmp_path, kind):
    """Values, dtypes and shapes; into given arrays; none; in a loader's worker."""
    rows = records()
    source = written(tmp_path, rows, kind)
    keys = [39, 0, 0, 17]
    for taken in (source.take(keys), dict(zip(rows[0], _into(source, keys)))):
        assert [*taken] == [*rows[0]]
        for name, column in taken.items():
            expected = np.stack([rows[key][name] for key in keys])
            assert column.dtype == np.asarray(source[0][name]).dtype and np.array_equal(column, expected), (
                name
            )
    assert source.take([])["image"].shape == (0, 4, 5, 3)
    loader = lk.load(source, batch_size=8, shuffle=True, seed=0, num_epochs=1, worker_count=1)
    for batch in loader:
        for place, row in enumerate(batch["label"].tolist()):
            assert np.array_equal(batch["image"][place], rows[row]["image"])


def _into(source, keys):
    out = [np.empty_like(column) for column in source.take(keys).values()]
    source.take(keys, out=out)
    return out


@pytest.mark.parametrize("kind", SOURCES)
def test_arrays_of_several_shapes(tmp_path, kind):
    """Those of the first chunk differ: no columns. A later one differs: the row is named, and can be read."""
    assert not hasattr(written(tmp_path, records([(2, 2), (2, 3)]), kind), "take")
    rows = [{"x": np.zeros((300, 300), np.uint8)}] * 30 + [{"x": np.zeros((2, 3), np.uint8)}] * 30
    source = written(tmp_path, [*rows, {"x": None}], kind)
    assert len(source._ends) > 1
    assert source.take([29, 3])["x"].shape == (2, 300, 300)
    for keys, text in [
        (
            [0, 35, 31],
            r"\[35\]: expected an array of shape \(300, 300\), as the first row has in the column 'x'",
        ),
        ([35, 36], r"\[35\]: expected an array of shape \(300, 300\)"),
        ([60, 1], r"\[60\]: expected a value in the column 'x', got a null"),
    ]:
        with pytest.raises(ColumnsDifferError, match=text):
            source.take(keys)
    assert [source[row]["x"] is None or source[row]["x"].shape for row in (0, 35, 60)] == [
        (300, 300),
        (2, 3),
        True,
    ]


def test_beside_texts_there_are_no_columns(tmp_path):
    """Nothing is read to find out."""
    source = written(tmp_path, [{**row, "text": "a"} for row in records()], "parquet")
    source._chunk = None
    assert not hasattr(source, "take")
