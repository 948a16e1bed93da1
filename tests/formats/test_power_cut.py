"""What gets its final name is on the disk by then: a power cut leaves whole files or none."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._base.system import made_folder
from loaderkit.formats._writing import target

RECORDS = [{"x": np.arange(k, dtype=np.int32), "name": f"record {k}"} for k in range(1, 21)]
TOKENS = [{"text": np.arange(k, dtype=np.uint16)} for k in range(1, 21)]


class Disk:
    """Remembers what was synced, and refuses a rename of what wasn't."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.unsynced_names: dict[tuple[int, int], str] = {}  # the last new name, by its folder
        self.renames = 0
        self._synced: dict[tuple[int, int], tuple[int, int]] = {}
        self._real = {name: getattr(os, name) for name in ("fsync", "replace", "rename")}
        monkeypatch.setattr(os, "fsync", self._fsync)
        for name in ("replace", "rename"):
            monkeypatch.setattr(os, name, self._renaming(self._real[name]))

    def _fsync(self, descriptor: int) -> None:
        self._real["fsync"](descriptor)
        found = os.fstat(descriptor)
        self._synced[found.st_dev, found.st_ino] = found.st_size, found.st_mtime_ns
        self.unsynced_names.pop((found.st_dev, found.st_ino), None)

    def holds(self, path: str) -> bool:
        """Whether what is there was synced as it is."""
        found = os.stat(path)
        return self._synced.get((found.st_dev, found.st_ino)) == (found.st_size, found.st_mtime_ns)

    def _renaming(self, real: Callable[[str, str], None]) -> Callable[[str, str], None]:
        def rename(before: Any, after: Any) -> None:
            folders_were_synced = {folder: self.holds(folder) for folder in _folders(before)}
            # Parts of an index are checked when they are taken, and made again.
            for path in () if os.fspath(after).endswith(".part") else _files(before):
                assert self.holds(path), f"{path} gets the name {after}, and isn't on the disk"
            assert all(folders_were_synced.values()), f"{after}: the names in its folder aren't on the disk"
            real(before, after)
            self.renames += 1
            self.unsynced_names[_identity(os.path.dirname(os.path.abspath(after)))] = os.fspath(after)

        return rename


def _identity(path: str | Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)


def _folders(path: str) -> Iterator[str]:
    yield from (folder for folder, _, _ in os.walk(path))


def written(form: str) -> Callable[[Path], Any]:
    records = TOKENS if form == "tokens" else RECORDS
    return lambda path: lk.write(records, path / "out", format=form, shards=2)


def generated(path: Path) -> None:
    lk.write((one for one in RECORDS), path / "out", format="tfrecord", shard_bytes=300)


def mapped(path: Path) -> None:
    lk.offline.map_shards(
        lambda one: {"x": one["x"]}, RECORDS, path / "out", version=1, shards=3, format="tfrecord"
    )


def data_set(path: Path) -> None:
    lk.write_dataset({"train": RECORDS}, "numbers:1.0.0", format="tfrecord", data_dir=path, shards=2)


def indexed(path: Path) -> None:
    (path / "lines.txt").write_bytes(b"a line\n" * 100)
    assert len(lk.formats.LinesDataSource(path / "lines.txt")) == 100


CASES = {
    **{
        form: written(form)
        for form in ("array_record", "tfrecord", "tar", "jsonl", "parquet", "arrow", "tokens")
    },
    "one file": lambda path: lk.write(RECORDS, path / "out.tfrecord"),
    "from a generator": generated,
    "mapped": mapped,
    "a data set": data_set,
    "an index": indexed,
    "a plan": lambda path: lk.plan_packing([3, 4, 5] * 10, 8, path=path / "out.plan"),
    "lengths": lambda path: lk.offline.measure([b"abc"] * 10, len, path / "out.npy"),
}


MADE_AGAIN = {"an index", "a plan", "lengths"}  # where the name is lost


@pytest.mark.parametrize("name", CASES)
def test_only_what_is_on_the_disk_gets_its_name(name, tmp_path, monkeypatch):
    """Files, and the names in a folder that is renamed; then the folder that has the new name."""
    disk = Disk(monkeypatch)
    CASES[name](tmp_path)
    assert disk.renames
    if name not in MADE_AGAIN:
        assert not [*filter(os.path.lexists, disk.unsynced_names.values())]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_set_is_deleted_once_the_one_that_replaces_it_is_on_the_disk(exchanges, tmp_path, monkeypatch):
    """A power cut leaves one of the two whole, whether or not the system exchanges two names in one step."""
    disk = Disk(monkeypatch)
    if not exchanges:
        monkeypatch.setattr(made_folder, "_exchanged", lambda *_: False)
    real, deleted = target.delete_rest, []

    def delete(folder):
        assert disk.holds(tmp_path)
        deleted.append(folder)
        real(folder)

    monkeypatch.setattr(target, "delete_rest", delete)
    for records in (RECORDS, RECORDS[:5]):
        lk.write(records, tmp_path / "out", format="jsonl", shards=2, overwrite=True)
    assert len(deleted) == 1 and disk.holds(tmp_path)
