"""The sources of the grammar: each is made for a loader, and said as a list of records."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from packing_twins import naive_rows

import loaderkit as lk

FOLDER: list[Path] = []  # of files, while the tests run
SERVER: list[Any] = []  # of that folder
WRITTEN = {
    "array_record": lk.ArrayRecordDataSource,
    "tfrecord": lk.TFRecordDataSource,
    "tar": lk.TarDataSource,
    "parquet": lk.ParquetDataSource,
    "arrow": lk.formats.ArrowDataSource,
    "jsonl": lk.JsonLinesDataSource,
}
ROW = 6  # tokens of a packed row
LONGEST = 7  # tokens of a document


@dataclass(frozen=True)
class Source:
    """A word, how many records its data has, a number, and what it wraps."""

    word: str
    count: int
    by: int = 1
    inner: "Source | None" = None

    @property
    def records(self) -> list[Any]:
        """All records, by a plain loop."""
        if self.inner is None:
            return [RECORDS[self.word](key) for key in range(self.count)]
        return WRAPPED[self.word](self.inner.records, self.by)

    def make(self) -> Any:
        """The source, as a user writes it."""
        if self.inner is None:
            return SOURCES[self.word](self.count)
        if self.word == "cached":
            return lk.CachedDataSource(
                self.inner.make(), FOLDER[0] / f"cache-{crc32(repr(self.inner).encode())}"
            )
        return WRAPPERS[self.word](self.inner.make(), self.by)


def _dict(key: int) -> Any:
    return {"x": np.arange(3, dtype=np.float32) + key, "key": key}


def _columns(count: int) -> Any:
    return {
        "x": np.array([_dict(key)["x"] for key in range(count)]).reshape(-1, 3),
        "key": np.arange(count, dtype=np.int32),
    }


def _tokens(key: int) -> Any:
    return np.arange(key * key % 7 + key % 2, dtype=np.int32) + 10 * key + 1


def _line(key: int) -> str:
    return "é" * (key % 3) + str(key)


def _bytes(key: int) -> bytes:
    return _line(key).encode()


RECORDS: dict[str, Callable[[int], Any]] = {
    **dict.fromkeys((*WRITTEN, "lmdb"), _dict),
    "numbers": lambda key: key,
    "dicts": _dict,
    "mixed": lambda key: (key / 2, "abc"[: key % 3], b"\0" * (key % 2), [np.int16(key % 100)]),
    "memory": _dict,
    "columns": lambda key: {name: column[key] for name, column in _columns(key + 1).items()},
    "range": lambda key: key,
    "arrays": lambda key: {name: column[key] for name, column in _columns(key + 1).items()},
    "table": lambda key: {"text": _line(key), "n": np.int64(key)},
    "grouped": lambda key: {"by": np.int64(key), "x": np.full(1 + key % 3 // 2, key / 2)},
    "lines": _line,
    "served": _line,
    "kept": _line,
    "csv": lambda key: {"id": str(key), "text": _line(key)},
    "typed": lambda key: {"id": np.int64(key), "text": _line(key)},
    "files": lambda key: {"name": f"{key:02}.bin", "file": _bytes(key)},
    "joined": lambda key: {"name": f"{key:02}.bin", "n": np.int64(key), "file": _bytes(key)},
    "folder": lambda key: {"image": _bytes(key), "label": key // 12},
    "tokens": lambda key: {"tokens": _tokens(key)},
}


@cache
def _file(word: str, count: int) -> Path:
    path = FOLDER[0] / f"{word}-{count}.{word}"
    if word in WRITTEN:
        lk.write([RECORDS[word](key) for key in range(count)], path)
    elif word == "csv":
        path.write_text("id,text\n" + "".join(f"{key},{_line(key)}\n" for key in range(count)))
    elif word == "lmdb":
        import lmdb

        from loaderkit._codecs.record_codec import encode_record

        with lmdb.open(str(path)) as env, env.begin(write=True) as transaction:
            for key in range(count):
                transaction.put(b"%02d" % key, encode_record(_dict(key)))
    elif word == "lines":
        path.write_text("".join(_line(key) + "\n" for key in range(count)))
        len(lk.formats.LinesDataSource(path))  # makes its index
    else:
        for key in range(count):
            name = path / f"{'ab'[key // 12] if word == 'folder' else '.'}/{key:02}.bin"
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_bytes(_bytes(key))
    return path


def _served(count: int) -> str:
    return SERVER[0].url(_file("lines", count).name)


def _names(count: int) -> list[str]:
    return [f"{key:02}.bin" for key in range(count)]


def _grouped(count: int) -> Any:
    rows = [key for key in range(count) for _ in range(1 + key % 3 // 2)]
    return lk.formats.GroupedRowsDataSource({"by": np.array(rows), "x": np.array(rows) / 2}, "by")


def _token_source(count: int) -> Any:
    """In an array, or in three files of a folder."""
    parts = [_tokens(key) for key in range(count)]
    if count % 2:
        return lk.TokenDataSource(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))
    return lk.TokenDataSource(_token_folder(count))


@cache
def _token_folder(count: int) -> Path:
    folder = FOLDER[0] / f"tokens-{count}"
    lk.write(
        [{"tokens": _tokens(key)} for key in range(count)], folder, format="tokens", shards=min(3, count)
    )
    return folder


def _written(word: str, count: int) -> Any:
    return WRITTEN[word](_file(word, count))


def _table(count: int) -> Any:
    import pyarrow  # here: worker processes import this file, and need it not

    return lk.formats.TableDataSource(pyarrow.table({"text": [*map(_line, range(count))], "n": range(count)}))


SOURCES: dict[str, Callable[[int], Any]] = {
    **{word: partial(_written, word) for word in WRITTEN},
    "lmdb": lambda count: lk.formats.LmdbDataSource(_file("lmdb", count)),
    "arrays": lambda count: lk.formats.ArrayFileDataSource(lambda: _columns(count), 0),
    "table": _table,
    "grouped": _grouped,
    "served": lambda count: lk.formats.LinesDataSource(_served(count)),
    "kept": lambda count: lk.formats.LinesDataSource(
        _served(count), cache=lk.Cache(FOLDER[0] / "chunks", "1MB")
    ),
    "csv": lambda count: lk.formats.CsvDataSource(_file("csv", count)),
    "typed": lambda count: lk.formats.CsvDataSource(_file("csv", count), types={"id": int}),
    "files": lambda count: lk.formats.FilesDataSource(
        [_file("files", count) / name for name in _names(count)]
    ),
    "joined": lambda count: lk.formats.JoinedFilesDataSource(
        {"name": _names(count), "n": np.arange(count)}, "name", _file("files", count)
    ),
    "folder": lambda count: lk.FolderDataSource(_file("folder", count), extensions=None),
    "numbers": lambda count: [*range(count)],
    "dicts": lambda count: [*map(_dict, range(count))],
    "mixed": lambda count: [*map(RECORDS["mixed"], range(count))],
    "memory": lambda count: lk.InMemoryDataSource(map(_dict, range(count))),
    "columns": lambda count: lk.ArrayDataSource(_columns(count)),
    "range": lambda count: lk.RangeDataSource(0, count, 1),
    "lines": lambda count: lk.formats.LinesDataSource(_file("lines", count)),
    "tokens": _token_source,
}


def _chosen(count: int, by: int) -> list[int]:
    return [(by * k + k * k) % count for k in range(max(1, count - by))]


def _doubled(record: Any) -> Any:
    return {"again": record, "it": record}


def wider(record: Any) -> Any:
    """With an array of another dtype."""
    return {**record, "x": np.asarray(record["x"], np.float64)}


def _windows(records: list[Any], by: int) -> list[Any]:
    """Windows of `by` + 1 records, two apart in each, one begun at every second record."""
    firsts = range(0, len(records) - 2 * by, 2)
    return [stack([records[first + 2 * k] for k in range(by + 1)]) for first in firsts]


def stack(rows: list[Any]) -> Any:
    if isinstance(rows[0], dict):
        return {name: stack([row[name] for row in rows]) for name in rows[0]}
    return np.stack(rows)


def packed(records: list[Any], by: int) -> list[Any]:
    """Rows of tokens, of all documents at once; in the order of the plan, which is shuffled."""
    documents = [record["tokens"] for record in records]
    lengths, how = [*map(len, documents)], HOW[by % 3]
    naive = {tuple(sorted(pieces)): pieces for pieces in naive_rows(lengths, ROW, how, "split")}
    plan = lk.plan_packing(np.array(lengths), ROW, how=how)
    assert len(plan) == len(naive)
    rows = []
    for number in range(len(plan)):
        of = plan.rows([number])
        found = zip(of.documents.tolist(), of.starts.tolist(), of.lengths.tolist(), strict=True)
        rows.append(
            laid_out([documents[d][start : start + n] for d, start, n in naive[tuple(sorted(found))]])
        )
    return rows


def laid_out(parts: list[Any]) -> Any:
    """A packed row of the pieces of documents."""
    pad = [0] * (ROW - sum(map(len, parts)))
    leaves = {
        "tokens": [token for part in parts for token in part] + pad,
        "tokens_segment_ids": [k + 1 for k, part in enumerate(parts) for _ in part] + pad,
        "tokens_positions": [place for part in parts for place in range(len(part))] + pad,
    }
    return {name: np.array(leaf, np.int32) for name, leaf in leaves.items()}


HOW = ("best_fit", "first_fit", "concat_then_split")


def _plan(source: Any, by: int) -> Any:
    lengths = np.array([len(source[key]["tokens"]) for key in range(len(source))])
    return lk.PackedDataSource(source, lk.plan_packing(lengths, ROW, how=HOW[by % 3]))


WRAPPERS: dict[str, Callable[[Any, int], Any]] = {
    "subset": lambda source, by: lk.SubsetDataSource(source, _chosen(len(source), by)),
    "sliced": lambda source, by: source[::-by],
    "concat": lambda source, by: lk.ConcatDataSource([source] * by),
    "mapped": lambda source, by: lk.MapDataSource(source, _doubled),
    "zipped": lambda source, by: lk.ZipDataSource({"one": source, "other": source}),
    "windows": lambda source, by: lk.sources.WindowDataSource(source, by + 1, shift=2, stride=2),
    "packed": _plan,
    "unlike": lambda source, by: lk.ConcatDataSource({"one": source, "two": lk.MapDataSource(source, wider)}),
}
WRAPPED: dict[str, Callable[[list[Any], int], list[Any]]] = {
    "subset": lambda records, by: [records[key] for key in _chosen(len(records), by)],
    "sliced": lambda records, by: records[::-by],
    "concat": lambda records, by: records * by,
    "mapped": lambda records, by: [*map(_doubled, records)],
    "zipped": lambda records, by: [{"one": record, "other": record} for record in records],
    "cached": lambda records, by: records,
    "windows": _windows,
    "packed": packed,
    "unlike": lambda records, by: [*records, *map(wider, records)],
}
