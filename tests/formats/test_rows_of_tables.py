"""Tables beside files: rows with their files, rows in groups."""

import pickle

import numpy as np
import pandas
import pyarrow
import pytest

import loaderkit as lk
from loaderkit.formats.tables.columns import table_columns

ROWS = {"path": ["b/1.txt", "a.txt", "b/1.txt"], "label": [3, 1, 2]}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("A")
    (tmp_path / "b/1.txt").write_text("B1")
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "tsv", "pandas", "arrow", "dict", "source"])
def test_a_table_with_a_file_a_row(root, kind):
    """Every kind of table gives the same rows; those of text files are texts."""
    rows = [dict(zip(ROWS, values)) for values in zip(*ROWS.values())]
    frame = pandas.DataFrame(ROWS)
    table = {"pandas": frame, "arrow": pyarrow.table(ROWS), "dict": ROWS, "source": rows}.get(kind)
    if table is None:
        table = root / f"table.{kind}"
        frame.to_csv(table, index=False, sep="\t" if kind == "tsv" else ",")
        rows = [{**row, "label": str(row["label"])} for row in rows]
    with lk.formats.JoinedFilesDataSource(table, "path", root) as source:
        files = [b"B1", b"A", b"B1"]
        assert [*source] == [{**row, "file": data} for row, data in zip(rows, files)]
        assert source.name(1) == f"{root}/a.txt"
        assert pickle.loads(pickle.dumps(source))[2] == source[2]


def test_a_table_whose_files_are_wrong(root):
    """Each error names the row; files are checked when the source is made."""
    for paths, error, text in [
        (
            ["a.txt", "no.txt", "x"],
            FileNotFoundError,
            r"row 1: .*'no.txt', got none at .*/no.txt, and 1 more",
        ),
        (["a.txt", "b"], FileNotFoundError, "row 1"),
        (
            ["b/../../etc"],
            lk.errors.DataFormatError,
            "row 0: .* which leads out of it; write names relative to root",
        ),
        (["a.txt", "/etc/passwd"], lk.errors.DataFormatError, "row 1: .*'/etc/passwd', which leads out"),
        (["a.txt", None], lk.errors.DataFormatError, "row 1: expected the name of a file .* got None"),
        (["a.txt", ""], lk.errors.DataFormatError, "row 1"),
    ]:
        with pytest.raises(error, match=text):
            lk.formats.JoinedFilesDataSource({"path": paths}, "path", root)
    with pytest.raises(ValueError, match=r"column: expected one of the columns \['path', 'label'\], got 'p'"):
        lk.formats.JoinedFilesDataSource(ROWS, "p", root)
    with pytest.raises(ValueError, match="key: expected a name other than"):
        lk.formats.JoinedFilesDataSource(ROWS, "path", root, key="label")
    source = lk.formats.JoinedFilesDataSource(ROWS, "path", root)
    (root / "a.txt").write_text("changed")
    with pytest.raises(lk.errors.FileChangedError, match=r"a\.txt"):
        source[1]


def test_tables_that_are_none():
    """Other objects, rows that differ, columns that differ."""
    for table, error, text in [
        (3, TypeError, "table: expected a data source, got the int 3"),
        ([1, 2], TypeError, "records that are dicts .* got a int in row 0"),
        (
            [{"a": 1}, {"b": 1}],
            lk.errors.DataFormatError,
            r"columns \['a'\] in row 1, as in row 0, got \['b'\]",
        ),
        ({"a": [1], "b": [1, 2]}, ValueError, "columns of one length"),
        ({"a": []}, ValueError, "one row or more"),
    ]:
        with pytest.raises(error, match=text):
            table_columns(table)


def test_rows_joined_by_a_key_and_padded(root):
    """Groups are pandas' own, in the order of first appearance, of any kind of key; PadTo makes a batch of them."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"hid": rng.integers(50, size=1000), "x": rng.random(1000)})
    frame["name"] = "h" + frame["hid"].astype(str)
    for by in ("hid", "name"):
        source = lk.formats.GroupedRowsDataSource(frame, by)
        theirs = [*frame.groupby(by, sort=False)]
        assert [*source.keys] == [key for key, _ in theirs]
        for record, (key, group) in zip(source, theirs, strict=True):
            assert record[by] == key and np.array_equal(record["x"], group["x"])
        assert source.lengths.tolist() == [len(group) for _, group in theirs]
        assert source.name(0) == f"{by}={theirs[0][0]}"
    numbers = lk.formats.GroupedRowsDataSource(frame[["hid", "x"]], "hid")
    loader = lk.load(numbers, batch_size=4, operations=[lk.PadTo(100, "x", mask="mask")])
    batch = next(iter(loader))
    assert batch["x"].shape == (4, 100) and batch["mask"].sum() == numbers.lengths[:4].sum()


def test_groups_in_the_order_of_given_keys():
    """As the arrays beside them are: keys without rows have none, rows of other keys and repeats are errors."""
    for a, b, c in [(3, 5, 7), ("a", "b", "c")]:
        source = lk.formats.GroupedRowsDataSource({"k": [c, a, c], "x": [0.5, 1.5, 2.5]}, "k", keys=[a, b, c])
        assert [record["k"] for record in source] == [a, b, c]
        assert [record["x"].tolist() for record in source] == [[1.5], [], [0.5, 2.5]]
        assert source.lengths.tolist() == [1, 0, 2] and source.name(1) == f"k={b}"
        more = lk.formats.GroupedRowsDataSource({"k": [c], "x": [0.5]}, "k", keys=[c, a])
        assert [record["x"].tolist() for record in more] == [[0.5], []]
        with pytest.raises(
            lk.errors.DataFormatError, match=f"table, row 1: expected one of `keys` in k, got {c!r}"
        ):
            lk.formats.GroupedRowsDataSource({"k": [a, c], "x": [1, 2]}, "k", keys=[b, a])
        with pytest.raises(ValueError, match=f"keys: expected each key once, got {a!r} twice"):
            lk.formats.GroupedRowsDataSource({"k": [a], "x": [1]}, "k", keys=[a, b, a])
    for keys in (3, [], np.ones((2, 2))):
        with pytest.raises(ValueError, match="keys: expected a key of each record"):
            lk.formats.GroupedRowsDataSource({"k": [1], "x": [1]}, "k", keys=keys)


def test_rows_without_a_key():
    """NaN, None, a list: the row is named."""
    for keys in ([1.0, np.nan], ["a", None], np.array(["2020", "NaT"], "M8[D]"), ["a", ["b"]]):
        with pytest.raises(lk.errors.DataFormatError, match="table, row 1: expected"):
            lk.formats.GroupedRowsDataSource({"k": keys, "x": [1, 2]}, "k")
    with pytest.raises(TypeError, match="by: expected a column's name, got 3"):
        lk.formats.GroupedRowsDataSource({"k": [1]}, 3)
