"""CSV with types: values as tables have them, and errors that name file, line and column."""

import gzip
import io
from decimal import Decimal

import numpy as np
import pytest

import loaderkit as lk

pyarrow = pytest.importorskip("pyarrow")
csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
csv.read_csv(io.BytesIO(b"x\n"))  # pyarrow opens a pipe for signals at the first call, and keeps it

TEXT = """\
age,height,member,day,seen,name
31,1.75,true,2024-02-29,2024-02-29T12:30:00.25,Ada
-4,nan,False,1970-01-01,1969-12-31 23:59:59.999999999,"two
lines"
,1e-3,,,,
"""
TYPES = {
    "age": "int16",
    "height": float,
    "member": bool,
    "day": "datetime64[D]",
    "seen": "datetime64[ns]",
}


def written(path, text: str, name: str = "people.csv") -> str:
    (path / name).write_bytes(text.encode())
    return str(path / name)


def same(one, other) -> bool:
    """Whether records are equal, with the types of their values; nan equals nan."""
    return repr(one) == repr(other)


def tables(tmp_path):
    """The sources of the same data: CSV, compressed CSV, and what pyarrow makes of the file."""
    path = written(tmp_path, TEXT)
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    kinds = {name: pyarrow.from_numpy_dtype(np.dtype(kind)) for name, kind in TYPES.items()}
    kinds["day"] = pyarrow.date32()
    how = csv.ConvertOptions(
        column_types={**kinds, "name": "string"},
        null_values=[""],
        timestamp_parsers=[csv.ISO8601],
    )
    table = csv.read_csv(path, convert_options=how, parse_options=csv.ParseOptions(newlines_in_values=True))
    parquet.write_table(table, tmp_path / "people.parquet")
    with pyarrow.ipc.new_file(tmp_path / "people.arrow", table.schema) as file:
        file.write_table(table)
    return [
        lk.formats.CsvDataSource(path, types=TYPES),
        lk.open(path + ".gz", types=TYPES),
        lk.ParquetDataSource(tmp_path / "people.parquet"),
        lk.formats.ArrowDataSource(tmp_path / "people.arrow"),
        lk.formats.TableDataSource(table),
    ]


def test_values_are_those_of_tables(tmp_path):
    """Numbers, bools, dates, texts and missing values, one by one and as a copy in a worker reads them."""
    expected = {
        "age": np.int16(-4),
        "height": np.float64("nan"),
        "member": np.bool_(False),
        "day": np.datetime64("1970-01-01"),
        "seen": np.datetime64("1969-12-31T23:59:59.999999999"),
        "name": "two\nlines",
    }
    first, *others = tables(tmp_path)
    for source in [first, *others]:
        assert same(source[1], expected)
        assert same(source.__getitems__([2, 0, 1]), first.__getitems__([2, 0, 1]))
        assert source[2] == dict.fromkeys(TYPES) | {"height": 0.001, "name": ""}


def test_columns_are_those_of_tables(tmp_path):
    """`take` gives arrays for numbers and dates, and says which record has no value."""
    rows = {"x": np.arange(300) / 7, "n": np.arange(300), "day": np.arange(300).astype("M8[D]")}
    text = "x,n,day\n" + "".join(
        f"{x!r},{n},{day}\n" for x, n, day in zip(*(v.tolist() for v in rows.values()))
    )
    source = lk.formats.CsvDataSource(written(tmp_path, text), types="infer")
    keys, others = [299, 0, 17], lk.formats.TableDataSource(pyarrow.table(rows))
    for (name, column), other in zip(source.take(keys).items(), others.take(keys).values()):
        assert column.dtype == other.dtype == rows[name].dtype
        np.testing.assert_array_equal(column, other)
        np.testing.assert_array_equal(column, rows[name][keys])
    batches = lk.load(source, batch_size=64, shuffle=True, seed=0, num_epochs=1)
    other = lk.load(others, batch_size=64, shuffle=True, seed=0, num_epochs=1)
    assert all(same(one, two) for one, two in zip(batches, other, strict=True))
    with_hole = lk.formats.CsvDataSource(written(tmp_path, "x\n1\nNA\n"), types={"x": int}, missing="NA")
    with pytest.raises(
        ValueError, match=r"people.csv\[1\]: expected a value in the column 'x', got a missing one"
    ):
        with_hole.take([0, 1])
    assert not hasattr(lk.formats.CsvDataSource(written(tmp_path, "x,y\n1,a\n"), types={"x": int}), "take")


def test_a_float32_is_the_nearest_of_its_text(tmp_path):
    """Rounded once, as tables do it: texts beside the middle of two float32s, at which their float64s lie."""
    halves = [
        (float(one) + float(np.nextafter(one, np.float32(9)))) / 2 for one in np.float32([1, -3, 1e-40])
    ]
    texts = [
        f"{sign}{Decimal(half):.200f}{end}" for half in halves for sign in ("", " ") for end in ("1", "")
    ]
    texts += [format(Decimal(half) * (1 - Decimal(10) ** -25), ".60e") for half in halves]
    expected = pyarrow.array([text.strip() for text in texts]).cast("float32")
    with lk.formats.CsvDataSource(
        written(tmp_path, "\n".join(["x", *texts, ""])), types={"x": "float32"}
    ) as source:
        assert [record["x"] for record in source] == expected.to_pylist()


def test_what_is_inferred(tmp_path):
    """The narrowest type that all of the first 1,000 rows fit; the fingerprint says what was found."""
    columns = {
        "int64": ["3", "-4", "9223372036854775807"],
        "float64": ["3", "1e5", "nan"],
        "bool": ["true", "FALSE", "True"],
        "datetime64[D]": ["2024-02-29", "1970-01-01", ""],
        "datetime64[s]": ["2024-02-29", "1970-01-01T00:00:00Z", "2024-01-01 10:00+02:00"],
        "datetime64[ns]": ["2024-02-29 00:00:00.5", "1970-01-01", ""],
        "zip": ["01234", "99999", "5"],
        "number": ["1.5", "12345678901234567890", ""],
        "mixed": ["1", "2", "x"],
        "nothing": ["", "", ""],
    }
    rows = "\n".join(",".join(row) for row in [[*columns], *zip(*columns.values())]) + "\n"
    path = written(tmp_path, rows)
    with lk.formats.CsvDataSource(path, types="infer") as source:
        found = {name: name for name in columns if name[-1] in "4l]"}
        assert source.fingerprint()["types"] == found
        with lk.formats.CsvDataSource(path, types=found) as given:
            assert given.fingerprint() == source.fingerprint()
        assert source[0]["zip"] == "01234" and source[2]["datetime64[s]"] == np.datetime64("2024-01-01T08:00")
        assert source[2]["nothing"] == "" and source[2]["datetime64[D]"] is None
    assert "types" not in lk.formats.CsvDataSource(path).fingerprint()
    late = written(tmp_path, "n\n" + "1\n" * 1000 + "1.5\n")
    with (
        lk.formats.CsvDataSource(late, types="infer") as source,
        pytest.raises(
            lk.errors.DataFormatError, match=r"in record 1000, line 1002, column 'n': expected int64"
        ),
    ):
        source[1000]
    part = lk.formats.CsvDataSource(late + "[1000:1001]", types={"n": float})
    assert part[0] == {"n": 1.5}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int8", "300"), ("uint8", "-1"), (int, "1.0"), (int, "1_000"), (int, "٣"), (int, ""), (float, "1,5"),
        ("float32", "1e39"), (float, "1e999"), (float, "x"), (bool, "yes"), ("datetime64[D]", "2023-02-29"),
        ("datetime64[D]", "2024-02-29T10:00"), ("datetime64[D]", "today"), ("datetime64[s]", "2024-02-29T10:00:00.5"),
        ("datetime64[ns]", "3000-01-01"), ("datetime64[s]", "29.2.2024"),
        ("datetime64[ns]", "2262-04-11T23:47:16-01:00"), ("datetime64[ns]", "1677-09-21T00:30:00+02:00"),
        ("datetime64[s]", "2024-02-29T10:00+24:00"), ("datetime64[s]", "2024-02-29T10:00-01:60"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit(tmp_path, kind, text):
    """Names file, line and column, and what to write; the rows around it are read."""
    good = {"f": "1.5", "b": "true", "M": "2024-02-29"}.get(np.dtype(kind).kind, "7")
    path = written(tmp_path, f'\nnote,"x"\n"two\nlines",{good}\n\n"three\n\nlines","{text}"\nlast,{good}\n')
    with lk.formats.CsvDataSource(path, types={"x": kind}, missing="NA") as source:
        assert source[0]["x"] == source[2]["x"]
        with pytest.raises(lk.errors.DataFormatError) as raised:
            source.__getitems__([2, 0, 1])
    told = f"in record 1, line 8, column 'x': expected {np.dtype(kind).name}, got {text!r}; correct it, or give types="
    assert str(raised.value).startswith(f"{path}: at byte ") and told in str(raised.value)


def test_lines_of_compressed_text_and_far_ones(tmp_path, monkeypatch):
    """Lines are those of the text; where too much would have to be read for them, byte and record are said."""
    text = "x\n" + "1\n" * 500 + "a\n" + "1\n" * 500 + "b\n"
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text.encode()))
    with lk.open(tmp_path / "x.csv.gz", types={"x": int}) as source:
        for key, line in ((1001, 1003), (500, 502), (1001, 1003)):
            with pytest.raises(lk.errors.DataFormatError, match=f"in record {key}, line {line}, column 'x'"):
                source[key]
    monkeypatch.setattr("loaderkit.formats.text.csv._COUNTED_BYTES", 1500)
    with lk.formats.CsvDataSource(written(tmp_path, text), types={"x": int}) as source:
        for key, told in (
            (1001, "1001, column"),
            (500, "500, line 502, column"),
            (1001, "1001, line 1003, column"),
        ):
            with pytest.raises(lk.errors.DataFormatError, match=f"in record {told} 'x'"):
                source[key]


def test_missing_by_column(tmp_path):
    """The empty text is missing for types; others are named for all columns with a type, or by column."""
    path = written(tmp_path, "n,name,m\n?,?,\n1,NA,2\n")
    typed = {"types": {"n": int, "m": int}}
    with lk.formats.CsvDataSource(path, **typed, missing={"n": "?", "name": ["?", "NA"]}) as source:
        assert source[0] == {"n": None, "name": None, "m": None} and source[1]["name"] is None
        assert source.fingerprint()["missing"] == {"n": ["?"], "name": ["?", "NA"], "m": [""]}
    with lk.formats.CsvDataSource(path, **typed, missing=["?", ""], columns=["name", "n"]) as source:
        assert source[0] == {"name": "?", "n": None} and source.fingerprint()["types"] == {"n": "int64"}


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"types": "float"}, TypeError, "types: expected a mapping such as .*, got 'float'"),
        ({"types": {"y": int}}, ValueError, r"types: expected columns, some of \['x'\], got \['y'\]"),
        ({"types": {"x": dict}}, ValueError, "types: expected float, int, bool, str, .* for 'x', got <class 'dict'>"),
        ({"types": {"x": None}}, ValueError, "for 'x', got None"),
        ({"types": {"x": "datetime64"}}, ValueError, "for 'x', got 'datetime64'"),
        ({"types": {"x": "datetime64[10s]"}}, ValueError, "for 'x'"),
        ({"types": {"x": complex}}, ValueError, "for 'x'"),
        ({"types": {"x": int}, "missing": -1}, TypeError, "missing: expected texts such as .*, got -1"),
        ({"types": {"x": int}, "missing": {"y": ""}}, ValueError, r"missing: expected columns, some of \['x'\]"),
        ({"missing": "NA"}, ValueError, "missing: expected types= beside it"),
        ({"dtype": float}, TypeError, 'types={column: type, ...}'),
        ({"na_values": "NA"}, TypeError, r'missing=\["", "NA"\]'),
    ],
)  # fmt: skip
def test_wrong_arguments(tmp_path, arguments, error, told):
    """Refused when the source is made; pandas' words have ours in the error."""
    with pytest.raises(error, match=told):
        lk.formats.CsvDataSource(written(tmp_path, "x\n1\n"), **arguments)


def test_one_stream(tmp_path):
    """Workers, and a run restored in the middle, give what one process does; other types are another source."""
    path = written(tmp_path, "n,x\n" + "".join(f"{n},{n / 7}\n" for n in range(60)))

    def loader(types, **options):
        return lk.load(
            lk.formats.CsvDataSource(path, types=types),
            shuffle=True,
            seed=1,
            num_epochs=1,
            batch_size=7,
            **options,
        )

    expected = [repr(batch) for batch in loader("infer")]
    with loader("infer", worker_count=2) as loaded, iter(loaded) as it:
        assert [repr(next(it)) for _ in range(3)] == expected[:3]
        state = it.get_state()
    with iter(loader({"n": int, "x": float})) as it:
        it.set_state(state)
        assert [repr(batch) for batch in it] == expected[3:]
    with (
        iter(loader({"n": float, "x": float})) as it,
        pytest.raises(lk.CheckpointMismatchError, match="types"),
    ):
        it.set_state(state)


@pytest.mark.parametrize("cached", [False, True])
def test_files_of_a_server(tmp_path, range_server, cached):
    """Types are found there, too: the records, the columns and the stream are those of local files, and so is an error.

    A file's header is read once, the first rows together, and the lines in front of a wrong value by large ranges.
    """
    served = tmp_path / "served"
    served.mkdir()
    rows = [f'{n},{n / 7},2024-01-{n % 28 + 1:02},"two\nlines"\n' for n in range(1500)]
    for name, part in (("0.csv", rows), ("1.csv", [*rows[:9], "x,1,2024-01-01,\n"])):
        written(served, "".join(["n,x,day,name\n", *part]), name)
    local = lk.formats.CsvDataSource(str(served / "*.csv"), types="infer", columns=["x", "n", "day"])
    server = range_server(served)
    cache = {"cache": lk.Cache(tmp_path / "chunks", "10MB")} if cached else {}
    names = [server.url("0.csv"), server.url("1.csv")]
    server.script("503")
    with lk.formats.CsvDataSource(names, types="infer", columns=["x", "n", "day"], **cache) as source:
        assert len(server.requests) < 20
        assert source.fingerprint() == local.fingerprint() and source.columns == local.columns
        keys = [1505, 3, 1499]
        assert same(source.__getitems__(keys), local.__getitems__(keys))
        assert same(source.take(keys), local.take(keys))
        before = len(server.requests)
        assert same(source[700], local[700]) and len(server.requests) <= before + 1
        errors = []
        for one in (source, local):
            with pytest.raises(lk.errors.DataFormatError) as raised:
                one[1509]
            errors.append(str(raised.value).partition("1.csv")[2])
        assert (
            errors[0] == errors[1]
            and "in record 9, line 20, column 'n': expected int64, got 'x'" in errors[0]
        )
        how = {"shuffle": True, "seed": 0, "num_epochs": 1, "batch_size": 100}
        with lk.load(source[:1509], worker_count=2, worker_kind="thread", **how) as far:
            assert [*map(repr, far)] == [*map(repr, lk.load(local[:1509], **how))]
