"""The sources of the grammar: each is made for a loader, and said as a list of records."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from packing_twins import naive_rows

import loaderkit as lk

FOLDER: list[Path] = []  # of files, while the tests run
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


RECORDS: dict[str, Callable[[int], Any]] = {
    "numbers": lambda key: key,
    "dicts": _dict,
    "mixed": lambda key: (key / 2, "abc"[: key % 3], b"\0" * (key % 2), [np.int16(key % 100)]),
    "memory": _dict,
    "columns": lambda key: {name: column[key] for name, column in _columns(key + 1).items()},
    "range": lambda key: key,
    "lines": _line,
    "tar": _dict,
    "tokens": lambda key: {"tokens": _tokens(key)},
}


@cache
def _file(word: str, count: int) -> Path:
    path = FOLDER[0] / f"{word}-{count}.{'txt' if word == 'lines' else word}"
    if word == "lines":
        path.write_text("".join(_line(key) + "\n" for key in range(count)))
    else:
        lk.write([RECORDS[word](key) for key in range(count)], path, format=word)
    return path


def _token_source(count: int) -> Any:
    parts = [_tokens(key) for key in range(count)]
    return lk.TokenDataSource(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))


SOURCES: dict[str, Callable[[int], Any]] = {
    "numbers": lambda count: [*range(count)],
    "dicts": lambda count: [*map(_dict, range(count))],
    "mixed": lambda count: [*map(RECORDS["mixed"], range(count))],
    "memory": lambda count: lk.InMemoryDataSource(map(_dict, range(count))),
    "columns": lambda count: lk.ArrayDataSource(_columns(count)),
    "range": lambda count: lk.RangeDataSource(0, count, 1),
    "lines": lambda count: lk.LinesDataSource(_file("lines", count)),
    "tar": lambda count: lk.TarDataSource(_file("tar", count)),
    "tokens": _token_source,
}


def _chosen(count: int, by: int) -> list[int]:
    return [(by * k + k * k) % count for k in range(max(1, count - by))]


def _doubled(record: Any) -> Any:
    return {"again": record, "it": record}


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
    "concat": lambda source, by: lk.ConcatDataSource([source] * by),
    "mapped": lambda source, by: lk.MapDataSource(source, _doubled),
    "zipped": lambda source, by: lk.ZipDataSource({"one": source, "other": source}),
    "windows": lambda source, by: lk.WindowDataSource(source, by + 1, shift=2, stride=2),
    "packed": _plan,
}
WRAPPED: dict[str, Callable[[list[Any], int], list[Any]]] = {
    "subset": lambda records, by: [records[key] for key in _chosen(len(records), by)],
    "concat": lambda records, by: records * by,
    "mapped": lambda records, by: [*map(_doubled, records)],
    "zipped": lambda records, by: [{"one": record, "other": record} for record in records],
    "cached": lambda records, by: records,
    "windows": _windows,
    "packed": packed,
}
