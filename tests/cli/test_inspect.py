"""`loaderkit inspect`."""

import loaderkit as lk


def test_what_a_set_holds(loaderkit, records):
    """Shards, records, bytes, and the sizes of the records."""
    (document,) = loaderkit(
        "inspect", records / "x-0.array_record", records / "x-1.array_record", "--json"
    ).documents
    sizes = [10, 110, 210, 10, 110, 210, 310, 410]
    assert document == {
        "format": "array_record",
        "shards": 2,
        "records": 8,
        "bytes": sum(path.stat().st_size for path in records.glob("x-*")),
        "shard_records": {"min": 3, "median": 4, "mean": 4.0, "max": 5},
        "record_bytes": {"min": 10, "median": 160, "mean": sum(sizes) / 8, "max": 410, "sampled": 8},
        "sampled_records": 8,
        "fields": [
            {
                "name": "record",
                "records": 8,
                "kinds": {"text": 8},
                "bytes": {"min": 10, "median": 160, "mean": sum(sizes) / 8, "max": 410},
            }
        ],
        "chunk_records": round(2**20 / (sum(sizes) / 8)),
    }


def test_the_same_as_text(loaderkit, records):
    """Aligned columns and a histogram."""
    lines = loaderkit("inspect", records / "x-*.array_record").out.splitlines()
    assert lines[0] == f"{records}/x-0.array_record and 1 more"
    assert "  records  8; 3 to 5, median 4 in a shard" in lines
    assert "  record   min 10 B, median 160 B, mean 172 B, max 410 B" in lines
    assert any(line.split()[:6] == ["8", "B", "to", "16", "B", "2"] for line in lines)


def test_a_folder_is_the_files_in_it(loaderkit, tmp_path):
    """As lk.open takes it; a pattern is known by the names that it matches."""
    lk.write(({"n": k} for k in range(6)), tmp_path / "web", format="jsonl.zst", shards=2)
    for given in (tmp_path / "web", tmp_path / "web" / "0*.zst", tmp_path / "web" / "0*"):
        (document,) = loaderkit("inspect", given, "--json").documents
        assert (document["format"], document["shards"], document["records"]) == ("jsonl.zst", 2, 6)
    assert len(lk.open(tmp_path / "web" / "0*")) == 6
