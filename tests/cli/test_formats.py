"""Each format by each command: records by key, fields, formats told by names and by bytes."""

import io
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_archives import tar_of, tfrecord_of

import loaderkit as lk

# tf.train.Example with image = JPEG's first bytes, label = [7, 10], by its wire format
EXAMPLE = bytes.fromhex("0a250a120a05696d61676512090a070a05ffd8ff41420a0f0a056c6162656c12061a040a02070a")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A file of each format with 5 records, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": k, "label": "cat" if k % 2 else "dog", "text": f"a\nb {k}"} for k in range(5)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "x.txt").write_text("".join(f"line {k}\n" for k in range(5)))
    (tmp_path / "x.csv").write_text("id,text\n" + "".join(f'{k},"a\nb"\n' for k in range(5)))
    (tmp_path / "x.tsv").write_text("id\ttext\n" + "".join(f"{k}\ta\n" for k in range(5)))
    tfrecord_of(tmp_path / "x.tfrecord-00000-of-00001", [b"record %d" % k for k in range(5)])
    tar_of("x.tar", [(f"{k:03d}", {"cls": b"%d" % k}) for k in range(5)])
    return tmp_path


EACH = [
    ("jsonl", "x.jsonl"),
    ("lines", "x.txt"),
    ("csv", "x.csv"),
    ("tsv", "x.tsv"),
    ("tfrecord", "x.tfrecord-?????-of-00001"),
    ("tar", "x.tar"),
]
FIRST = {
    "jsonl": {"id": 0, "label": "dog", "text": "a\nb 0"},
    "lines": {"record": "line 0"},
    "csv": {"id": "0", "text": "a\nb"},
    "tsv": {"id": "0", "text": "a"},
    "tfrecord": {"record": "record 0"},
    "tar": {"__key__": "000", "cls": "0"},
}


@pytest.mark.parametrize(("kind", "name"), EACH)
def test_each_command_reads_each_format(loaderkit, data, kind, name):
    """By its name."""
    (summary,) = loaderkit("inspect", name, "--json").documents
    assert (summary["format"], summary["shards"], summary["records"]) == (kind, 1, 5)
    assert [field["name"] for field in summary["fields"]] == list(FIRST[kind])
    shown = loaderkit("show", name, "--json").documents
    assert len(shown) == 5
    assert shown[0]["fields"] == FIRST[kind]
    assert shown[3]["location"].startswith("x.") and shown[3]["location"].endswith("[3]")
    assert loaderkit("check", "--only", "training", name).status == 0
    assert loaderkit("index", name).status == 0
    assert loaderkit("check", "--only", "index", name, "--full").status == 0
    assert loaderkit("show", name, "-o", "x.html").status == 0


@pytest.mark.parametrize(("kind", "name"), EACH)
def test_records_from_stdin(loaderkit, data, kind, name, monkeypatch):
    """By their bytes, or as --format says."""
    (path,) = data.glob(name)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    more = ["--format", kind] if kind in ("csv", "tsv") else []
    (shown,) = loaderkit("show", "-", "--key", "0", "--json", *more).documents
    assert (shown["location"], shown["fields"]) == ("stdin[0]", FIRST[kind])


def test_parts_and_several_files(loaderkit, data):
    """A part of a file, and a file twice: locations are those in the files."""
    shown = loaderkit("show", "x.txt[1:3]", "x.txt", "--json", "-n", "9").documents
    assert [each["fields"]["record"] for each in shown] == [f"line {k}" for k in (1, 2, 0, 1, 2, 3, 4)]
    (summary,) = loaderkit("inspect", "x.txt[1:3]", "--json").documents
    assert summary["records"] == 2


def test_an_example_is_shown_by_its_features(loaderkit, data):
    """And by its bytes with --raw."""
    tfrecord_of(data / "e.tfrecord", [EXAMPLE] * 3)
    (shown,) = loaderkit("show", "e.tfrecord", "--key", "1", "--json").documents
    assert shown["fields"] == {"image": {"bytes": 5, "image": "JPEG"}, "label": [7, 10]}
    assert loaderkit("show", "e.tfrecord", "--raw", "-n", "2").raw == EXAMPLE * 2
    assert loaderkit("show", "e.tfrecord", "--key", "1", "--raw", "-f", "image").raw == b"\xff\xd8\xffAB"


def test_raw_lines_are_lines(loaderkit, data):
    """As they were, and JSON as JSON."""
    assert loaderkit("show", "x.txt", "--raw", "-n", "2").out == "line 0\nline 1\n"
    (row,) = loaderkit("show", "x.jsonl", "--raw", "--key", "0").documents
    assert row == FIRST["jsonl"]


def test_the_raw_bytes_of_a_tar_are_those_of_its_only_field(loaderkit, data):
    """The key is no field; where a record has several, --field has to say which."""
    assert loaderkit("show", "x.tar", "--raw", "-n", "2").raw == b"01"
    tar_of("two.tar", [("000", {"cls": b"7", "txt": b"seven"})])
    refused = loaderkit("show", "two.tar", "--raw")
    assert refused.status == 2 and "--raw: expected --field with one of the fields" in refused.err
    assert loaderkit("show", "two.tar", "--raw", "--field", "txt").raw == b"seven"


def test_checksums_of_tfrecord(loaderkit, data):
    """--full checks those of the data, and names the record."""
    (path,) = data.glob("x.tfrecord*")
    loaderkit("index", path.name)
    content = bytearray(path.read_bytes())
    content[3 * 24 + 14] ^= 1
    path.write_bytes(content)
    ran = loaderkit("check", "--only", "index", path.name, "--full", "--json")
    (document,) = ran.documents
    assert ran.status == 1
    assert [each["rule"] for each in document["findings"]] == ["other-content"]


def test_lines_that_arent_json(loaderkit, data):
    """Each is named, with its place; the others are read."""
    (data / "bad.jsonl").write_text('{"a": 1}\n{"a":\n{"a": 2}\nnothing\n')
    (document,) = loaderkit("check", "--only", "training", "bad.jsonl", "--json").documents
    assert [(each["rule"], each["location"]) for each in document["findings"]] == [
        ("unreadable", "bad.jsonl[1]"),
        ("unreadable", "bad.jsonl[3]"),
    ]
    shown = loaderkit("show", "bad.jsonl")
    assert shown.status == 3
    assert "bad.jsonl" in shown.err


def test_a_full_verify_reads_each_record_and_no_other_does(loaderkit, data):
    (data / "bad.jsonl").write_text('{"a": 1}\n{"a":\n{"a": 2}\n')
    loaderkit("index", "bad.jsonl")
    assert loaderkit("check", "--only", "index", "bad.jsonl").status == 0
    (document,) = loaderkit("check", "--only", "index", "bad.jsonl", "--full", "--json").documents
    assert [(each["rule"], each["location"]) for each in document["findings"]] == [
        ("unreadable", "bad.jsonl[1]")
    ]


def test_records_of_tars_by_name_and_field(loaderkit, tars):
    """--find needs keys in the index, and says so."""
    refused = loaderkit("show", tars, "--find", "000041")
    assert refused.status == 2
    assert "--keys" in refused.err
    loaderkit("index", tars, "--keys")
    (shown,) = loaderkit("show", tars, "--find", "000041", "--json").documents
    assert (shown["key"], shown["location"]) == (41, "x-002.tar[1]")
    assert loaderkit("show", tars, "--find", "nothing").status == 2
    assert loaderkit("show", tars, "--key", "2", "-f", "txt", "--raw").out == "ttt"


def test_fields_of_all_records_of_tars(loaderkit, data):
    """The index says them without a read."""
    records = [(f"{k:06d}", {"cls": b"%d" % (k % 3), "txt": b"t"}) for k in range(3000)]
    del records[2500][1]["txt"]
    records[77][1]["txt"] = records[78][1]["txt"] = b""
    tar_of("t.tar", records)
    (document,) = loaderkit("check", "--only", "training", "t.tar", "--json").documents
    assert [(each["rule"], each["location"]) for each in document["findings"]] == [
        ("fields-differ", "t.tar[2500]"),
        ("empty-value", "t.tar[77]"),
        ("empty-value", "t.tar[78]"),
    ]
    assert document["records_read"] == 1024


@settings(max_examples=15)
@given(
    st.sampled_from(["tar", "tfrecord", "jsonl", "csv", "txt", "array_record", ""]),
    st.binary(max_size=1200),
    st.integers(0, 10**4),
)
def test_damaged_files_end_with_a_status(loaderkit, data, kind, junk, at):
    """Whatever a file holds: no traceback."""
    base = next(data.glob(f"x.{kind}*"), None) if kind else None
    content = base.read_bytes() if base else b""
    at = min(at, len(content))
    path = data / f"damaged.{kind}".rstrip(".")
    path.write_bytes(content[:at] + junk + content[at + len(junk) :])
    for command in ("inspect", "check"):
        assert loaderkit(command, path.name).status in (0, 1, 2, 3)


def test_tokens_are_read(tmp_path, loaderkit):
    """By the commands, as files of records."""
    lk.write([{"tokens": np.arange(4, dtype=np.uint16)}] * 3, tmp_path / "a.tokens")
    for command in (["inspect"], ["check", "--only", "index"], ["check"]):
        ran = loaderkit(*command, str(tmp_path / "a.tokens"))
        assert ran.status == 0, ran.err
    assert loaderkit("inspect", str(tmp_path / "a.tokens"), "--json").documents[0]["records"] == 3
