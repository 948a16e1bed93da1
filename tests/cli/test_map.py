"""`loaderkit map`: a shell command or a function on each record, in order, with the same bytes for any workers."""

import numpy as np
import pytest

import loaderkit as lk


@pytest.fixture
def archive(tmp_path):
    records = [
        {"__key__": f"{number:03}", "txt": b"abc%d" % number, "cls": b"%d" % number} for number in range(12)
    ]
    lk.write(records, tmp_path / "in.tar")
    return tmp_path / "in.tar"


def test_a_shell_command_makes_new_fields(loaderkit, archive, tmp_path):
    """The same bytes for no workers and two."""
    command = "tr a-z A-Z < sample.txt > sample.up; printf %s $KEY > sample.key; rm sample.txt"
    for processes in (0, 2):
        out = tmp_path / f"out{processes}-{{}}.tar"
        ran = loaderkit("map", archive, "-c", command, "-o", out, "--shards", "3", "-p", processes)
        assert ran.status == 0, ran.err
    for shard in range(3):
        one, other = (tmp_path / f"out{processes}-{shard:05}.tar" for processes in (0, 2))
        assert one.read_bytes() == other.read_bytes()
    made = list(lk.TarDataSource(f"{tmp_path}/out2-*.tar"))
    assert made[7] == {"__key__": "007", "cls": b"7", "key": b"007", "up": b"ABC7"}
    assert [record["__key__"] for record in made] == [f"{number:03}" for number in range(12)]
    assert sorted(path.name for path in tmp_path.iterdir() if "mapped" in path.name) == []


def test_fields_that_are_no_bytes(loaderkit, tmp_path, monkeypatch):
    """Numbers and JSON are files, other values are refused."""
    monkeypatch.chdir(tmp_path)
    lk.write([{"n": 7, "f": np.float32(0.5), "flag": True, "box": [1, {"a": "b"}]}], "in.jsonl")
    assert loaderkit("map", "in.jsonl", "-c", "true", "-o", "out.tar").status == 0
    (made,) = lk.TarDataSource("out.tar")
    del made["__key__"]
    assert made == {"n": b"7", "f": b"0.5", "flag": b"true", "box": b'[1, {"a": "b"}]'}
    lk.write([{"x": np.zeros(2)}], "array.jsonl")
    ran = loaderkit("map", "array.jsonl", "-c", "true", "-o", "no.tar")
    assert (
        ran.status == 3
        and "field 'x': expected bytes, text, a number or JSON for a file, got ndarray" in ran.err
    )


def test_a_command_that_fails(loaderkit, archive, tmp_path):
    """It ends with what was written to stderr, or the record is dropped."""
    command = "test $KEY != 004 || { echo no fours >&2; exit 7; }"
    ran = loaderkit("map", archive, "-c", command, "-o", tmp_path / "out.tar")
    assert ran.status == 3
    assert "no fours" in ran.err and "004" in ran.err
    assert not (tmp_path / "out.tar").exists()
    ran = loaderkit("map", archive, "-c", command, "-o", tmp_path / "out.tar", "--on-error", "drop")
    assert ran.status == 0
    assert len(lk.TarDataSource(tmp_path / "out.tar")) == 11


def test_a_function_and_what_is_refused(loaderkit, archive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mapper_of_test.py").write_text(
        "def twice(record):\n    return [{**record, '__key__': record['__key__'] + end} for end in 'ab']\n"
    )
    assert loaderkit("map", archive, "--call", "mapper_of_test:twice", "-o", "two.tar").status == 0
    assert [record["__key__"] for record in lk.TarDataSource("two.tar")][:3] == ["000a", "000b", "001a"]
    assert loaderkit("map", archive, "--call", "mapper_of_test:twice", "-o", "two.tar").status == 2
    assert loaderkit("map", archive, "--call", "mapper_of_test:no", "-o", "x.tar").status == 2
    assert loaderkit("map", archive, "-c", "true", "-o", "x.tar", "--shards", "2").status == 2
    for option in ("--shards", "-p"):
        assert loaderkit("map", archive, "-c", "true", "-o", "x-{}.tar", option, "-1").status == 2
    assert loaderkit("map", archive, "-c", "true", "-o", "x-{}.tar", "--shards", "0").status == 2
