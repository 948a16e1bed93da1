"""Parquet and Arrow files that are written: the same records come back, and pyarrow reads them."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import loaderkit as lk
from tests.formats.round_trip import MIXED, RECORDS, same

SOURCES = {"parquet": lk.ParquetDataSource, "arrow": lk.formats.ArrowDataSource}
BOTH = pytest.mark.parametrize("kind", [*SOURCES])


@BOTH
@pytest.mark.parametrize("records", [RECORDS, MIXED, [b"a", b"", b"\0\xff"]], ids=["dicts", "mixed", "bytes"])
def test_records_come_back(tmp_path, kind, records):
    """Types, dtypes, shapes, the order of names; one by one and many at once."""
    path = str(tmp_path / f"a.{kind}")
    lk.write(records, path)
    source = SOURCES[kind](path)
    assert all(same(a, b) for a, b in zip(source.__getitems__(range(len(records))), records, strict=True))
    assert same(source[1], records[1])


@BOTH
def test_values_that_differ_between_records(tmp_path, kind):
    """Shapes and lengths may; what was None or empty in the first record may be anything; None fits everywhere."""
    records = [
        {
            "image": np.zeros((2, 3), np.uint8),
            "boxes": [{"x": 1, "y": [0.5]}],
            "late": None,
            "some": [],
            "day": "a",
        },
        {"image": np.ones((0, 3), np.uint8), "boxes": [], "late": {"a": 1}, "some": ["b", 2], "day": None},
        {
            "image": np.full((1, 1, 1), 7, np.uint8),
            "boxes": [{"x": None, "y": []}],
            "late": 1,
            "some": (),
            "day": "",
        },
    ]
    path = str(tmp_path / f"a.{kind}")
    lk.write(records, path)
    assert all(same(a, b) for a, b in zip(SOURCES[kind](path).__getitems__([0, 1, 2]), records, strict=True))


@BOTH
def test_other_libraries_read_the_columns(tmp_path, kind):
    """Numbers, texts and lists of numbers are those of Arrow."""
    records = [
        {
            "text": str(row),
            "label": row,
            "ids": np.arange(row, dtype=np.int32),
            "pcm": np.arange(2, dtype=np.int16),
        }
        for row in range(300)
    ]
    path = str(tmp_path / f"a.{kind}")
    lk.write(records, path)
    table = pq.read_table(path) if kind == "parquet" else pa.ipc.open_file(path).read_all()
    assert table.schema.field("ids").type == pa.list_(pa.int32())
    assert table.schema.field("pcm").type == pa.list_(pa.int16())
    assert table.to_pylist() == [
        {**record, "ids": record["ids"].tolist(), "pcm": record["pcm"].tolist()} for record in records
    ]


@BOTH
def test_the_same_bytes_for_any_workers(tmp_path, kind):
    """And a second time."""
    source = lk.InMemoryDataSource(
        [{"x": np.full(20_000, row, np.float32), "t": "a" * row} for row in range(200)]
    )
    digests = set()
    for name, workers in (("a", 0), ("b", 2), ("c", 0)):
        files = map(Path, lk.write(source, str(tmp_path / name), format=kind, shards=2, worker_count=workers))
        digests.add(tuple(hashlib.sha256(file.read_bytes()).hexdigest() for file in files))
    assert len(digests) == 1 and len(next(iter(digests))) == 2
    back = SOURCES[kind](f"{tmp_path}/a/*")
    assert len(back) == 200 and back[150]["x"][0] == 150


def test_row_groups_of_about_a_mebibyte(tmp_path):
    """A random read decodes one; a row of a large picture has its own."""
    lk.write(({"data": bytes(1 << 14) * 2} for _ in range(320)), str(tmp_path / "a.parquet"))
    assert 20 <= lk.ParquetDataSource(tmp_path / "a.parquet").chunk_records <= 64
    lk.write(({"image": np.zeros((1 << 20, 3), np.uint8)} for _ in range(3)), str(tmp_path / "b.parquet"))
    assert lk.ParquetDataSource(tmp_path / "b.parquet").chunk_records == 1


@BOTH
@pytest.mark.parametrize(
    ("second", "text"),
    [
        ({"x": "a", "y": np.zeros(2)}, r"record\['x'\]: expected int, as the first record has, got str"),
        ({"x": 1 << 70, "y": np.zeros(2)}, r"record\['x'\]: expected int"),
        (
            {"x": 1, "y": np.zeros(2, np.float32)},
            r"record\['y'\]: expected vector <f8.*got ndarray of float32",
        ),
        ({"y": np.zeros(2), "x": 1}, r"record: expected a dict of \['x', 'y'\].*got a dict of \['y', 'x'\]"),
        ({"x": 1}, r"record: expected a dict of \['x', 'y'\]"),
    ],
)
def test_a_record_that_does_not_fit(tmp_path, kind, second, text):
    """The leaf is named, and no file is left under the name."""
    with pytest.raises(ValueError, match=text):
        lk.write([{"x": 1, "y": np.zeros(2)}, second], str(tmp_path / f"a.{kind}"))
    assert not (tmp_path / f"a.{kind}").exists()


@BOTH
def test_what_no_table_holds(tmp_path, kind):
    """Neither bytes nor a dict, or a leaf of another type."""
    with pytest.raises(TypeError, match="expected bytes or a dict, got int"):
        lk.write([1, 2], str(tmp_path / f"a.{kind}"))
    with pytest.raises(TypeError):
        lk.write([{"x": object()}], str(tmp_path / f"a.{kind}"))


def test_pages_have_checksums(tmp_path):
    """A flipped bit of a page is an error that names the file."""
    rng = np.random.default_rng(0)
    rows = [{"x": k, "data": rng.bytes(100)} for k in range(200)]
    (name,) = lk.write(rows, tmp_path / "a.parquet")
    path = Path(name)
    data = bytearray(path.read_bytes())
    data[data.index(rows[77]["data"][:9])] ^= 1
    path.write_bytes(data)
    with pytest.raises(lk.errors.DataFormatError, match=r"a\.parquet: expected row group 0 .*(crc|CRC)"):
        lk.ParquetDataSource(path)[77]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_lone_surrogate_is_named(tmp_path, kind):
    """With its field; it is a bad record, which may be dropped."""
    records = [{"a": {"txt": text}} for text in ("good", "b\ud800d", "\N{SNOWMAN}")]
    with pytest.raises(
        ValueError, match=r"record\['a'\]\['txt'\]: expected text of whole characters.* surrogate at 1"
    ):
        lk.write(records, tmp_path / f"x.{kind}")
    files = lk.write(records, tmp_path / f"x.{kind}", on_record_error="drop")
    assert [record["a"]["txt"] for record in SOURCES[kind](files)] == ["good", "\N{SNOWMAN}"]
