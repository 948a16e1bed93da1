"""`loaderkit inspect`."""


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
