"""Categories as ids by a list of the values."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any, Self

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit.transforms.leaf import Place

from .column_map import ColumnMap, id_dtype
from .hashing import hash64
from .stats_file import StatsFile, column_stats
from .vocabulary_table import VocabularyTable


@dataclass(frozen=True)
class Vocabulary(ColumnMap):
    """The id of each value: its place in a vocabulary; others get ids behind it, by a hash.

    Args:
        key, output: of the leaf, and of the ids where the leaf stays.
        vocabulary: different texts or bytes, or integers; or the path of a file with a text a line, in UTF-8. Str and
            bytes of one text are the same value.
        num_oov_buckets: ids for values that aren't in it (out of vocabulary), behind those of the vocabulary; with
            more than one, Hashed's hash chooses.
        default_value: without oov buckets, the id of such values, such as -1; without it they are a ValueError.
        dtype: of the ids, a signed integer type.

    None in a single record is such a value.

    >>> colour = Vocabulary("colour", ["red", "green", "blue"])
    >>> colour.map({"colour": np.array(["blue", "pink", "red"])}), colour.num_buckets
    ({'colour': array([2, 3, 0], dtype=int32)}, 4)
    >>> Vocabulary("zip", [10115, 80331], num_oov_buckets=0).map({"zip": 99999})
    Traceback (most recent call last):
    ValueError: leaf 'zip': expected a value of the vocabulary, got 99999; give num_oov_buckets=1 or default_value=
    """

    vocabulary: Any
    num_oov_buckets: int = field(default=1, kw_only=True)
    default_value: int | None = field(default=None, kw_only=True)
    dtype: Any = field(default="int32", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(vocabulary=_table(self.vocabulary))
        self._set(num_oov_buckets=at_least("num_oov_buckets", self.num_oov_buckets, 0))
        if self.default_value is not None:
            if self.num_oov_buckets:
                raise ValueError(
                    f"default_value: expected none beside num_oov_buckets, got {_short(self.default_value)}; "
                    "write num_oov_buckets=0"
                )
            self._set(default_value=at_least("default_value", self.default_value, -1))
        self._set(dtype=id_dtype(self.dtype, max(self.num_buckets, (self.default_value or 0) + 1)))

    @property
    def num_buckets(self) -> int:
        """How many ids there are, those of values that aren't in the vocabulary included."""
        return len(self.vocabulary) + self.num_oov_buckets

    @classmethod
    def from_stats(
        cls, stats: StatsFile, key: Place, *, size: int | None = None, least: int = 1, **others: Any
    ) -> Self:
        """With the values that `loaderkit inspect --values` counted, the most frequent first.

        Args:
            stats: the file, or what lk.offline.column_stats gives.
            size: of the vocabulary, at most; None for all that were counted.
            least: leaves out values that occur less often.
            key, others: as Vocabulary takes them.

        >>> stats = {
        ...     "columns": {"city": {"kind": "text", "vocabulary": [["Ulm", 7], ["Kiel", 2], ["Jena", 1]]}}
        ... }
        >>> Vocabulary.from_stats(stats, "city", least=2).map({"city": "Kiel"})
        {'city': np.int32(1)}
        """
        counted = column_stats(stats, key, "vocabulary")["vocabulary"]
        values = [value for value, count in counted if count >= at_least("least", least, 1)]
        return cls(key, values if size is None else values[: at_least("size", size, 1)], **others)

    def of(self, leaf: Any) -> Any:
        """The ids."""
        known = len(self.vocabulary)
        if not self.num_oov_buckets:
            unknown = -2 if self.default_value is None else self.default_value
            ids = self.vocabulary.ids(self.key, leaf, unknown)
            if self.default_value is None and (ids == unknown).any():
                value = np.asarray(leaf, object)[ids == unknown].flat[0]
                raise ValueError(
                    f"leaf {self.key!r}: expected a value of the vocabulary, got {_short(value)}; give "
                    "num_oov_buckets=1 or default_value="
                )
        else:
            ids = self.vocabulary.ids(self.key, leaf, known)
            unknown_places = ids == known
            if self.num_oov_buckets > 1 and unknown_places.any():
                others = hash64(self.key, np.asarray(leaf, object)[unknown_places]) % np.uint64(
                    self.num_oov_buckets
                )
                ids[unknown_places] += others.astype(np.int64)
        return ids.astype(self.dtype)[()]


def _table(vocabulary: Any) -> VocabularyTable:
    if isinstance(vocabulary, VocabularyTable):
        return vocabulary
    if isinstance(vocabulary, str | os.PathLike):
        with open(vocabulary, encoding="utf-8", newline="\n") as file:
            return VocabularyTable.of(
                f"vocabulary: {os.fspath(vocabulary)}", [line.rstrip("\r\n") for line in file]
            )
    if isinstance(vocabulary, bytes) or not isinstance(vocabulary, Sequence | np.ndarray):
        raise TypeError(
            f"vocabulary: expected a list of values or the path of a file, got {_short(vocabulary)}"
        )
    return VocabularyTable.of("vocabulary", vocabulary)  # type: ignore[arg-type]
