"""Kinds of data files that are damaged on purpose, and what reading one gives: its records, others, or an error.

`python -m tests.damaged_kinds KIND` damages one, each of its first 512 bytes in turn, in a process of its own.
"""

import importlib
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

RECORDS = [{"label": k, "x": np.arange(8, dtype=np.uint8) * k % 251, "name": f"r{k}"} for k in range(40)]
DOCUMENTS = [{"tokens": np.arange(7 * k, 7 * k + k % 9, dtype=np.uint16)} for k in range(60)]
HEAD = 512  # bytes


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    write: makes one in a folder, gives its path. read: gives the source. needs: the module of its library. sees:
    whether any flipped bit is an error, or changes nothing.
    """

    write: Callable[[Path], str]
    read: Callable[[str], Any]
    needs: str = "numpy"
    sees: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether its library isn't installed."""
        try:
            importlib.import_module(self.needs)
        except ImportError:
            return True
        return False


def written(name: str, records: list[Any] = RECORDS) -> Callable[[Path], str]:
    """A writer of a file of `lk.write`."""
    return lambda folder: lk.write(records, folder / f"damaged.{name}")[0]


def _text(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def _npy(folder: Path) -> str:
    np.save(folder / "damaged.npy", np.arange(3000, dtype=np.uint16))
    return str(folder / "damaged.npy")


def _megatron(folder: Path) -> str:
    lengths = np.array([3, 5, 7, 2] * 10, np.int32)
    np.arange(lengths.sum(), dtype=np.int32).tofile(folder / "damaged.bin")
    begins = np.concatenate([[0], np.cumsum(lengths[:-1]) * 4]).astype(np.int64)
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1)
    firsts = np.arange(len(lengths) + 1, dtype=np.int64)
    (folder / "damaged.idx").write_bytes(head + lengths.tobytes() + begins.tobytes() + firsts.tobytes())
    return str(folder / "damaged.idx")


def _lmdb(folder: Path) -> str:
    import lmdb

    path = str(folder / "damaged.mdb")
    with lmdb.open(path, subdir=False, lock=False) as database, database.begin(write=True) as transaction:
        for k in range(100):
            transaction.put(f"{k:05}".encode(), b"value %d" % k * 20)
    return path


def _hdf5(folder: Path) -> str:
    import h5py

    with h5py.File(folder / "damaged.h5", "w") as file:
        file["x"], file["y"] = np.arange(600).reshape(100, 6), np.arange(100)
    return str(folder / "damaged.h5")


def _index(folder: Path) -> str:
    path = written("tfrecord")(folder)
    lk.TFRecordDataSource(path).close()
    (index,) = folder.glob("*.lkx")
    return str(index.rename(folder / "damaged.lkx"))


def _card(folder: Path) -> str:
    splits = {"train": [{"label": k} for k in range(9)]}
    return str(
        Path(lk.write_dataset(splits, "damaged:1.0.0", format="arrow", data_dir=folder), "dataset.json")
    )


LENGTHS = np.array([len(each["tokens"]) for each in DOCUMENTS])


def _plan(folder: Path) -> str:
    path = str(folder / "damaged.plan")
    lk.plan_packing(LENGTHS, 16, path, block=8)
    return path


def _rows_of_plan(path: str) -> Any:
    tokens = lk.TokenDataSource(
        np.concatenate([each["tokens"] for each in DOCUMENTS]), np.cumsum([0, *LENGTHS])
    )
    return lk.PackedDataSource(tokens, lk.plan_packing(LENGTHS, 16, path, block=8))


def _measured(folder: Path) -> str:
    path = str(folder / "damaged.npy")
    lk.measure(list(range(300)), int, path)
    return path


KINDS = {
    "array_record": Kind(written("array_record"), lk.ArrayRecordDataSource, "array_record", sees=True),
    "arrow": Kind(written("arrow"), lk.ArrowDataSource, "pyarrow"),
    "card": Kind(_card, lambda path: lk.open(Path(path).parent, "train"), "pyarrow", sees=True),
    "csv": Kind(
        lambda folder: _text(folder, "damaged.csv", "a,b\n" + "".join(f'{k},"t {k}"\n' for k in range(100))),
        lk.CsvDataSource,
    ),
    "hdf5": Kind(_hdf5, lambda path: lk.ArraysDataSource(path, 0), "h5py"),
    "index": Kind(
        _index,
        lambda path: lk.TFRecordDataSource(Path(path).with_suffix(".tfrecord"), index=path),
        sees=True,
    ),
    "jsonl": Kind(written("jsonl", [{"a": k, "b": f"t{k}"} for k in range(60)]), lk.JsonLinesDataSource),
    "lmdb": Kind(_lmdb, lk.LmdbDataSource, "lmdb"),
    "measured": Kind(_measured, lk.read_array, sees=True),
    "megatron": Kind(_megatron, lk.TokenDataSource.from_megatron, sees=True),
    "npy": Kind(_npy, lambda path: lk.TokenDataSource(path, np.arange(0, 3001, 30))),
    "parquet": Kind(written("parquet"), lk.ParquetDataSource, "pyarrow"),
    "plan": Kind(_plan, _rows_of_plan, sees=True),
    "tar": Kind(written("tar"), lk.TarDataSource),
    "text": Kind(
        lambda folder: _text(folder, "damaged.txt", "".join(f"line {k}\n" for k in range(100))),
        lk.LinesDataSource,
    ),
    "tfrecord": Kind(written("tfrecord"), lk.TFRecordDataSource, "google_crc32c", sees=True),
    "tokens": Kind(written("tokens", DOCUMENTS), lk.TokenDataSource, sees=True),
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
        self._read = kind.read
        self.path = Path(kind.write(folder))
        self.data = self.path.read_bytes()
        self._good = values(kind.read(str(self.path)))

    def outcome(self, data: bytes) -> str:
        """ "same", "other" records, or "error", which is ours and names the file."""
        self.path.write_bytes(data)
        for index in self.path.parent.glob("*.tfrecord.lkx"):
            index.unlink()
        try:
            return "same" if values(self._read(str(self.path))) == self._good else "other"
        except (lk.LoaderkitError, ValueError) as error:
            # A record that can't be decoded is a ValueError, and so is a data set in which nothing is found any more.
            text = str(error)
            ours = isinstance(error, lk.LoaderkitError) or text.startswith(
                (str(self.path), "path: expected one")
            )
            if not ours or self.path.stem not in str(error):
                raise
            return "error"

    def flipped(self, place: int) -> bytes:
        """Its bytes with one bit of this one flipped."""
        bit = 1 << random.Random(place).randrange(8)
        return self.data[:place] + bytes([self.data[place] ^ bit]) + self.data[place + 1 :]


def main(name: str) -> None:
    """Prints what became of each of the first bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = DamagedFile(KINDS[name], Path(folder))
        places = range(min(HEAD, len(file.data)))
        print(dict(Counter(file.outcome(file.flipped(place)) for place in places)))


if __name__ == "__main__":
    main(sys.argv[1])
