"""`loaderkit show`."""

import io
import sys
import warnings

import pytest


def test_the_first_records(loaderkit, records):
    """A line that says where each record lies, and its value, cut where it is long."""
    ran = loaderkit("show", records / "x-*.array_record", "-n", "4")
    lines = ran.out.splitlines()
    assert lines[0] == f"0  {records}/x-0.array_record[0]"
    assert lines[1] == "  record  record 0.0"
    assert lines[6] == f"3  {records}/x-1.array_record[0]"
    assert len(lines[5]) == len("  record  ") + 200 and lines[5].endswith("...")


def test_one_record_by_its_number(loaderkit, records):
    """As in a list, also from the end."""
    (last,) = loaderkit("show", records / "x-*.array_record", "--key", "-1", "--json").documents
    assert (last["key"], last["location"]) == (7, f"{records}/x-1.array_record[4]")
    assert last["fields"] == {"record": "record 1.4" * 41}
    assert loaderkit("show", records / "x-*.array_record", "--key", "8").status == 2


def test_a_warning_is_a_line(loaderkit, tmp_path):
    """Of files that are slow to read, without a line of code."""
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(tmp_path / "a.array_record"), "group_size:4")
    for _ in range(8):
        writer.write(b"record")
    writer.close()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        ran = loaderkit("show", tmp_path / "a.array_record", "-n", "1")
    assert ran.status == 0
    assert ran.err.startswith("loaderkit: warning: ") and ran.err.count("\n") == 1


def test_raw_bytes(loaderkit, records):
    """For a pipe: the value and nothing else."""
    assert loaderkit("show", records / "x-0.array_record", "--raw", "-n", "1").out == "record 0.0"


def test_a_field_that_isnt_there(loaderkit, records):
    """The fields of the record are named."""
    ran = loaderkit("show", records / "x-0.array_record", "-f", "jpg")
    assert ran.status == 2
    assert "which has record, got 'jpg'" in ran.err


def test_records_from_a_pipe(loaderkit, records, monkeypatch):
    """The format is told by the first bytes; nothing of the copy is left."""
    content = (records / "x-0.array_record").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    monkeypatch.setattr("tempfile.tempdir", str(records))
    ran = loaderkit("show", "-", "-n", "1")
    assert ran.out == "0  stdin[0]\n  record  record 0.0\n"
    assert not list(records.glob("loaderkit-*"))


@pytest.mark.parametrize("name", ["-", "x.array_record"])
def test_find_needs_keys(loaderkit, records, name, monkeypatch):
    """ArrayRecord has none."""
    monkeypatch.chdir(records)
    content = (records / "x-0.array_record").read_bytes()
    (records / "x.array_record").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert loaderkit("show", name, "--find", "000").status == 2
