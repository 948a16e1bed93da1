"""Tar archives that are written: the same records from lk.TarDataSource, and bytes that webdataset decodes."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from round_trip import MIXED, RECORDS, same

import loaderkit as lk
from loaderkit.formats.tar.writer import TarWriting


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory, monkeypatch):
    """Indexes lie in a folder of the tests, where they don't lie beside the data."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def written(path: Path, records: list) -> str:
    writing = TarWriting()
    encoder = writing.encoder(records[0])
    writer = writing.open(str(path), encoder)
    for number, record in enumerate(records):
        writer.add(encoder.encode(record, number))
    writer.close()
    assert writer.nbytes == path.stat().st_size
    return str(path)


def read(path: str, **options) -> list:
    with lk.TarDataSource(path, **options) as source:
        return source.__getitems__(range(len(source)))


def samples_of(path: str) -> list[dict]:
    from webdataset import autodecode, tariterators  # not above: it imports torch

    opened = [{"url": "", "stream": io.BytesIO(Path(path).read_bytes())}]
    samples = tariterators.group_by_keys(tariterators.tar_file_expander(opened))
    decoder = autodecode.Decoder([])
    return [{name: each for name, each in decoder(sample).items() if name != "__url__"} for sample in samples]


@pytest.mark.parametrize("records", [RECORDS, MIXED], ids=["leaves", "mixed"])
def test_what_other_formats_bring_back(tmp_path, records):
    """Comes back from archives, too, also by lk.write."""
    assert same(read(written(tmp_path / "x.tar", records)), records)
    lk.write(records, tmp_path / "y.tar", worker_count=0)
    assert (tmp_path / "x.tar").read_bytes() == (tmp_path / "y.tar").read_bytes()


def test_bytes_are_plain_members(tmp_path):
    """What webdataset writes itself: KEY.FIELD by name, no description."""
    records = [{"__key__": f"a/{k}", "jpg": b"%d" % k * 600, "cls": b"%d" % k} for k in range(3)]
    path = written(tmp_path / "x.tar", records)
    with tarfile.open(path) as archive:
        assert archive.getnames()[:3] == ["a/0.cls", "a/0.jpg", "a/1.cls"]
    assert read(path) == records
    assert [{**sample, "cls": b"%d" % sample["cls"]} for sample in samples_of(path)] == records


def test_typed_values_as_webdataset_decodes_them(tmp_path):
    """An int in cls, text in txt, an array in npy, JSON in json; other fields by a further extension."""
    record = {
        "__key__": "000",
        "cls": 7,
        "txt": "é",
        "json": {"x": [1, None]},
        "npy": np.arange(3),
        "depth": np.eye(2, dtype="f4"),
        "caption": "two words",
        "score": 0.5,
        "jpg": b"...",
    }
    path = written(tmp_path / "x.tar", [record])
    (sample,) = samples_of(path)
    assert same(sample.pop("npy"), record["npy"]) and same(sample.pop("depth.npy"), record["depth"])
    assert sample == {
        "__key__": "000",
        "cls": 7,
        "txt": "é",
        "json": {"x": [1, None]},
        "caption.txt": "two words",
        "score.json": 0.5,
        "jpg": b"...",
    }
    assert same(read(path), [record])
    assert read(path, decode=False)[0]["score.json"] == b"0.5"


NAMES = st.sampled_from(
    ["cls", "txt", "json", "npy", "jpg", "x", "Label", "image/class", "a b", "é", "seg.png"]
)
NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none())
TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=5)
ARRAYS = st.sampled_from(
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.eye(3)),
        np.array(1.5),
        np.zeros((0, 2), "u1"),
        np.array(["a", "bc"]),
        np.array([b"x"]),
        np.array(["2020-01-01"], "M8[D]"),
        np.zeros(2, [("a", "i4"), ("b", "f4", 2)]),
        np.float32(2.5),
        np.int64(-1),
        np.bool_(True),
        np.datetime64("2020-01-01"),
    ]
)
LEAVES = st.one_of(NUMBERS, TEXTS, st.binary(max_size=5), ARRAYS)
KEYS = st.one_of(TEXTS, st.integers(), st.just("__loaderkit__"), st.tuples(st.integers()))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=6,
)


@given(record=st.one_of(st.dictionaries(NAMES, VALUES, max_size=5), VALUES))
def test_any_record_comes_back(tmp_path_factory, record):
    """With the types, dtypes and shapes of its leaves and the order of its names; webdataset reads each member."""
    path = written(tmp_path_factory.mktemp("any") / "x.tar", [record])
    (found,) = read(path)
    plain = type(record) is dict and record and all(type(each) is bytes for each in record.values())
    if plain and all(name == name.lower() and "/" not in name for name in record):
        assert found == {"__key__": "000000000", **record}
    else:
        assert same(found, record)
    with tarfile.open(path, errors="surrogateescape") as archive:
        names = [name for name in archive.getnames() if name != "__loaderkit__"]
        assert names == sorted(names) and all(name.startswith("000000000.") for name in names)


def test_the_same_records_are_the_same_bytes(tmp_path):
    """Whatever the order of the names and the layout in memory."""
    one = {"b": b"1", "a": b"2"}
    first = written(tmp_path / "1.tar", [one])
    second = written(tmp_path / "2.tar", [dict(reversed(one.items()))])
    assert Path(first).read_bytes() == Path(second).read_bytes()
    array = np.arange(6).reshape(2, 3)
    first = written(tmp_path / "3.tar", [{"x": array}])
    second = written(tmp_path / "4.tar", [{"x": np.asfortranarray(array)}])
    assert Path(first).read_bytes() == Path(second).read_bytes()


def test_fields_by_their_own_names(tmp_path):
    """Of archives with a description, next to those without."""
    typed = written(tmp_path / "1.tar", [{"__key__": "0", "x": 1.5, "y": np.arange(2)}])
    plain = written(tmp_path / "2.tar", [{"__key__": "1", "x": b"1", "y": b"2"}])
    assert read(typed, fields="x") == [{"__key__": "0", "x": 1.5}]
    assert read(typed, fields=["y"], decode=True)[0]["y"].tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"that the archives have \('x', 'y'\), got 'z'"):
        read(typed, fields="z")
    with lk.TarDataSource([typed, plain]) as source:
        assert source[1] == {"__key__": "1", "x": b"1", "y": b"2"}
        assert source[0]["x"] == 1.5
        fingerprint = source.fingerprint()
    with lk.TarDataSource([typed, plain], decode=False) as source:
        assert source.fingerprint() != fingerprint


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("a/../b", "within the folder"),
        ("/a", "within the folder"),
        ("..", "within the folder"),
        ("a.b", "no dot"),
        ("a/", "expected a name"),
        ("", "expected a name"),
        ("__a__/b", "expected a name"),
        ("a\0", "expected a name"),
        (17, "expected a str, got int"),
    ],
)
def test_keys_that_readers_would_lose(key, said):
    """Refused where the record is encoded."""
    encoder = TarWriting().encoder({"__key__": "a", "x": b""})
    with pytest.raises(ValueError, match=f"^__key__: expected .*{said.removeprefix('expected ')}"):
        encoder.encode({"__key__": key, "x": b""}, 0)


def test_a_key_twice_in_one_archive(tmp_path):
    """Readers would make one record of both; in another archive it is another record."""
    writing = TarWriting()
    encoder = writing.encoder({"__key__": "a", "x": b""})
    encoded = encoder.encode({"__key__": "a", "x": b""}, 0)
    writer = writing.open(str(tmp_path / "x.tar"), encoder)
    writer.add(encoded)
    with pytest.raises(ValueError, match="expected each key once in an archive, got 'a' again"):
        writer.add(encoded)
    writer.abandon()


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        ({"x": "a"}, {"x": 1}, "field 'x': expected str, as in the first record, got int"),
        ({"x": b"a"}, {"x": None}, "field 'x': expected bytes, as in the first record, got NoneType"),
        ({"x": 1}, {"x": 1, "y": 2}, r"the fields of the first record \('x'\), got 'y' too"),
        ({"x": 1}, {"__key__": "a", "x": 1}, "expected no '__key__'"),
        ({"x": 1}, b"x", "expected a dict of fields, as the first record is, got bytes"),
        ({"x": 1}, {}, "expected a dict of fields"),
        (b"x", {"x": 1}, "expected bytes, as in the first record, got dict"),
    ],
)
def test_records_unlike_the_first(first, later, said):
    """What differs is said."""
    with pytest.raises(ValueError, match=said):
        TarWriting().encoder(first).encode(later, 1)


def test_records_with_some_of_the_fields(tmp_path):
    """As webdataset allows them; of bytes also other fields."""
    typed = [{"x": 1, "y": "a"}, {"y": "b"}, {"x": None, "z": b"more"}]
    assert read(written(tmp_path / "1.tar", typed)) == typed
    plain = [{"__key__": "0", "jpg": b"1"}, {"__key__": "1", "png": b"2"}]
    assert read(written(tmp_path / "2.tar", plain)) == plain


@pytest.mark.parametrize("value", [object(), np.array([None]), {"x": {1, 2}}, 1j])
def test_values_that_no_archive_holds(value):
    """TypeError with the field's name."""
    with pytest.raises(TypeError, match=r"^field 'x': expected "):
        TarWriting().encoder({"x": value})


@pytest.mark.parametrize("names", [["A", "a"], ["__bad__"], ["__KEY__"], [""], ["a\0"]])
def test_names_that_readers_would_lose(names):
    """Fields in lower case are one; a record with `__bad__` is dropped."""
    with pytest.raises(ValueError, match=r"^fields: expected names"):
        TarWriting().encoder(dict.fromkeys(names, b"x"))


def test_a_description_of_a_later_version(tmp_path):
    """It is an error, not bytes in place of values."""
    path = Path(written(tmp_path / "x.tar", [{"x": 1.5}]))
    path.write_bytes(path.read_bytes().replace(b'{"version":1', b'{"version":2'))
    with pytest.raises(
        lk.errors.DataFormatError, match=r"x.tar, member '__loaderkit__': .*newer loaderkit; decode=False"
    ):
        read(str(path))
    assert read(str(path), decode=False) == [{"__key__": "000000000", "x.json": b"1.5"}]


def test_a_value_that_was_damaged(tmp_path):
    """The error names the file, the record and the field."""
    path = Path(written(tmp_path / "x.tar", [{"x": [1.5]}]))
    path.write_bytes(path.read_bytes().replace(b"[1.5]", b"[1.5}"))
    with pytest.raises(ValueError, match=r"x.tar\[0\]: record '000000000', field 'x': .*decode=False"):
        read(str(path))


def test_in_workers_and_by_an_index_without_members(tmp_path):
    """The descriptions are read where the records are."""
    from loaderkit.formats._index.build import build_index
    from loaderkit.formats._index.part_file import ScanOptions
    from loaderkit.formats._index.shard_set import ShardSet
    from loaderkit.formats.tar.scanner import TarFormat

    records = [{"x": k, "y": np.full(2, k)} for k in range(8)]
    path = written(tmp_path / "x.tar", records)
    with lk.TarDataSource(path) as source:
        loader = lk.DataLoader(
            data_source=source,
            sampler=lk.IndexSampler(8, num_epochs=1),
            operations=[lk.Batch(4)],
            worker_count=1,
        )
        with iter(loader) as batches:
            assert [batch["y"][:, 1].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    index = str(tmp_path / "spans.lkx")
    build_index(ShardSet([path]), TarFormat(), index, options=ScanOptions(members=False), worker_count=0)
    assert same(read(path, index=index), records)
    assert read(path, index=index, fields="x") == [{"x": k} for k in range(8)]
