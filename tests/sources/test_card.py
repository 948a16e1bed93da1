"""`source.card()`: what a source holds, at a glance."""

import numpy as np
import pytest

import loaderkit as lk

RECORDS = [{"x": np.zeros((k % 2 + 1, 3), np.float32), "label": k, "text": "a\nb"} for k in range(20)]


@pytest.mark.parametrize("kind", ["tar", "tfrecord", "parquet", "arrow", "jsonl", "array_record"])
def test_files(tmp_path, kind):
    """Number, shards and their bytes on disk, fields with dtypes and shapes, the first record."""
    names = lk.write(RECORDS, tmp_path / f"x-%03d.{kind}", shard_records=8)
    with lk.open(names) as source:
        card = source.card()
        assert "\n" not in repr(source) and card.source == repr(source)
    assert card.records == 20
    assert card.files == {str(name): (tmp_path / name).stat().st_size for name in names}
    assert card.fields == {"x": "float32(?, 3)", "label": "int64()", "text": "str"}
    assert card.sample["text"] == "a\nb"
    assert str(card).splitlines()[1:3] == ["  records  20", f"  shards   3: {names[0]} to {names[-1]}"]
    assert r"           text   str            'a\nb'" in str(card).splitlines()


def test_sources_of_sources(tmp_path):
    """Shards are those below; of a mixture each source has its number, and its fields where they differ."""
    names = lk.write(RECORDS, tmp_path / "x.tar")
    with lk.open(names) as source:
        size = source.card().files
        for made in (
            source[[7, 3]],
            lk.MapDataSource(source, dict),
            lk.ZipDataSource([source, range(20)]),
            lk.ConcatDataSource([source, source]),
            lk.random_split(source, [0.5, 0.5], seed=0)[0],
        ):
            assert made.card().files == size and made.card().records == len(made)
        other, _ = lk.mix({"web": source, "none": [{"a": b"1"}] * 3})
        card = other.card()
        assert card.sources == {"web": 20, "none": 3} and card.files == size
        assert card.fields["none"] == {"a": "bytes"} and card.fields["web"]["label"] == "int64()"
        assert "  sources  web 20, none 3" in str(card) and "none.a" in str(card)
        alike, _ = lk.mix({"one": source, "two": source})
        assert alike.card().fields == {"x": "float32(1, 3)", "label": "int64()", "text": "str"}


def test_arrays_tuples_and_tokens(tmp_path):
    """Any tree has its places; a source in memory has no shards, one without records no fields."""
    card = lk.ArrayDataSource({"x": np.zeros((5, 3), np.uint8), "y": {"z": np.arange(5)}}).card()
    assert str(card).splitlines()[2:] == [
        "  fields   x    uint8(3)  [0 0 0]",
        "           y.z  int64()   0",
    ]
    assert "[1]  bytes" in str(lk.InMemoryDataSource([(1.5, b"x")]).card())
    (name,) = lk.write([{"tokens": np.arange(k, dtype=np.uint16)} for k in range(9)], tmp_path / "a.tokens")
    card = lk.open(name).card()
    assert card.fields == {"tokens": "uint16(?)"} and list(card.files) == [name]
    (tmp_path / "x.csv").write_text("a,b\n")
    with lk.formats.CsvDataSource(tmp_path / "x.csv") as source:
        assert str(source.card()).endswith("  on disk  4 B")
    packed = lk.PackedDataSource(lk.open(name), lk.plan_packing([*range(9)], 12))
    assert packed.card().fields["tokens"] == "uint16(12)" and list(packed.card().files) == [name]


def test_splits(tmp_path):
    """Those of the data set that the records are of, also through a subset and several splits."""
    lk.write_dataset({"train": RECORDS, "test": RECORDS[:7]}, "digits:1.0.0", data_dir=tmp_path, format="tar")
    for split in ("train", "train[:5]+test"):
        card = lk.SubsetDataSource(lk.open("digits", split, data_dir=tmp_path), [1]).card()
        assert card.splits == {"train": 20, "test": 7} and "  splits   train 20, test 7" in str(card)
