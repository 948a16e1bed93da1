"""Rows of Arrow files, beside pyarrow."""

import datetime
import decimal
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

import loaderkit as lk

ROWS = 60


def table_of_all_types() -> pa.Table:
    rng = np.random.default_rng(0)
    day = datetime.datetime(2020, 1, 1)
    return pa.table(
        {
            "int": np.arange(ROWS),
            "half": rng.random(ROWS).astype(np.float16),
            "flag": np.arange(ROWS) % 2 == 0,
            "text": [f"text {row}" for row in range(ROWS)],
            "some": [None if row % 3 == 0 else row for row in range(ROWS)],
            "tokens": pa.array([list(range(row % 4)) for row in range(ROWS)], pa.list_(pa.int16())),
            "words": [["a", "b"]] * ROWS,
            "nested": [{"x": row, "boxes": [{"y": [1.5, row]}]} for row in range(ROWS)],
            "day": [day.date()] * ROWS,
            "moment": [day] * ROWS,
            "kind": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
            "data": [b"\0\1"] * ROWS,
            "box": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(4.0 * ROWS)), 4),
            "image": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(6 * ROWS).reshape(ROWS, 2, 3)),
            "holes": [[1, None]] * ROWS,
            "nothing": pa.nulls(ROWS),
            "price": [decimal.Decimal("1.50")] * ROWS,
            "pairs": pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int32())),
        }
    )


def as_python(value):
    """As pyarrow's `to_pylist` has it."""
    if isinstance(value, np.datetime64 | np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, dict):
        return {name: as_python(each) for name, each in value.items()}
    return [as_python(each) for each in value] if isinstance(value, list) else value


def write(path, table, *, chunk=13, compression=None, stream=False):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema, options=options) as file:
        file.write_table(table, max_chunksize=chunk)
    return str(path)


@pytest.mark.parametrize(("compression", "stream"), [(None, False), ("zstd", False), (None, True)])
def test_rows_are_those_of_pyarrow(tmp_path, compression, stream):
    """Each type, in a file of several record batches."""
    table = table_of_all_types()
    source = lk.formats.ArrowDataSource(
        write(tmp_path / "a.arrow", table, compression=compression, stream=stream)
    )
    plain = table.drop_columns("image").to_pylist()
    keys = [59, 0, 13, 12, 0, 14]
    rows = source.__getitems__(keys)
    for key, row in zip(keys, rows):
        image = row.pop("image")
        assert image.shape == (2, 3) and image[0, 0] == 6 * key
        assert as_python(row) == plain[key]
    assert not hasattr(source, "take")


def test_types_of_values(tmp_path):
    """numpy numbers, str, bytes, arrays for lists of numbers; the same whatever the values."""
    row = lk.formats.ArrowDataSource(write(tmp_path / "a.arrow", table_of_all_types()))[4]
    kinds = {name: type(value) for name, value in row.items()}
    assert kinds["int"] is np.int64 and kinds["half"] is np.float16 and kinds["flag"] is np.bool_
    assert kinds["text"] is str and kinds["data"] is bytes and kinds["kind"] is str and kinds["words"] is list
    assert row["tokens"].dtype == np.int16 and row["tokens"].size == 0
    assert row["day"] == np.datetime64("2020-01-01") and row["moment"].dtype == np.dtype("M8[us]")
    assert row["nested"]["boxes"][0]["y"].dtype == np.float64
    assert row["holes"] == [1, None]


def test_types_that_pyarrow_does_not_take():
    """Views and runs, at the top and within others; slices, and nulls of each."""
    words, numbers = ["a", None, "ü" * 20, "b", ""], [[1, 2], None, [], [3], [4]]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), pa.array(["x", None, "y"]))
    numeric = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), pa.array([1, None, 2]))
    table = pa.table(
        {
            "text": pa.array(words, pa.string_view()),
            "data": pa.array([None if each is None else each.encode() for each in words], pa.binary_view()),
            "list": pa.array(numbers, pa.list_view(pa.int16())),
            "texts": pa.array([[each] for each in words], pa.list_view(pa.string_view())),
            "dict": pa.array([{"text": each} for each in words], pa.struct([("text", pa.string_view())])),
            "pair": pa.array([[each, each] for each in words], pa.list_(pa.string_view(), 2)),
            "map": pa.array([[("key", each)] for each in words], pa.map_(pa.string_view(), pa.string_view())),
            "runs": runs,
            "numbers": numeric,
        }
    ).slice(1)
    source = lk.formats.TableDataSource(table)
    for keys in ([3, 0, 2, 1], [1]):
        rows = source.__getitems__(keys)
        assert [as_python(row) for row in rows] == [table.to_pylist()[key] for key in keys]
    assert source[2]["list"].dtype == np.int16
    source = lk.formats.TableDataSource(table, columns=["numbers"])
    assert source.take([3, 0])["numbers"].tolist() == [2, 1]
    with pytest.raises(ValueError, match=r"table\[1\]: expected a value in the column 'numbers', got a null"):
        source.take([3, 1])


def test_a_batch_by_column(tmp_path):
    """`take` is there for numbers of one shape, and a loader uses it."""
    columns = ["box", "int", "image", "moment"]
    source = lk.formats.ArrowDataSource(write(tmp_path / "a.arrow", table_of_all_types()), columns=columns)
    taken = source.take([59, 0, 13])
    assert [*taken] == columns
    assert taken["image"].shape == (3, 2, 3) and taken["int"].tolist() == [59, 0, 13]
    batch = next(iter(lk.load(source, batch_size=8, shuffle=True, seed=1, worker_count=1)))
    assert (batch["box"][:, 0] == 4.0 * batch["int"]).all() and (
        batch["image"][:, 0, 0] == 6 * batch["int"]
    ).all()


def test_a_null_in_a_column_names_its_row(tmp_path):
    """The records can be read still."""
    path = write(tmp_path / "a.arrow", pa.table({"x": [1, 2, None, 4]}))
    source = lk.formats.ArrowDataSource(path)
    assert source.take([3, 0])["x"].tolist() == [4, 1]
    with pytest.raises(ValueError, match=r"a\.arrow\[2\]: expected a value in the column 'x', got a null"):
        source.take([3, 2])
    assert source[2] == {"x": None}


def test_several_files_and_parts(tmp_path):
    """In the order given; a part is cut from record batches."""
    for name in "ab":
        write(tmp_path / f"{name}.arrow", pa.table({"of": [name] * 20, "row": range(20)}), chunk=6)
    source = lk.formats.ArrowDataSource([f"{tmp_path}/b.arrow[5:15]", f"{tmp_path}/a.arrow"])
    rows = source.__getitems__(range(len(source)))
    assert [(row["of"], int(row["row"])) for row in rows] == [
        *(("b", row) for row in range(5, 15)), *(("a", row) for row in range(20))
    ]  # fmt: skip
    assert source.name(3) == f"{tmp_path}/b.arrow[8]"
    with pytest.raises(ValueError, match=r"a part of the 20 rows of .*a\.arrow, got \[15:30\]"):
        lk.formats.ArrowDataSource(f"{tmp_path}/a.arrow[15:30]")


def test_a_worker_process_opens_the_file_itself(tmp_path, in_child):
    """The pickled source holds no data."""
    source = lk.formats.ArrowDataSource(
        write(tmp_path / "a.arrow", pa.table({"x": np.arange(10**5)}), chunk=10_000)
    )
    assert in_child(source, lambda each: int(each[99_999]["x"])) == 99_999
    assert len(pickle.dumps(source)) < 5000


def test_fingerprints(tmp_path):
    """The same for a copied file, another for other data."""
    table = pa.table({"x": np.arange(1000)})
    (tmp_path / "copy").mkdir()
    source = lk.formats.ArrowDataSource(write(tmp_path / "a.arrow", table))
    assert (
        source.fingerprint()
        == lk.formats.ArrowDataSource(write(tmp_path / "copy" / "a.arrow", table)).fingerprint()
    )
    write(tmp_path / "copy" / "a.arrow", pa.table({"x": np.arange(1000) + 1}))
    assert source.fingerprint() != lk.formats.ArrowDataSource(tmp_path / "copy" / "a.arrow").fingerprint()


def test_what_is_refused(tmp_path):
    """File, what is wrong, what to do."""
    table = pa.table({"x": [1, 2], "y": ["a", "b"]})
    path = write(tmp_path / "a.arrow", table)
    with pytest.raises(FileNotFoundError, match="missing"):
        lk.formats.ArrowDataSource(tmp_path / "missing.arrow")
    with pytest.raises(ValueError, match="columns: expected some of"):
        lk.formats.ArrowDataSource(path, columns=["z"])
    with pytest.raises(TypeError, match="columns: expected a list"):
        lk.formats.ArrowDataSource(path, columns="x")
    other = write(tmp_path / "b.arrow", pa.table({"x": [1.5], "y": ["a"]}))
    with pytest.raises(
        lk.errors.DataFormatError, match=r"b\.arrow: expected the column 'x' of type int64, as .*a\.arrow"
    ):
        lk.formats.ArrowDataSource([path, other])
    lk.formats.ArrowDataSource([path, other], columns=["y"])
    fewer = write(tmp_path / "c.arrow", pa.table({"x": [1]}))
    with pytest.raises(lk.errors.DataFormatError, match=r"c\.arrow: expected the columns \['x', 'y'\]"):
        lk.formats.ArrowDataSource([path, fewer])
    (tmp_path / "text.arrow").write_text("no table, only text " * 9)
    with pytest.raises(lk.errors.DataFormatError, match=r"text\.arrow: expected an Arrow file"):
        lk.formats.ArrowDataSource(tmp_path / "text.arrow")
    (tmp_path / "short.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:-40])
    with pytest.raises(lk.errors.DataFormatError, match=r"short\.arrow.*truncated"):
        lk.formats.ArrowDataSource(tmp_path / "short.arrow")
    empty = write(tmp_path / "empty.arrow", table.slice(0, 0))
    with pytest.raises(ValueError, match="expected one row or more"):
        lk.formats.ArrowDataSource(empty)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(lk.errors.DataFormatError, match="two named 'x'"):
        lk.formats.ArrowDataSource(write(tmp_path / "twice.arrow", twice))
    compressed = write(tmp_path / "z.arrow", pa.table({"x": np.zeros(1000)}), compression="zstd", stream=True)
    with pytest.raises(lk.errors.DataFormatError, match="compressed stream"):
        lk.formats.ArrowDataSource(compressed)
    with pytest.raises(ValueError, match=r"gs://bucket/a\.arrow; copy them first"):
        lk.formats.ArrowDataSource("gs://bucket/a.arrow")


def test_a_value_that_cannot_be_read_names_its_row(tmp_path):
    """Here a text that isn't UTF-8."""
    texts = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.array([0, 1, 2, 3], pa.int32()).buffers()[1], pa.py_buffer(b"a\xffb")]
    )
    source = lk.formats.ArrowDataSource(write(tmp_path / "a.arrow", pa.table({"text": texts})))
    assert source[2] == {"text": "b"}
    with pytest.raises(
        lk.errors.DataFormatError, match=r"a\.arrow\[1\]: expected values of the columns' types"
    ):
        source.__getitems__([2, 1, 0])


def test_a_file_that_was_written_again(tmp_path):
    """Another file under the name is never read."""
    path = write(tmp_path / "a.arrow", pa.table({"x": [1, 2, 3]}))
    source = lk.formats.ArrowDataSource(path)
    write(tmp_path / "new", pa.table({"x": [4, 5, 6]}))
    os.replace(tmp_path / "new", path)
    with pytest.raises(lk.errors.FileChangedError, match=r"a\.arrow"):
        source[0]
