"""`loaderkit convert`: the same records, fields and keys, the same bytes for any workers."""

import gzip
import json
import os
import re

import numpy as np
import pytest
from small_archives import tar_of, tfrecord_of

import loaderkit as lk
from loaderkit.formats._writing import shard_jobs

RECORDS = [(f"{k:04d}", {"cls": b"%d" % (k % 7), "jpg": bytes([k]) * k}) for k in range(60)]


@pytest.fixture
def archive(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tar_of(tmp_path / "a.tar", RECORDS)
    return tmp_path / "a.tar"


def read(*names):
    return list(lk.TarDataSource([str(name) for name in names]))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.tar")}


EXPECTED = [{"__key__": key, **fields} for key, fields in RECORDS]


def test_keys_fields_and_order_are_kept(loaderkit, archive, tmp_path):
    """Into a file, a folder and a pipe."""
    assert loaderkit("convert", archive, "b.tar").out == "b.tar: 60 records read, 1 file written\n"
    assert read("b.tar") == EXPECTED
    assert loaderkit("convert", archive, "c", "--shards", "4", "--json").documents == [
        {"output": "c", "format": "tar", "files": 4, "records_read": 60}
    ]
    assert read(*sorted(tmp_path.glob("c/*.tar"))) == EXPECTED
    assert loaderkit("convert", archive, "-").raw == (tmp_path / "b.tar").read_bytes()
    assert not list(tmp_path.glob("*.partial")) and not list(tmp_path.glob("*.converted"))


def test_the_same_bytes_for_any_workers(loaderkit, archive, tmp_path):
    """Shuffled by a seed, too; another seed is another order."""
    for name, seed, workers in (("x", 3, 0), ("y", 3, 2), ("z", 4, 0)):
        assert (
            loaderkit("convert", archive, name, "--shuffle", seed, "--shards", "3", "-p", workers).status == 0
        )
    assert contents(tmp_path / "x") == contents(tmp_path / "y") != contents(tmp_path / "z")
    found = [record["__key__"] for record in read(*sorted(tmp_path.glob("x/*.tar")))]
    assert found != sorted(found) == [key for key, _ in RECORDS]


def test_one_file_is_the_same_for_any_workers(loaderkit, archive, tmp_path):
    """As it is, and through a function that leaves records out and makes several of others."""
    (tmp_path / "several_of_test.py").write_text(
        "def several(record):\n"
        "    number = int(record.pop('__key__'))\n"
        "    return [{**record, 'id': b'%d' % k} for k in range(number % 3)]\n"
    )
    for call in ([], ["--call", "several_of_test:several"]):
        for workers in (0, 2):
            ran = loaderkit("convert", archive, f"w{workers}.tar", *call, "-p", workers, "--overwrite")
            assert ran.status == 0, ran.err
        assert (tmp_path / "w0.tar").read_bytes() == (tmp_path / "w2.tar").read_bytes()
    assert [record["id"] for record in read("w2.tar")] == [b"%d" % k for n in range(60) for k in range(n % 3)]


def test_names_of_files_that_are_written(loaderkit, tmp_path, monkeypatch):
    """Token files are files, and compressed ones are refused."""
    monkeypatch.chdir(tmp_path)
    lk.write([{"ids": np.arange(k)} for k in range(5)], "a.parquet")
    assert loaderkit("convert", "a.parquet", "b.tokens").out == "b.tokens: 5 records read, 1 file written\n"
    assert [row["ids"].tolist() for row in lk.TokenDataSource("b.tokens")] == [[*range(k)] for k in range(5)]
    for arguments in (["convert", "a.parquet", "b.tgz"], ["convert", "a.parquet", "b.tgz"]):
        ran = loaderkit(*arguments)
        assert ran.status == 2 and "OUT: expected a file that can be read from any place" in ran.err


def test_a_function_that_fails_in_a_worker(loaderkit, archive, tmp_path):
    """One line, with the record, without the worker's traceback."""
    (tmp_path / "failing_of_test.py").write_text("def fail(record):\n    raise ValueError('odd one')\n")
    ran = loaderkit("convert", archive, "b.tar", "--call", "failing_of_test:fail", "-p", "1")
    assert ran.status == 3 and "odd one; " in ran.err and "a.tar[0]" in ran.err
    assert ran.err.count("\n") == 1, ran.err


def test_an_archive_packed_by_gzip(loaderkit, archive, tmp_path):
    """Both names of it, and a pattern; a cut or damaged one is an error that names the byte."""
    packed = gzip.compress(archive.read_bytes())
    for name, given in (("p.tgz", "p.tgz"), ("q.tar.gz", "q.tar.gz"), ("p.tgz", "p*.tgz")):
        (tmp_path / name).write_bytes(packed)
        assert loaderkit("convert", given, "out.tar", "--overwrite").status == 0
        assert read("out.tar") == EXPECTED
    wrong = packed[:10] + b"\xff" * 50 + packed[60:]  # no block of deflate begins so
    for number, data in enumerate((packed[: len(packed) // 2], wrong)):
        (tmp_path / f"{number}.tgz").write_bytes(data)
        ran = loaderkit("convert", f"{number}.tgz", "d.tar")
        assert ran.status == 3, ran.err
        why = (
            "expected the rest of a frame or a member, got " + ("the end of the file", "other bytes")[number]
        )
        assert re.search(rf"{number}\.tgz: at byte \d+.*: {why}", ran.err), ran.err
    assert not os.path.exists("d.tar")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tfrecord", "lines"])
def test_other_formats_into_tar(loaderkit, tmp_path, monkeypatch, kind):
    """What the source of the format gives comes back from the archive."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / {"jsonl": "a.jsonl", "csv": "a.csv", "tfrecord": "a.tfrecord", "lines": "a.txt"}[kind]
    if kind == "tfrecord":
        tfrecord_of(path, [b"one", b"two"])
    else:
        path.write_text(
            {
                "jsonl": '{"x": 1, "y": [1, 2]}\n{"x": 2, "y": []}\n',
                "csv": "x,y\n1,a\n2,b\n",
                "lines": "one\ntwo\n",
            }[kind]
        )
    source = {
        "jsonl": lk.JsonLinesDataSource,
        "csv": lk.formats.CsvDataSource,
        "tfrecord": lk.TFRecordDataSource,
        "lines": lk.formats.LinesDataSource,
    }[kind]
    assert loaderkit("convert", path, "out", "--to", "tar", "--shards", "1").status == 0
    found = [
        {name: value for name, value in record.items() if name != "__key__"}
        if isinstance(record, dict)
        else record
        for record in read("out/00000-of-00001.tar")
    ]
    assert found == list(source(path))


def test_a_function_of_the_user(loaderkit, archive, tmp_path):
    """Records are changed, left out, or made several."""
    (tmp_path / "my_functions.py").write_text(
        "def odd(record):\n    if int(record['__key__']) % 2:\n        return {**record, 'txt': b'odd'}\n"
    )
    assert loaderkit("convert", archive, "b.tar", "--call", "my_functions:odd").status == 0
    assert [record["txt"] for record in read("b.tar")] == [b"odd"] * 30
    for text in ("my_functions", "my_functions:even", "no_such_module:f"):
        ran = loaderkit("convert", archive, "c.tar", "--call", text)
        assert ran.status == 2 and "--call: expected" in ran.err


def test_it_goes_on_where_it_was_stopped(loaderkit, archive, tmp_path, monkeypatch):
    """Files that are finished aren't written again."""
    real, written = shard_jobs.safe_on_disk, []

    def disk_full(path):
        written.append(os.path.basename(path).partition(".")[0])
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(shard_jobs, "safe_on_disk", disk_full)
        ran = loaderkit("convert", archive, "b", "--shards", "4")
        assert ran.status == 3 and "No space left" in ran.err and not os.path.exists("b")
        assert loaderkit("convert", archive, "b", "--shards", "4").status == 0
    assert written == [f"{k:05}-of-00004" for k in (0, 1, 2, 2, 3)]
    assert read(*sorted(tmp_path.glob("b/*.tar"))) == EXPECTED


def test_what_cannot_be_done(loaderkit, archive):
    """Status 2 and a line that says what to give."""
    os.mkdir("there")
    for arguments, message in [
        (
            ["there"],
            "DST: expected a new folder, got there, which is there; give another name, or --overwrite",
        ),
        (["b.tar", "--shards", "2"], "--shards: expected a folder as DST, got the file b.tar"),
        (["-", "--json"], "DST: expected a name with --json, --shards or --shard-bytes, got -"),
        (
            ["b", "--to", "csv"],
            "expected one of array_record, tar, tfrecord, parquet, arrow, jsonl, jsonl.zst, tokens",
        ),
        (["b", "-p", "-1"], "--processes: expected 0 or more, got -1"),
        (["b", "--shuffle", "-1"], "--shuffle: expected a seed in [0, 2**64), got -1"),
    ]:
        ran = loaderkit("convert", archive, *arguments)
        assert ran.status == 2 and message in ran.err, ran.err
    assert (
        json.loads(loaderkit("convert", archive, "there", "--overwrite", "--json").out)["records_read"] == 60
    )


@pytest.mark.parametrize("form", ["array_record", "jsonl", "tfrecord"])
def test_tar_to_another_format_and_back(loaderkit, archive, tmp_path, form):
    """The same records, with fields and keys; the archive that comes back has the bytes of one made at once."""
    assert loaderkit("convert", archive, "there", "--to", form, "--shards", "3").status == 0
    names = sorted(tmp_path.glob(f"there/*.{form}"))
    assert len(names) == 3 and loaderkit("convert", *names, "back.tar").status == 0
    assert read("back.tar") == EXPECTED
    assert loaderkit("convert", archive, "once.tar").status == 0
    assert (tmp_path / "back.tar").read_bytes() == (tmp_path / "once.tar").read_bytes()


def _twice_or_none(record):
    return None if int(record["__key__"]) % 2 else [record, {**record, "__key__": record["__key__"] + "b"}]


@pytest.mark.parametrize("call", [(), ("--call", "test_convert:_twice_or_none")])
def test_files_of_a_folder_end_by_bytes(loaderkit, archive, tmp_path, call):
    """In order, the same for any workers; what a function gives is counted, too."""
    for name, workers in (("x", 0), ("y", 2)):
        ran = loaderkit("convert", archive, name, "--shard-bytes", "20KiB", "-p", workers, *call, "--json")
        assert ran.status == 0, ran.err
    (document,) = ran.documents
    files = sorted(tmp_path.glob("x/*.tar"))
    assert document["files"] == len(files) > 2
    assert all(file.stat().st_size < 40_000 for file in files)
    assert contents(tmp_path / "x") == contents(tmp_path / "y")
    expected = EXPECTED
    if call:
        expected = [each for record in EXPECTED for each in _twice_or_none(record) or ()]
    assert read(*files) == expected


def test_shard_bytes_that_cannot_be(loaderkit, archive):
    """A file, a pipe, another size."""
    for target, more, problem in (
        ("b.tar", ("1MB",), "--shard-bytes: expected a folder as DST, got the file b.tar"),
        ("-", ("1MB",), "DST: expected a name with --json, --shards or --shard-bytes, got -"),
        ("b", ("much",), "--shard-bytes: expected a size, got 'much'"),
        ("b", ("1MB", "--shards", "2"), "--shard-bytes: expected alone, got --shards, too"),
    ):
        ran = loaderkit("convert", archive, target, "--shard-bytes", *more)
        assert (ran.status, problem in ran.err) == (2, True), ran.err
        assert not os.path.exists(target)
