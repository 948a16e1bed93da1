"""Rows of tables in memory and of data sets of Hugging Face, beside those libraries."""

import json

import numpy as np
import pandas
import pyarrow as pa
import pytest

import loaderkit as lk


def frame() -> pandas.DataFrame:
    return pandas.DataFrame(
        {
            "number": [1, 2, 3],
            "float": [0.5, float("nan"), 1.0],
            "text": ["x", None, "y"],
            "kind": pandas.Categorical(["u", "v", "u"]),
            "some": pandas.array([1, None, 2], dtype="Int64"),
            "day": pandas.to_datetime(["2020-01-01", "2021-01-01", None]),
            "list": [[1, 2], [], [3]],
        },
        index=[7, 8, 9],
    )


def test_rows_of_pandas():
    """The index isn't a column; NaN of a float column is a number, other missing values are None."""
    rows = lk.formats.TableDataSource(frame()).__getitems__([0, 1, 2])
    assert [row["number"] for row in rows] == [1, 2, 3] and type(rows[0]["number"]) is np.int64
    assert np.isnan(rows[1]["float"]) and [row["text"] for row in rows] == ["x", None, "y"]
    assert [row["kind"] for row in rows] == ["u", "v", "u"] and [row["some"] for row in rows] == [1, None, 2]
    assert rows[0]["day"] == np.datetime64("2020-01-01") and rows[2]["day"] is None
    assert [row["list"].tolist() for row in rows] == [[1, 2], [], [3]]


def test_rows_of_polars():
    """The same as of pyarrow, whose table polars gives."""
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(
        {"x": [1, None], "text": ["a", "b"], "list": [[1.5], []], "s": [{"y": 1}, {"y": 2}]}
    )
    first, second = lk.formats.TableDataSource(table).__getitems__([0, 1])
    assert first["list"].tolist() == [1.5] and {**first, "list": 0} == {
        "x": 1,
        "text": "a",
        "list": 0,
        "s": {"y": 1},
    }
    assert second["x"] is None and second["text"] == "b"


def test_rows_of_pyarrow():
    """Of a table of several chunks, and of a record batch; by column where all are numbers."""
    batch = pa.record_batch({"x": np.arange(5.0), "y": np.arange(5, dtype=np.int8)})
    for table in (batch, pa.Table.from_batches([batch.slice(0, 2), batch.slice(2)])):
        source = lk.formats.TableDataSource(table, columns=["y", "x"])
        assert source[3] == {"y": 3, "x": 3.0}
        assert source.take([4, 0])["y"].tolist() == [4, 0]


def test_workers_share_the_memory(in_child):
    """The pickled source for a worker holds no rows."""
    source = lk.formats.TableDataSource(pa.table({"x": np.arange(10**6)}))
    assert in_child(source, lambda each: int(each[999_999]["x"])) == 999_999


def test_what_is_refused():
    """What it is, and what to write."""
    with pytest.raises(TypeError, match=r"table: expected a DataFrame of pandas or polars.*got a list"):
        lk.formats.TableDataSource([1, 2])
    with pytest.raises(ValueError, match="one row or more"):
        lk.formats.TableDataSource(frame()[:0])
    with pytest.raises(TypeError, match="expected values of one type in the column 'mixed'"):
        lk.formats.TableDataSource(pandas.DataFrame({"mixed": [1, "a", b"b"]}))
    with pytest.raises(lk.errors.DataFormatError, match="two named '1'"):
        lk.formats.TableDataSource(pandas.DataFrame([[1, 2]], columns=["1", 1]))


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory):
    """1,500 records in an Arrow file of the library."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    folder = tmp_path_factory.mktemp("hf")
    lines = (json.dumps({"a": row, "text": str(row), "list": [1, row]}) for row in range(1500))
    (folder / "a.jsonl").write_text("\n".join(lines))
    return datasets.Dataset.from_json(str(folder / "a.jsonl"), cache_dir=str(folder / "cache"))


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each,
        lambda each: each.shuffle(seed=0),
        lambda each: each.select(range(5, 1400, 3)),
        lambda each: each.shuffle(seed=1).select([3, 1, 1]),
        lambda each: each.select_columns(["text", "a"]),
        lambda each: each.with_format(columns=["a"]),
        lambda each: type(each).from_dict({"a": [1, 2]}),
    ],
)
def test_rows_of_hugging_face_are_its_own(hugging_face, change, in_child):
    """Whatever was chosen, shuffled or is in memory; in another process, too."""
    data = change(hugging_face)
    source = lk.formats.TableDataSource(data)
    keys = [len(data) - 1, 0, len(data) // 2]
    rows = source.__getitems__(keys)
    assert [{name: np.asarray(value).tolist() for name, value in row.items()} for row in rows] == [
        data[key] for key in keys
    ]
    assert len(source) == len(data)


def test_hugging_face_in_a_worker(hugging_face, in_child):
    """The mapped file is opened there; keys of a shuffle lie in shared memory."""
    source = lk.formats.TableDataSource(hugging_face.shuffle(seed=0))
    assert in_child(source, lambda each: each[1499]["text"]) == source[1499]["text"]


def test_the_fingerprint_of_hugging_face(hugging_face):
    """Another for other data and another order, the same for the same."""
    same = [lk.formats.TableDataSource(hugging_face).fingerprint() for _ in range(2)]
    others = [lk.formats.TableDataSource(hugging_face.shuffle(seed=seed)).fingerprint() for seed in (0, 1)]
    assert same[0] == same[1] and same[0] not in others and others[0] != others[1]


def test_a_format_of_hugging_face_is_not_dropped(hugging_face):
    """What a format or a transform makes of a row is never replaced by the stored row."""
    for data in (hugging_face.with_format("numpy"), hugging_face.with_transform(lambda rows: rows)):
        with pytest.raises(TypeError, match=r"table: expected a data set without a format.*as data_source"):
            lk.formats.TableDataSource(data)
