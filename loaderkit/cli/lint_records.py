"""Rules about records: whether they can be read and decoded, have the same fields, and are shuffled by label."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit.transforms.decode import ByExtension

from .cards import LABELS
from .findings import Finding, finding
from .image_header import image_header
from .lint_shards import fields_finding
from .open_source import OpenedSource
from .read_each import read_each
from .values import fields_of

# In a shuffled set the number of equal neighbours is this many standard deviations above its mean by chance in one set
# of 10^9.
DEVIATIONS = 6.0
# A lesser excess harms no training, however sure it is in a large set.
LEAST_EXCESS = 0.05
FEWEST_PAIRS = 32
CHUNK = 64  # records: 1 MiB of 16 KiB each, what a chunk of lk.ChunkSampler may have
STRETCHES, STRETCH = 16, CHUNK  # neighbouring records are read, as labels are compared with their neighbours'


def sampled_stretches(records: int) -> NDArray[np.int64]:
    """(n,) int64: the keys of 16 stretches of 64 neighbours, at equal distances; all keys of a small set.

    >>> sampled_stretches(10).tolist(), len(sampled_stretches(10**9))
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 1024)
    """
    if records <= STRETCHES * STRETCH:
        return np.arange(records)
    begins = np.linspace(0, records - STRETCH, STRETCHES).astype(np.int64) // STRETCH * STRETCH
    return np.unique(begins[:, None] + np.arange(STRETCH))


@dataclass(frozen=True, slots=True)
class LabelRuns:
    """How often neighbours have the same label.

    pairs: of neighbours. equal: the pairs with one label. expected: the share of equal pairs in a shuffled set with
    these labels. pure: the share of chunks of 64 records with one label only.
    """

    pairs: int
    equal: int
    expected: float
    pure: float

    @property
    def share(self) -> float:
        """Of the pairs with one label."""
        return self.equal / self.pairs if self.pairs else 0.0

    @property
    def deviations(self) -> float:
        """How many standard deviations the number of equal pairs is above its mean in a shuffled set."""
        spread = (self.pairs * self.expected * (1 - self.expected)) ** 0.5
        return float((self.equal - self.pairs * self.expected) / max(spread, 1e-9))

    @property
    def unshuffled(self) -> bool:
        """Whether chance is excluded and the excess is worth a word."""
        return (
            self.pairs >= FEWEST_PAIRS
            and self.deviations > DEVIATIONS
            and self.share > self.expected + LEAST_EXCESS
        )


def label_runs(labels: NDArray[np.int64], keys: NDArray[np.int64]) -> LabelRuns:
    """Counts equal neighbours: records with keys that follow each other.

    labels: (n,) numbers of the labels, -1 for a record without one. keys: (n,) of the records, rising.

    >>> label_runs(np.array([0, 0, 0, 1, 1, 1]), np.arange(6))
    LabelRuns(pairs=5, equal=4, expected=0.4, pure=0.0)
    >>> label_runs(np.repeat([0, 1], CHUNK), np.arange(2 * CHUNK)).pure
    1.0
    """
    labels, keys = labels[labels >= 0], keys[labels >= 0]
    neighbours = np.diff(keys) == 1
    equal = (np.diff(labels) == 0) & neighbours
    counts = np.bincount(labels) if len(labels) else np.zeros(0, np.int64)
    n = len(labels)
    expected = float((counts * (counts - 1)).sum() / (n * (n - 1))) if n > 1 else 0.0
    chunks = np.split(labels, np.flatnonzero(np.diff(keys // CHUNK)) + 1)
    pure = [bool((chunk == chunk[0]).all()) for chunk in chunks if len(chunk) > 1]
    return LabelRuns(int(neighbours.sum()), int(equal.sum()), expected, float(np.mean(pure)) if pure else 0.0)


class RecordLint:
    """Looks at records, one after the other.

    opened: their source. label: the field of the labels, None to take the one that looks like it.
    """

    def __init__(self, opened: OpenedSource, label: str | None) -> None:
        self._opened, self._label = opened, label
        self._decode = _decoder()
        self._fields: Counter[frozenset[str]] = Counter()
        self._first: dict[frozenset[str], int] = {}
        self._first_with: dict[Any, int] = {}
        self._duplicates: list[tuple[int, int]] = []
        self._label_numbers: dict[Any, int] = {}
        self._labels: list[int] = []
        self._keys: list[int] = []

    def findings(self, keys: NDArray[np.int64], advance: Callable[[int], None]) -> Iterator[Finding]:
        """The findings about the records with these keys, (n,) rising."""
        for key, record in read_each(self._opened, keys, advance):
            if isinstance(record, Exception):
                yield finding("unreadable", self._opened.location(key), str(record))
                continue
            fields = fields_of(record)
            yield from self._undecodable(key, fields)
            self._note(key, fields)
        yield from self._differing()
        yield from self._repeated()
        yield from self._unshuffled()

    def _undecodable(self, key: int, fields: dict[str, Any]) -> Iterator[Finding]:
        for name, value in fields.items():
            if not isinstance(value, bytes | bytearray | memoryview):
                continue
            header = image_header(bytes(value[:64]))
            # An image is decoded by its first bytes where its name doesn't say what it is.
            shown = f"{name}.{header.format.lower()}" if header and self._opened.format != "tar" else name
            try:
                self._decode.map({shown: value})
            except ValueError as error:
                problem = str(error).partition(": ")[2]
                yield finding("undecodable", self._opened.location(key), f"field {name}: {problem}")

    def _note(self, key: int, fields: dict[str, Any]) -> None:
        names = frozenset(fields)
        self._fields[names] += 1
        self._first.setdefault(names, key)
        if (name := fields.get("__key__")) is not None and (
            first := self._first_with.setdefault(name, key)
        ) != key:
            self._duplicates.append((first, key))
        if self._label is None:
            self._label = next((name for name in LABELS if name in fields), None)
        label = fields.get(self._label) if self._label is not None else None
        if isinstance(label, np.ndarray):
            label = label.tobytes()
        if isinstance(label, bytes | str | int | float | bool | np.generic):
            self._labels.append(self._label_numbers.setdefault(label, len(self._label_numbers)))
            self._keys.append(key)

    def _differing(self) -> Iterator[Finding]:
        index = self._opened.index
        if len(self._fields) < 2 or (index is not None and index.has_members):
            return  # the index says it of all records
        ((usual, _),) = self._fields.most_common(1)
        for names, count in self._fields.items():
            if names != usual:
                yield fields_finding(self._opened.location(self._first[names]), count, set(names), set(usual))

    def _repeated(self) -> Iterator[Finding]:
        if self._duplicates:
            first, again = self._duplicates[0]
            count = len(self._duplicates)
            more = f"; so is that of {count - 1:,} more records that were read" if count > 1 else ""
            problem = f"its key is that of {self._opened.location(first)}{more}"
            yield finding("duplicate-key", self._opened.location(again), problem)

    def _unshuffled(self) -> Iterator[Finding]:
        runs = label_runs(np.array(self._labels, np.int64), np.array(self._keys, np.int64))
        if runs.unshuffled:
            yield finding("unshuffled-labels", f"field {self._label}", runs_text(runs))


def runs_text(runs: LabelRuns) -> str:
    """What is said of labels that aren't shuffled.

    >>> runs_text(LabelRuns(100, 98, 0.1, 1.0))
    '98% of neighbouring records have the same label, 10% in a shuffled set; 100% of chunks of 64 have one label only'
    """
    pure = f"; {runs.pure:.0%} of chunks of {CHUNK} have one label only" if runs.pure else ""
    return f"{runs.share:.0%} of neighbouring records have the same label, {runs.expected:.0%} in a shuffled set{pure}"


def _decoder() -> ByExtension:
    try:
        return ByExtension(image="rgb8")
    except ImportError:  # images are left out without OpenCV
        return ByExtension()
