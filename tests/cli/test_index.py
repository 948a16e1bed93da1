"""`loaderkit index` and `loaderkit check`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_archives import tar_of

from loaderkit.formats._index.record_index import RecordIndex

ROOT = Path(__file__).parents[2]


def index_of(folder):
    (path,) = folder.glob("*.lkx")
    return RecordIndex(str(path))


def test_an_index_is_made_beside_the_data(loaderkit, tars, tmp_path):
    """With what was asked for, and nothing else is left."""
    (made,) = loaderkit("index", tars, "--keys", "--json").documents
    index = index_of(tmp_path)
    assert made == {
        "index": os.path.basename(index.path),
        "index_bytes": os.path.getsize(index.path),
        "format": "tar",
        "shards": 3,
        "records": 60,
        "bytes": sum(os.path.getsize(f"x-00{n}.tar") for n in range(3)),
        "fields": ["cls", "txt"],
        "members": True,
        "keys": True,
        "checksums": False,
    }
    assert index.find("000041") == 41
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".lkx", ".tar", ".tar", ".tar"]


def test_what_an_index_holds(loaderkit, tars, tmp_path):
    """Spans only and checksums, in a file with a name of the user's."""
    pytest.importorskip("google_crc32c")
    assert loaderkit("index", tars, "--spans-only", "--crc", "-o", tmp_path / "sub" / "my.lkx").status == 0
    index = RecordIndex(str(tmp_path / "sub/my.lkx"))
    assert (index.has_members, index.has_keys, index.checksums is None) == (False, False, False)


def test_no_file_of_the_data_is_written_over(loaderkit, tars, tmp_path):
    """An index is, by a newer one."""
    data = (tmp_path / "x-000.tar").read_bytes()
    for name, words in (("x-000.tar", "which is neither and would be lost"), (".", "got the folder")):
        refused = loaderkit("index", tars, "-o", name)
        assert refused.status == 2 and words in refused.err
    assert (tmp_path / "x-000.tar").read_bytes() == data
    for _ in range(2):
        assert loaderkit("index", tars, "-o", "my.lkx").status == 0


def test_local_and_remote_files_together(loaderkit, tars):
    refused = loaderkit("index", "x-000.tar", "https://host/x-001.tar")
    assert refused.status == 2 and "got 1 of the former and 1 of the latter" in refused.err


def test_counts(loaderkit, tars, tmp_path):
    """No shard is read; the source gives the same records."""
    (tmp_path / "wids.json").write_text(
        json.dumps({"shardlist": [{"url": f"x-00{n}.tar", "nsamples": 20} for n in range(3)]})
    )
    (made,) = loaderkit("index", tars, "--counts", "wids.json", "--json").documents
    assert (made["records"], made["members"], index_of(tmp_path).counts) == (60, False, True)
    (shown,) = loaderkit("show", tars, "-n", "1", "--json").documents
    assert shown
    assert loaderkit("check", "--only", "index", "--full", tars).status == 0
    assert loaderkit("index", tars, "--counts", "wids.json", "--keys").status == 2
    (tmp_path / "wids.json").write_text('{"shardlist": []}')
    assert loaderkit("index", tars, "--counts", "wids.json").status == 2


def test_a_folder_that_cant_be_written_to(loaderkit, tars, tmp_path, monkeypatch):
    """The index lies where the sources look next."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (made,) = loaderkit("index", tars, "--json").documents
    assert made["index"].startswith("cache/loaderkit/indexes/x-3-")
    assert not list(tmp_path.glob("*.lkx"))


@pytest.mark.slow
def test_workers_make_the_same_index(loaderkit, tars, tmp_path):
    """Byte for byte."""
    loaderkit("index", tars, "-o", "a.lkx", "-p", "0")
    loaderkit("index", tars, "-o", "b.lkx", "-p", "2")
    assert Path("a.lkx").read_bytes() == Path("b.lkx").read_bytes()


def test_array_record_has_its_own_index(loaderkit, records):
    """An error of usage."""
    ran = loaderkit("index", records / "x-*.array_record")
    assert ran.status == 2
    assert "which has its own" in ran.err


def test_a_malformed_shard_is_named(loaderkit, tars, tmp_path):
    """Status 3, with the shard and the offset; the next try takes what was finished."""
    whole = Path("x-002.tar").read_bytes()
    Path("x-002.tar").write_bytes(whole[:5000])
    ran = loaderkit("index", tars)
    assert ran.status == 3
    assert "x-002.tar: at byte " in ran.err
    assert not list(tmp_path.glob("*.lkx"))
    Path("x-002.tar").write_bytes(whole)
    assert loaderkit("index", tars).status == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".lkx", ".tar", ".tar", ".tar"]


def test_verify_finds_nothing_in_what_was_indexed(loaderkit, tars):
    """Also not in a copy with other times."""
    loaderkit("index", tars)
    assert loaderkit("check", "--only", "index", tars).out == (
        "nothing found in 3 shards with 60 records, compared by sizes and samples\n"
    )
    os.utime("x-001.tar", (1, 1))
    assert (
        loaderkit("check", "--only", "index", tars, "--full").out
        == "nothing found in 3 shards with 60 records, read\n"
    )


def test_verify_needs_an_index(loaderkit, tars):
    """And says how to make one."""
    ran = loaderkit("check", "--only", "index", tars)
    assert ran.status == 2
    assert "`loaderkit index`" in ran.err


def damaged(path, at, data=b"!"):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def found(ran):
    (document,) = ran.documents
    assert ran.status == bool(document["findings"])
    return [(each["rule"], each["location"]) for each in document["findings"]]


def test_shards_that_were_changed(loaderkit, tars):
    """Another size, other bytes, a missing file: each with its shard; the others are compared, too."""
    loaderkit("index", tars)
    with open("x-000.tar", "ab") as file:
        file.write(bytes(10240))
    damaged("x-001.tar", 600)
    os.rename("x-002.tar", "elsewhere")
    ran = loaderkit("check", "--only", "index", "x-000.tar", "x-001.tar", "x-002.tar", "--json")
    assert ran.status == 3 or found(ran) == [
        ("other-size", "x-000.tar"),
        ("other-content", "x-001.tar"),
        ("missing-shard", "x-002.tar"),
    ]


def test_full_finds_what_samples_miss(loaderkit, tmp_path, monkeypatch):
    """A header, and with checksums in the index any byte."""
    pytest.importorskip("google_crc32c")
    monkeypatch.chdir(tmp_path)
    tar_of("big.tar", [(f"{key:06d}", {"bin": bytes(500_000)}) for key in range(4)])
    loaderkit("index", "big.tar", "--crc")
    damaged("big.tar", 20_000)
    assert found(loaderkit("check", "--only", "index", "big.tar", "--json")) == []
    assert found(loaderkit("check", "--only", "index", "big.tar", "--full", "--json")) == [
        ("other-content", "big.tar[0]")
    ]


def test_an_index_of_another_set(loaderkit, tars):
    """The names are compared."""
    loaderkit("index", "x-000.tar", "-o", "one.lkx")
    assert found(loaderkit("check", "--only", "index", "x-001.tar", "--index", "one.lkx", "--json")) == [
        ("other-set", "one.lkx")
    ]


def test_a_damaged_index(loaderkit, tars):
    """Each section has a checksum."""
    loaderkit("index", tars, "-o", "a.lkx")
    damaged("a.lkx", os.path.getsize("a.lkx") - 70)
    assert found(loaderkit("check", "--only", "index", tars, "--index", "a.lkx", "--json")) == [
        ("damaged-index", "a.lkx")
    ]


def test_lint_names_every_malformed_shard(loaderkit, tars):
    """Not the first one alone."""
    for shard in (0, 2):
        damaged(f"x-00{shard}.tar", 2048 * 3, b"?" * 512)
    assert found(loaderkit("check", "--only", "training", tars, "--json")) == [
        ("malformed", "x-000.tar"),
        ("malformed", "x-002.tar"),
    ]


def test_verify_reads_array_records(loaderkit, records):
    """Their own checksums are compared by reading them."""
    assert found(loaderkit("check", "--only", "index", records / "x-*.array_record", "--json")) == []


@pytest.mark.slow
def test_ctrl_c_ends_the_command_and_its_workers(tmp_path):
    """130, quietly; what is finished is taken by the next try."""
    for shard in range(40):
        (tmp_path / f"x-{shard:03d}.txt").write_bytes(b"line\n" * 2_000_000)
    names = sorted(map(str, tmp_path.glob("*.txt")))
    running = subprocess.Popen(
        [sys.executable, "-m", "loaderkit", "index", "-p", "2", *names],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    (folder,) = [tmp_path] if wait_for(lambda: any(tmp_path.glob("*.parts/*"))) else []
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, b"", b"loaderkit: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
    assert not list(folder.glob("*.lkx"))


def wait_for(condition):
    import time

    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()
