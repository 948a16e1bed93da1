"""Files that runs of ours leave behind, and what the next run makes of them: for the table of damaged_kinds.py."""

import contextlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import loaderkit as lk
from loaderkit._loader.state_files import restore_from, write_document
from loaderkit._storage.cache.cached_spans import CachedSpans
from loaderkit._storage.cache.settings import Cache
from tests.storage.cache_fakes import Ranges, make_index


class Numbers:
    """Record k is 1000 + k + version; with `stop` one near the end stops the run."""

    def __init__(self, version: int = 0, stop: bool = False, count: int = 30) -> None:
        self.version, self.stop, self.count = version, stop, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, key: int) -> dict[str, int]:
        if self.stop and key == self.count - 9:
            raise KeyboardInterrupt
        return {"x": 1000 + key + self.version}

    def fingerprint(self) -> dict[str, int]:
        return {"numbers": self.version}


def _same(record: Any) -> Any:
    return record


def _number(record: Any) -> Any:
    return record["x"]


def _run(folder: Path, version: int, stop: bool) -> list[str]:
    numbers = Numbers(version, stop)
    return lk.offline.map_shards(_same, numbers, folder / "damaged", version=1, format="jsonl", shards=3)


def unfinished_set(folder: Path, version: int) -> str:
    """The folder of a run of `map_shards` that was stopped in its last shard."""
    with contextlib.suppress(KeyboardInterrupt):
        _run(folder, version, stop=True)
    return str(folder / "damaged.partial")


def finished_set(path: str) -> Any:
    """The records once the run has gone on. path: of a file in the folder."""
    return lk.JsonLinesDataSource(_run(Path(path).parents[1], 0, stop=False))


def written_set(folder: Path, version: int) -> str:
    """made.json of a set."""
    _run(folder, version, stop=False)
    return str(folder / "damaged" / "made.json")


def overwritten_set(path: str) -> Any:
    """The records of the set that replaces it."""
    target = Path(path).parent
    return lk.JsonLinesDataSource(
        lk.write([{"x": k} for k in range(9)], target, format="jsonl", shards=3, overwrite=True)
    )


def unfinished_array(folder: Path, version: int) -> str:
    """The folder of a run of `measure` that was stopped."""
    with contextlib.suppress(KeyboardInterrupt):
        lk.offline.measure(Numbers(version, stop=True, count=300), _number, folder / "damaged.npy", version=1)
    return str(folder / "damaged.npy.partial")


def finished_array(path: str) -> NDArray[Any]:
    """The values once the run has gone on."""
    return lk.offline.measure(Numbers(count=300), _number, Path(path).parents[1] / "damaged.npy", version=1)


def unfinished_index(folder: Path, version: int) -> str:
    """The part of a scan of two shards of which the second isn't one."""
    lk.write([{"x": 10 + k + version} for k in range(20)], folder / "damaged.tfrecord")
    (folder / "second.tfrecord").write_bytes(b"not one")
    with contextlib.suppress(lk.errors.DataFormatError):
        lk.TFRecordDataSource(str(folder / "*.tfrecord"))
    (part,) = folder.glob("*.lkx.parts/*.part")
    return str(part)


def finished_index(path: str) -> Any:
    """The records of both shards once the second is there."""
    folder = Path(path).parents[1]
    lk.write([{"x": 7}] * 5, folder / "second.tfrecord", overwrite=True)
    return lk.TFRecordDataSource([str(folder / name) for name in ("damaged.tfrecord", "second.tfrecord")])


class _Spans:
    def __init__(self, folder: Path, version: int) -> None:
        self._index = make_index(records=60, chunk=20, size=90, digest="ab"[version])
        self._spans = CachedSpans(self._index, Ranges(self._index), Cache(folder, 1 << 30))

    def __len__(self) -> int:
        return 60

    def __getitem__(self, key: int) -> bytes:
        return bytes(self._spans.read(np.array([key]))[0])


def chunk(folder: Path, version: int) -> str:
    """A chunk in the folder of a cache."""
    list(_Spans(folder / "damaged", version))
    return str(min((folder / "damaged").rglob("*.chunk")))


def cached_chunks(path: str) -> Any:
    """The records that are read through it."""
    return _Spans(Path(path).parents[4], 0)


def kept(folder: Path, version: int) -> str:
    """The folder of a CachedDataSource."""
    list(lk.CachedDataSource(Numbers(version), folder / "damaged"))
    return str(folder / "damaged")


def kept_again(path: str) -> Any:
    """The source of that folder."""
    return lk.CachedDataSource(Numbers(), Path(path).parent)


def unpacked(folder: Path, version: int) -> str:
    """A .tgz, unpacked into a cache; the folder of what was unpacked."""
    with tarfile.open(folder / "damaged.tgz", "w:gz") as archive:
        for k in range(3):
            member = tarfile.TarInfo(f"{k}.txt")
            member.size = 3
            archive.addfile(member, io.BytesIO(b"a%d%d" % (version, k)))
    lk.TarDataSource(folder / "damaged.tgz", cache=lk.Cache(folder / "cache", "1MB")).close()
    (made,) = (folder / "cache").rglob("damaged.tar")
    return str(made.parent)


def unpacked_again(path: str) -> Any:
    """Its records."""
    folder = Path(path).parents[3]
    return lk.TarDataSource(folder / "damaged.tgz", cache=lk.Cache(folder / "cache", "1MB"))


def _loader(**options: Any) -> Any:
    return lk.load(range(40), num_epochs=1, batch_size=4, shuffle=True, seed=1, worker_count=0, **options)


def state(folder: Path, version: int) -> str:
    """A saved state."""
    (folder / "damaged").mkdir()
    with _loader() as loader, iter(loader) as batches:
        for _ in range(3 + version):
            next(batches)
        write_document(folder / "damaged", batches.get_state())
    return str(folder / "damaged" / "process_0-of-1.json")


def restored(path: str) -> list[Any]:
    """What follows it."""
    with _loader() as loader, iter(loader) as batches:
        restore_from(batches, Path(path).parent, ())
        return [batch.tolist() for batch in batches]


class _Bad(Numbers):
    def __getitem__(self, key: int) -> dict[str, int]:
        if key == 5:
            raise ValueError("bad")
        return super().__getitem__(key)


def dropped(folder: Path, version: int) -> str:
    """The list of the records that a run has dropped."""
    lk.write(_Bad(version), folder / "damaged", format="jsonl", shards=2, on_record_error="drop")
    return str(folder / "damaged.dropped.jsonl")


def dropped_again(path: str) -> Any:
    """What replaces the run's set, and the new list."""
    folder = Path(path).parent
    files = lk.write(
        _Bad(), folder / "damaged", format="jsonl", shards=2, on_record_error="drop", overwrite=True
    )
    told = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [*lk.JsonLinesDataSource(files), told]


def quarantine(folder: Path, version: int) -> str:
    """A quarantine file."""
    path = folder / "damaged.jsonl"
    quarantined(str(path))
    return str(path)


def quarantined(path: str) -> list[Any]:
    """A stream with a bad record, and the line that is appended for it."""
    with lk.load(_Bad(), num_epochs=1, on_record_error="replace", quarantine=path, worker_count=0) as loader:
        return [*loader, json.loads(Path(path).read_bytes().splitlines()[-1])]
