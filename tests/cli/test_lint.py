"""`loaderkit check --only training`, on sources in memory and on files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_archives import tar_of

from loaderkit.cli import open_source
from loaderkit.cli.lint_records import label_runs


class Shards:
    """A source of shards in memory."""

    def __init__(self, shards):
        self.records = [record for shard in shards for record in shard]
        self.names = [f"s{n}[{k}]" for n, shard in enumerate(shards) for k in range(len(shard))]

    def __len__(self):
        return len(self.records)

    def __getitems__(self, keys):
        for key in keys:
            if isinstance(self.records[key], Exception):
                raise self.records[key]
        return [self.records[key] for key in keys]

    def close(self):
        pass

    def name(self, key):
        return self.names[key]


@pytest.fixture
def lint(loaderkit, monkeypatch):
    """The findings of --json about shards of records in memory."""
    monkeypatch.setattr(open_source.OpenedSource, "sizes", lambda self: None)

    def run(*shards, more=()):
        opened = open_source.OpenedSource("jsonl", Shards(shards))
        monkeypatch.setattr(open_source, "_opened", lambda data, index, verify: opened)
        ran = loaderkit("check", "--only", "training", "x.txt", "--json", *more)
        (document,) = ran.documents
        assert ran.status == bool(document["findings"])
        return document["findings"]

    return run


def record(label, **more):
    return {"cls": str(label).encode(), "json": b"{}", **more}


def test_nothing_to_find(lint):
    """Shuffled labels, the same fields, even shards."""
    labels = np.random.default_rng(0).integers(0, 10, 400)
    assert lint([record(each) for each in labels[:200]], [record(each) for each in labels[200:]]) == []


def test_labels_in_order(lint):
    """The finding says how pure the neighbours are, and what to do."""
    (found,) = lint([record(each) for each in np.repeat(np.arange(40), 50)])
    assert (found["rule"], found["severity"], found["location"]) == (
        "unshuffled-labels",
        "warning",
        "field cls",
    )
    assert found["problem"].startswith("98% of neighbouring records have the same label, ")
    assert "shuffle=True" in found["remedy"] and "convert --shuffle" in found["remedy"]


def test_a_label_of_another_name(lint):
    """--label says which."""
    records = [record(k % 7, side=str(k // 100).encode()) for k in range(400)]
    assert lint(records) == []
    (found,) = lint(records, more=["--label", "side"])
    assert found["location"] == "field side"


@given(st.integers(0, 2**32), st.integers(1, 50), st.floats(0.01, 1))
def test_shuffled_labels_are_never_reported(seed, classes, skew):
    """Whatever the classes' sizes."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, classes + 1) ** -skew
    labels = rng.choice(classes, 1024, p=shares / shares.sum())
    assert not label_runs(labels, np.arange(1024)).unshuffled


def test_fields_that_differ(lint):
    """The first record of each kind, with what it lacks and has."""
    records = [record(k % 7) for k in range(100)]
    del records[17]["json"]
    records[40]["png"] = records[41]["png"] = b""
    found = [each for each in lint(records) if each["rule"] == "fields-differ"]
    assert [(each["location"], each["problem"]) for each in found] == [
        ("s0[17]", "1 record lacks json"),
        ("s0[40]", "2 records, this one first, has also png"),
    ]


def test_what_cant_be_decoded(lint):
    """By the name of the field, and images by their first bytes."""
    records = [record(k % 7) for k in range(100)]
    records[3]["json"] = b"{"
    records[5]["cls"] = b"cat"
    records[7]["jpg"] = records[8]["other"] = b"\xff\xd8\xff broken"
    found = [each for each in lint(records) if each["rule"] == "undecodable"]
    assert [each["location"] for each in found] == [f"s0[{k}]" for k in (3, 5, 7, 8)]
    assert found[0]["problem"].startswith("field json: expected JSON, got 1 bytes")


def test_records_that_cant_be_read(lint):
    """Each is named; the others are looked at."""
    records = [record(k % 7) for k in range(100)]
    records[11], records[70] = ValueError("the checksum is wrong"), OSError("torn")
    found = lint(records)
    assert [(each["rule"], each["location"]) for each in found] == [
        ("unreadable", "s0[11]"),
        ("unreadable", "s0[70]"),
    ]
    assert found[0]["problem"] == "the checksum is wrong"


def test_keys_that_come_twice(lint):
    """In one finding, as sets that number each shard from 0 on have many."""
    shards = [[record(k % 7, __key__=f"{k:06d}") for k in range(50)] for _ in range(2)]
    (found,) = lint(*shards)
    assert (found["rule"], found["location"]) == ("duplicate-key", "s1[0]")
    assert found["problem"] == "its key is that of s0[0]; so is that of 49 more records that were read"


def test_uneven_shards(lint):
    """A shard with much more or fewer records than most; the last one may be short."""
    shards = [[record(k % 7) for k in range(count)] for count in (100, 300, 100, 100, 20, 100, 10)]
    found = lint(*shards)
    assert [(each["rule"], each["location"]) for each in found] == [
        ("uneven-shards", "s1"),
        ("uneven-shards", "s4"),
    ]


def test_small_shards(loaderkit, records):
    """Of local files the sizes are known."""
    names = [records / "x-0.array_record"] * 4
    for place, name in enumerate(names):
        (records / f"y-{place}.array_record").write_bytes(name.read_bytes())
    ran = loaderkit("check", "--only", "training", records / "y-*.array_record")
    assert ran.status == 1
    assert "warning small-shards" in ran.out
    assert ran.out.endswith("0 errors, 1 warning\n")


def test_a_set_of_one_file(loaderkit, records):
    """Nothing to say."""
    ran = loaderkit("check", "--only", "training", records / "x-1.array_record")
    assert (ran.status, ran.out) == (0, "nothing found in 5 records, of which 5 were read\n")


def test_compressed_files(loaderkit, tmp_path):
    """The program that unpacks them is named; they aren't opened."""
    ran = loaderkit("check", "--only", "training", tmp_path / "a.tgz", tmp_path / "b.parquet.zst", "--json")
    found = json.loads(ran.out)["findings"]
    assert ran.status == 1
    assert [each["rule"] for each in found] == ["compressed", "compressed"]
    assert found[1]["remedy"] == f"unpack it once: `unzstd {tmp_path}/b.parquet.zst`"


def test_many_findings_are_cut(lint, loaderkit):
    """As text the first ten of a rule; with --json all."""
    assert len(lint([record(k % 7, json=b"{") for k in range(30)])) == 30
    assert "  and 20 more; --json has all\n" in loaderkit("check", "--only", "training", "x.txt").out


def test_the_advice_for_a_key_that_comes_back_mends_it(loaderkit, tmp_path, monkeypatch):
    """`loaderkit convert --by __key__` makes an archive in which nothing is found."""
    monkeypatch.chdir(tmp_path)
    tar_of("x.tar", [("000", {"txt": b"a"}), ("001", {"txt": b"b", "cls": b"1"}), ("000", {"cls": b"0"})])
    (found,) = loaderkit("check", "--only", "training", "x.tar", "--json").documents[0]["findings"]
    assert (found["rule"], found["location"]) == ("malformed", "x.tar")
    assert "loaderkit convert --by __key__" in found["remedy"]
    assert loaderkit("convert", "x.tar", "sorted.tar", "--by", "__key__").status == 0
    assert loaderkit("check", "--only", "training", "sorted.tar").status == 0
    (first, second) = loaderkit("show", "sorted.tar", "--json").documents
    assert first["fields"] == {"__key__": "000", "cls": "0", "txt": "a"}
    assert second["fields"] == {"__key__": "001", "cls": "1", "txt": "b"}
