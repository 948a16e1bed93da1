"""Words, bytes or integers as their numbers in a vocabulary."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .feature import Feature, stats_of
from .hashing import hash_column


@dataclass(frozen=True)
class Vocabulary(Feature):
    """A column of words as int64: term i is i, others come behind all terms, in `oov_buckets` by their hash.

    As TensorFlow's categorical_column_with_vocabulary_list and _file. bytes are taken as UTF-8.

    Args:
        key: of the column.
        output: of the new column, the same unless given.
        terms: distinct words or integers in order, or the path of a file with a word a line.
        oov_buckets: of words that aren't terms, 0 or more; with 0 they are `default`.
        default: see oov_buckets; None makes such a word a ValueError.

    >>> import numpy as np
    >>> Vocabulary("pet", terms=("cat", "dog")).map({"pet": np.array(["dog", "cow", "cat"])})
    {'pet': array([1, 2, 0])}
    >>> Vocabulary("pet", terms=("cat", "dog"), oov_buckets=0, default=-1).map({"pet": b"cow"})
    {'pet': np.int64(-1)}
    """

    terms: Sequence[Any] | str | os.PathLike[str] = ()
    oov_buckets: int = 1
    default: int | None = None

    def __post_init__(self) -> None:
        terms: Any = self.terms
        if isinstance(terms, str | os.PathLike):
            with open(terms, encoding="utf-8") as file:
                terms = [line.rstrip("\r\n") for line in file]
        terms = tuple(term.decode() if isinstance(term, bytes) else term for term in terms)
        kinds = {type(term) for term in terms}
        if not terms or len(kinds) != 1 or not kinds <= {str, int}:
            raise ValueError(f"terms: expected words, or integers, one or more, got {terms!r:.80}")
        if len(set(terms)) < len(terms):
            twice = next(term for place, term in enumerate(terms) if term in terms[:place])
            raise ValueError(f"terms: expected each once, got {twice!r} twice")
        if self.oov_buckets < 0:
            raise ValueError(f"oov_buckets: expected 0 or more, got {self.oov_buckets}")
        object.__setattr__(self, "terms", terms)
        array = np.array(terms)
        order = np.argsort(array, kind="stable")
        object.__setattr__(self, "_sorted", array[order])
        object.__setattr__(self, "_order", order.astype(np.int64))

    @classmethod
    def from_stats(cls, stats: str | os.PathLike[str] | Mapping[str, Any], key: str, **changes: Any) -> Self:
        """With the vocabulary of a column, the most frequent first, as `loaderkit stats --vocabulary N` wrote it."""
        found = stats_of(stats, key, "vocabulary")
        return cls(key, terms=tuple(term for term, _ in found["vocabulary"]), **changes)

    def __len__(self) -> int:
        return len(self.terms) + self.oov_buckets  # type: ignore[arg-type]  # a path was read

    def column(self, values: np.ndarray) -> np.ndarray:
        """(n, ...) int64."""
        known: np.ndarray = self._sorted  # type: ignore[attr-defined]
        words = _as_words(values, known.dtype.kind, self)
        distinct, inverse = np.unique(words, return_inverse=True)
        places = np.minimum(np.searchsorted(known, distinct), len(known) - 1)
        numbers = self._order[places]  # type: ignore[attr-defined]
        others = known[places] != distinct
        if others.any():
            numbers = np.where(others, self._of_others(distinct, others), numbers)
        return numbers[inverse].reshape(values.shape)  # type: ignore[no-any-return]

    def _of_others(self, distinct: np.ndarray, others: np.ndarray) -> Any:
        if self.oov_buckets:
            return len(self.terms) + hash_column(distinct, self.oov_buckets)  # type: ignore[arg-type]
        if self.default is None:
            raise ValueError(
                f"{self.key}: expected one of {len(self.terms):,} terms, got "  # type: ignore[arg-type]
                f"{distinct[others][0]!r}; give oov_buckets= or default="
            )
        return self.default


def _as_words(values: np.ndarray, kind: str, feature: Any) -> np.ndarray:
    if kind == "i":
        if values.dtype.kind not in "iu":
            raise ValueError(f"{feature.key}: expected integers, as the terms are, got {values.dtype}")
        return values
    if values.dtype.kind == "U":
        return values
    if values.dtype.kind in "SO":
        texts = [word.decode() if isinstance(word, bytes) else word for word in values.ravel().tolist()]
        if all(isinstance(word, str) for word in texts):
            return np.array(texts, dtype=np.str_).reshape(values.shape)
    raise ValueError(f"{feature.key}: expected words, as the terms are, got {values.dtype}")
