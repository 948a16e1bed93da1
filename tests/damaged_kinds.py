"""Kinds of data files that are damaged on purpose, and what reading one gives: its records, others, or an error.

`python -m tests.damaged_kinds KIND` damages one, each of its first 512 bytes in turn, in a process of its own.
"""

import gzip
import importlib
import json
import os
import random
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import loaderkit as lk
from tests import damaged_work as work

HEAD = 512  # bytes
LOCK_ERRORS = (FileExistsError, IsADirectoryError, TimeoutError)


def records(version: int = 0) -> list[dict[str, Any]]:
    """Two versions of one size."""
    return [
        {"label": 10 + k + version, "x": np.arange(8, dtype=np.uint8) * k % 251, "name": f"r{10 + k}"}
        for k in range(41)
    ]


def documents(version: int = 0) -> list[dict[str, Any]]:
    """Of tokens, likewise."""
    return [
        {"tokens": np.arange(7 * k, 7 * k + k % 9, dtype=np.uint16) + np.uint16(version)} for k in range(60)
    ]


@dataclass(frozen=True)
class Kind:
    """A kind of file, and what happens where one is wrong.

    write: makes one in a folder, of version 0, or of 1: other records of one size; gives its path. read: gives the
    source. needs: the module of its library. sees: whether any flipped bit is an error, or changes nothing. heals:
    whether what is wrong is made again, without an error. later: bytes of its version, and those of a later version.
    between: what is read where version 1 has taken its place since, with all that lies beside it as it was: "new"
    records, the "same" or an "error". replaced, edited: likewise while a source reads it, for a file that was replaced
    or written to; None where no source reads it. consumed: whether reading changes what lies beside it.

    lock: a pattern of what its reader locks, in the folder. held, unreadable: what is read while a stopped process
    holds the lock, and where a file lies in the place of a folder, or a folder in that of a file.
    """

    write: Callable[[Path, int], str]
    read: Callable[[str], Any]
    needs: str = "numpy"
    sees: bool = False
    heals: bool = False
    later: tuple[bytes, bytes] | None = None
    between: str = "new"
    replaced: str | None = "error"
    edited: str | None = "error"
    consumed: bool = False
    lock: str | None = None
    held: str = "error"
    unreadable: str = "error"

    @property
    def is_missing(self) -> bool:
        """Whether its library isn't installed."""
        try:
            importlib.import_module(self.needs)
        except ImportError:
            return True
        return False


def written(name: str, of: Callable[[int], list[Any]] = records) -> Callable[[Path, int], str]:
    """A writer of a file of `lk.write`."""
    return lambda folder, version: lk.write(of(version), folder / f"damaged.{name}")[0]


def _text(name: str, of: Callable[[int], str]) -> Callable[[Path, int], str]:
    def write(folder: Path, version: int) -> str:
        (folder / name).write_text(of(version))
        return str(folder / name)

    return write


def _gzip(folder: Path, version: int) -> str:
    lines = "".join(f'{{"a": {k}, "b": "{"tu"[version]}"}}\n' for k in range(60)).encode()
    (folder / "damaged.jsonl.gz").write_bytes(
        gzip.compress(lines, 0, mtime=0)
    )  # of one size for both versions
    return str(folder / "damaged.jsonl.gz")


def _mds(folder: Path, version: int) -> str:
    names = {"column_names": ["a", "b"], "column_encodings": ["int", "str"], "column_sizes": [8, None]}
    head = json.dumps(names).encode()
    samples = [struct.pack("<Iq", 3, k) + f"{'tu'[version]}{k:02}".encode() for k in range(60)]
    begins = 4 * 62 + len(head) + np.cumsum([0, *map(len, samples)])
    table = struct.pack("<62I", 60, *begins.tolist())
    (folder / "damaged.mds").write_bytes(table + head + b"".join(samples))
    return str(folder / "damaged.mds")


def _npy(folder: Path, version: int) -> str:
    np.save(folder / "damaged.npy", np.arange(3000, dtype=np.uint16) + np.uint16(version))
    return str(folder / "damaged.npy")


def _megatron(folder: Path, version: int) -> str:
    lengths = np.array([3, 5, 7, 2][:: -1 if version else 1] * 10, np.int32)
    np.arange(lengths.sum(), dtype=np.int32).tofile(folder / "damaged.bin")
    begins = np.concatenate([[0], np.cumsum(lengths[:-1]) * 4]).astype(np.int64)
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1)
    firsts = np.arange(len(lengths) + 1, dtype=np.int64)
    (folder / "damaged.idx").write_bytes(head + lengths.tobytes() + begins.tobytes() + firsts.tobytes())
    return str(folder / "damaged.idx")


def _lmdb(folder: Path, version: int) -> str:
    import lmdb

    path = str(folder / "damaged.mdb")
    with lmdb.open(path, subdir=False, lock=False) as database, database.begin(write=True) as transaction:
        for k in range(100):
            transaction.put(f"{k:05}".encode(), (b"other %d" if version else b"value %d") % k * 20)
    return path


def _hdf5(folder: Path, version: int) -> str:
    import h5py

    with h5py.File(folder / "damaged.h5", "w") as file:
        file["x"], file["y"] = np.arange(600).reshape(100, 6) + version, np.arange(100)
    return str(folder / "damaged.h5")


def _netcdf(folder: Path, version: int) -> str:
    import xarray

    data = xarray.Dataset({"x": (("n", "a"), np.arange(200).reshape(100, 2) + version)})
    data.to_netcdf(folder / "damaged.nc", engine="h5netcdf")
    return str(folder / "damaged.nc")


def _zarr(name: str) -> Callable[[Path, int], str]:
    def write(folder: Path, version: int) -> str:
        import zarr

        group = zarr.open_group(folder / "damaged.zarr", mode="w")
        group.create_array("x", data=np.arange(200).reshape(100, 2) + version, chunks=(100, 2))
        return str(folder / "damaged.zarr" / name)

    return write


def _index(folder: Path, version: int) -> str:
    path = written("tfrecord")(folder, version)
    lk.TFRecordDataSource(path).close()
    (index,) = folder.glob("*.lkx")
    return str(index.rename(folder / "damaged.lkx"))


def _card(folder: Path, version: int) -> str:
    splits = {"train": [{"label": k + version} for k in range(9)]}
    made = lk.write_dataset(splits, "damaged:1.0.0", format="arrow", data_dir=folder)
    return str(Path(made, "dataset.json"))


def _file(folder: Path, version: int) -> str:
    (folder / "damaged.bin").write_bytes(b"a%d" % version * 300)
    return str(folder / "damaged.bin")


LENGTHS = np.array([len(each["tokens"]) for each in documents()])


def _plan(folder: Path, version: int) -> str:
    path = str(folder / "damaged.plan")
    lk.plan_packing(LENGTHS[::-1] if version else LENGTHS, 16, path, block=8)
    return path


def _unfinished_plan(folder: Path, version: int) -> str:
    whole = Path(_plan(folder, version))
    (folder / "damaged.plan.partial").mkdir()
    data = whole.read_bytes()
    whole.unlink()
    partial = folder / "damaged.plan.partial" / "plan"
    partial.write_bytes(data[: len(data) * 2 // 3])
    return str(partial)


def _rows_of_plan(path: str) -> Any:
    tokens = lk.TokenDataSource(
        np.concatenate([each["tokens"] for each in documents()]), np.cumsum([0, *LENGTHS])
    )
    return lk.PackedDataSource(tokens, lk.plan_packing(LENGTHS, 16, path, block=8))


def _measured(folder: Path, version: int) -> str:
    path = str(folder / "damaged.npy")
    lk.offline.measure([k + version for k in range(300)], int, path)
    return path


def _in(write: Callable[[Path, int], str], name: str) -> Callable[[Path, int], str]:
    """A file in the folder that `write` makes."""
    return lambda folder, version: str(Path(write(folder, version), name))


# Files of a run that nothing reads while they change: a process writes them under its lock.
WORK: dict[str, Any] = {"replaced": None, "edited": None, "consumed": True}

KINDS = {
    "array_record": Kind(
        written("array_record"), lk.ArrayRecordDataSource, "array_record", sees=True, replaced="same"
    ),
    "arrow": Kind(
        written("arrow"), lk.formats.ArrowDataSource, "pyarrow", later=(b'{"version":1,', b'{"version":2,')
    ),
    "card": Kind(
        _card,
        lambda path: lk.open(Path(path).parent, "train"),
        "pyarrow",
        sees=True,
        later=(b'"card_version": 1', b'"card_version": 2'),
        between="same",
        replaced="same",
        edited="same",
    ),
    "chunk": Kind(
        work.chunk,
        work.cached_chunks,
        heals=True,
        later=(b"LKCHUNK1", b"LKCHUNK2"),
        between="same",
        replaced="same",
        edited="same",
        lock="damaged/*/locks/*",
        held="same",
        unreadable="same",
    ),
    "csv": Kind(
        _text(
            "damaged.csv",
            lambda version: "a,b\n" + "".join(f'{k},"{"tu"[version]} {k}"\n' for k in range(100)),
        ),
        lk.formats.CsvDataSource,
        replaced="same",
    ),
    "done": Kind(
        _in(work.unfinished_set, "00000-of-00003.jsonl.done"),
        work.finished_set,
        heals=True,
        **WORK,
        between="same",
        lock="damaged.partial",
    ),
    "dropped list": Kind(work.dropped, work.dropped_again, **WORK, between="same"),
    "file": Kind(_file, lk.formats.FilesDataSource, replaced="same"),
    "hdf5": Kind(_hdf5, lambda path: lk.formats.ArrayFileDataSource(path, 0), "h5py"),
    "index": Kind(
        _index,
        lambda path: lk.TFRecordDataSource(Path(path).with_suffix(".tfrecord"), index=path),
        sees=True,
        later=(b"LKINDEX1", b"LKINDEX2"),
        between="error",
        replaced="same",
        edited="same",
    ),
    "jsonl": Kind(
        written("jsonl", lambda version: [{"a": k, "b": "tu"[version]} for k in range(60)]),
        lk.JsonLinesDataSource,
        replaced="same",
    ),
    "jsonl.zst": Kind(
        written("jsonl.zst", lambda version: [{"a": k, "b": "tu"[version]} for k in range(60)]),
        lk.JsonLinesDataSource,
        "backports.zstd" if sys.version_info < (3, 14) else "compression.zstd",
        sees=True,
        replaced="same",
        edited="same",
    ),
    "jsonl.gz": Kind(
        _gzip,
        lk.JsonLinesDataSource,
        sees=True,
        replaced="same",
        edited="same",
    ),
    "kept index": Kind(
        _in(work.kept, "index"),
        work.kept_again,
        sees=True,
        later=(b"LKCACHE1", b"LKCACHE2"),
        between="error",
        replaced="same",
        edited="same",
        lock="damaged/index",
    ),
    "kept records": Kind(
        _in(work.kept, "records"), work.kept_again, heals=True, between="same", replaced="same", edited="same"
    ),
    "lmdb": Kind(_lmdb, lk.formats.LmdbDataSource, "lmdb"),
    "made.json of a set": Kind(
        work.written_set, work.overwritten_set, sees=True, **WORK, between="same", lock="damaged"
    ),
    "made.json of a run": Kind(
        _in(work.unfinished_set, "made.json"), work.finished_set, sees=True, **WORK, between="error"
    ),
    "mds": Kind(_mds, lk.formats.MdsDataSource, replaced="same"),
    "measured": Kind(
        _measured,
        lk.offline.read_array,
        sees=True,
        later=(b"LKARRAY1", b"LKARRAY2"),
        replaced="same",
        edited="new",
    ),
    "megatron": Kind(_megatron, lk.TokenDataSource.from_megatron, sees=True, replaced="same", edited="same"),
    "netcdf": Kind(_netcdf, lambda path: lk.formats.ArrayFileDataSource(path, "n"), "h5netcdf"),
    "npy": Kind(_npy, lambda path: lk.TokenDataSource(path, np.arange(0, 3001, 30)), replaced="same"),
    "parquet": Kind(written("parquet"), lk.ParquetDataSource, "pyarrow"),
    "part of an index": Kind(
        work.unfinished_index,
        work.finished_index,
        heals=True,
        later=(b"LKINDEX1", b"LKINDEX2"),
        **WORK,
        between="same",
        lock="*.lkx.parts",
    ),
    "plan": Kind(
        _plan,
        _rows_of_plan,
        sees=True,
        later=(b"LKPACK01", b"LKPACK02"),
        between="error",
        replaced="same",
    ),
    "progress": Kind(
        _in(work.unfinished_array, "progress.json"),
        work.finished_array,
        sees=True,
        **WORK,
        between="error",
        lock="damaged.npy.partial",
    ),
    "quarantine": Kind(work.quarantine, work.quarantined, heals=True, **WORK, between="same"),
    "shard of a run": Kind(
        _in(work.unfinished_set, "00000-of-00003.jsonl"), work.finished_set, **WORK, between="other"
    ),
    "state": Kind(
        work.state,
        work.restored,
        sees=True,
        later=(b'"format_version": 5', b'"format_version": 7'),
        replaced=None,
        edited=None,
    ),
    "tar": Kind(written("tar"), lk.TarDataSource, replaced="same"),
    "text": Kind(
        _text("damaged.txt", lambda version: "".join(f"{'lL'[version]}ine {k}\n" for k in range(100))),
        lk.formats.LinesDataSource,
        replaced="same",
    ),
    "tfrecord": Kind(written("tfrecord"), lk.TFRecordDataSource, "google_crc32c", sees=True, replaced="same"),
    "tokens": Kind(
        written("tokens", documents),
        lk.TokenDataSource,
        sees=True,
        later=(b"LKTOKEN1", b"LKTOKEN2"),
        replaced="same",
    ),
    "unfinished plan": Kind(
        _unfinished_plan,
        lambda path: _rows_of_plan(str(Path(path).parent.with_suffix(""))),
        sees=True,
        **WORK,
        between="same",
        lock="damaged.plan.partial",
    ),
    "unpacked": Kind(
        _in(work.unpacked, "damaged.tar"),
        work.unpacked_again,
        heals=True,
        between="same",
        replaced="same",
        lock="cache/*/*",
    ),
    "unpacked checksum": Kind(
        _in(work.unpacked, "damaged.tar.checksum"), work.unpacked_again, heals=True, **WORK, between="same"
    ),
    "values of a run": Kind(
        _in(work.unfinished_array, "values.npy"), work.finished_array, sees=True, **WORK, between="error"
    ),
    "zarr": Kind(
        _zarr("zarr.json"),
        lambda path: lk.formats.ArrayFileDataSource(Path(path).parent, 0),
        "zarr",
        between="same",
    ),
    "zarr array": Kind(
        _zarr("x/zarr.json"),
        lambda path: lk.formats.ArrayFileDataSource(Path(path).parents[1], 0),
        "zarr",
        between="same",
        replaced="same",
        edited="same",
    ),
    "zarr chunk": Kind(
        _zarr("x/c/0/0"),
        lambda path: lk.formats.ArrayFileDataSource(Path(path).parents[3], 0),
        "zarr",
        replaced="new",
        edited="new",
    ),
}


def values(source: Any) -> str:
    """The records, read one by one and together, as a text that tells any two apart."""
    keys = range(len(source))
    many = source.__getitems__(list(keys)) if hasattr(source, "__getitems__") else []
    return repr([_plain(record) for record in [*(source[key] for key in keys), *many]])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return (value.dtype.str, value.tolist()) if isinstance(value, np.ndarray | np.generic) else value


class DamagedFile:
    """A file of a kind, damaged and read again and again.

    Args:
        kind: of the file.
        folder: an empty one.
    """

    def __init__(self, kind: Kind, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._kind, self._folder = kind, folder
        self.path = Path(kind.write(folder, 0))
        self.data = self.path.read_bytes()
        self._beside = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self._good = self.read()

    def outcome(self, data: bytes) -> str:
        """ "same", "other" records, or "error", which is ours and names the file."""
        self._restore()
        self.path.write_bytes(data)
        for index in self._folder.glob("*.tfrecord.lkx"):
            index.unlink()
        return self._compared(self.read)

    def read(self) -> str:
        """Its records."""
        return values(self._kind.read(str(self.path)))

    def outcome_of_version_1(self, how: str) -> str:
        """Likewise, or "new" records, where the file becomes one of version 1: "between" two readings, or under a
        source: "replaced" by a rename, or "edited".
        """
        other = self._folder.with_name("version 1")
        other.mkdir(exist_ok=True)
        path = self._kind.write(other, 1)
        data = Path(path).read_bytes()
        new = values(self._kind.read(path)) if getattr(self._kind, how) == "new" else None
        self._restore()
        self.path.write_bytes(self.data)
        os.utime(self.path, (1e9, 1e9))
        if how == "between":
            if not self._kind.consumed:
                self.read()
            source = None
        else:
            source = self._kind.read(str(self.path))
            source[0]
        if how == "edited":
            self.path.write_bytes(data)
        else:
            os.replace(path, self.path)
        return self._compared((lambda: values(source)) if source is not None else self.read, new)

    def _compared(self, read: Callable[[], str], new: str | None = None) -> str:
        try:
            found = read()
        except (lk.LoaderkitError, ValueError, *LOCK_ERRORS) as error:
            # A record that can't be decoded is a ValueError, and so is a data set in which nothing is found any more.
            begins = (str(self.path), "path: expected one", "folder: expected", "dim: expected")
            ours = isinstance(error, (lk.LoaderkitError, *LOCK_ERRORS)) or str(error).startswith(begins)
            text = " ".join([str(error), *getattr(error, "__notes__", ())])
            if not ours or not ("damaged" in text or str(self._folder) in text):
                raise
            return "error"
        return "same" if found == self._good else "new" if found == new else "other"

    def _restore(self) -> None:
        """All files as they were before they were read, where reading changes them."""
        if self._kind.consumed:
            for path in sorted(self._folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            for path, content in self._beside.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def locks(self) -> list[Path]:
        """What its reader locks, and the files as they were."""
        self._restore()
        return sorted(self._folder.glob(self._kind.lock or ""))

    def read_again(self) -> str:
        """Its records, as `outcome` says it."""
        return self._compared(self.read)

    def flipped(self, place: int) -> bytes:
        """Its bytes with one bit of this one flipped."""
        bit = 1 << random.Random(place).randrange(8)
        return self.data[:place] + bytes([self.data[place] ^ bit]) + self.data[place + 1 :]


def main(name: str) -> None:
    """Prints what became of each of the first bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = DamagedFile(KINDS[name], Path(folder, "files"))
        places = range(min(HEAD, len(file.data)))
        print(dict(Counter(file.outcome(file.flipped(place)) for place in places)))


if __name__ == "__main__":
    main(sys.argv[1])
