"""A source in random parts of exact sizes: for training and validation, and for k-fold cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit._order.apportion import largest_remainder, nearest_sum, shared_out
from loaderkit._order.mixing import component_seed
from loaderkit._order.permutation import Int64Array, Permutation
from loaderkit._source.record_key import short_repr

from .checked import require_methods
from .labels import checked_labels
from .subset import SubsetDataSource

_NUMBERS = (int, float, Fraction, np.integer, np.floating)
_ROUNDING = Fraction(1, 10**9)  # of fractions that are floats


@refusing_foreign_arguments
def random_split(
    source: Any,
    sizes: Sequence[float],
    *,
    seed: int,
    stratify: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
) -> list[SubsetDataSource]:
    """A source in parts of random records: no record in two of them, each in one.

    A part has its records in the order of the source, so that it is read by chunks as the source is; a loader shuffles
    it. It keeps 8 bytes a record, in memory that workers share.

    Args:
        source: any data source.
        sizes: of the parts: fractions of sum 1, of which the largest remainders are rounded up, or numbers of records
            that are `len(source)` together. ValueError for others, and where a part would get no record.
        seed: int in [0, 2**64). It says which records a part has; the same source, sizes and seed give the same parts.
        stratify: (records,) ints or strings, the class of each record: each part has its share of each class to within
            one record.
        groups: (records,) ints or strings, such as a patient or a speaker: all records of a group are in one part.
            Part by part the size is the nearest that whole groups reach. Not together with `stratify`.

    >>> import loaderkit as lk
    >>> train, valid = random_split("abcdefghij", [0.8, 0.2], seed=0)
    >>> "".join(train), "".join(valid)
    ('bcdefgij', 'ah')
    >>> labels = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    >>> ["".join(part) for part in random_split("abcdefghij", [6, 4], seed=0, stratify=labels)]
    ['bcegij', 'adfh']
    """
    source = require_methods(source, argument="source")
    return [SubsetDataSource(source, keys) for keys in _parts(source, sizes, seed, stratify, groups)]


@refusing_foreign_arguments
def k_fold(
    source: Any,
    folds: int,
    *,
    seed: int,
    stratify: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
) -> list[tuple[SubsetDataSource, SubsetDataSource]]:
    """Pairs of training and validation records, one for each fold: each record is validated once.

    Args:
        source: any data source.
        folds: how many, 2 or more. ValueError for more than there are records, or groups.
        seed, stratify, groups: as `random_split` has them.

    >>> import loaderkit as lk
    >>> [(len(train), "".join(valid)) for train, valid in k_fold("abcdefg", 3, seed=0)]
    [(4, 'beg'), (5, 'cf'), (5, 'ad')]
    """
    count = at_least("folds", folds, 2)
    source = require_methods(source, argument="source")
    parts = _parts(source, [Fraction(1, count)] * count, seed, stratify, groups)
    everything = np.arange(len(source))
    return [
        (SubsetDataSource(source, np.delete(everything, keys)), SubsetDataSource(source, keys))
        for keys in parts
    ]


def _checked_shares(sizes: Any, source: Any) -> list[Fraction]:
    if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray) or not len(sizes):
        raise TypeError(
            f"sizes: expected fractions or numbers of records, got {_short(sizes)}; write [0.8, 0.2]"
        )
    given: list[Fraction] = []
    for place, size in enumerate(sizes):
        if isinstance(size, bool | np.bool_) or not isinstance(size, _NUMBERS) or not 0 < size < np.inf:
            raise ValueError(
                f"sizes[{place}]: expected a number above 0, got {_short(size)}; write [0.8, 0.2]"
            )
        given.append(Fraction(size) if isinstance(size, Fraction) else Fraction(str(size)))
    together = sum(given, Fraction())
    if all(isinstance(size, int | np.integer) for size in sizes):
        if together != len(source):
            raise ValueError(
                f"sizes: expected numbers of records that are {len(source)} together, as {short_repr(source)} has, got "
                f"{_short(list(sizes))} of sum {together}; for the rest give one part more"
            )
    elif not 1 - _ROUNDING < together < 1 + _ROUNDING:
        raise ValueError(
            f"sizes: expected fractions of sum 1, got {_short(list(sizes))} of sum {float(together):.6g}; for the rest "
            "give one part more"
        )
    return [size / together for size in given]


def _parts(source: Any, sizes: Any, seed: int, stratify: Any, groups: Any) -> list[Int64Array]:
    """The record keys of each part, ascending, one or more."""
    if stratify is not None and groups is not None:
        raise ValueError(
            "stratify, groups: expected one of them, got both; whole groups can't have each class to within one record"
        )
    total = len(source)
    if not total:
        raise ValueError(f"source: expected a record or more, got none in {short_repr(source)}")
    shares = _checked_shares(sizes, source)
    at_least("seed", seed, 0, below=1 << 64)
    order = Permutation(total, component_seed(seed, "random_split"))(np.arange(total))
    part_of = np.empty(total, np.intp)
    if groups is not None:
        _, numbers = np.unique(checked_labels(groups, source, argument="groups"), return_inverse=True)
        part_of[:] = _part_of_groups(numbers[order], shares)[numbers]
    else:
        numbers = np.zeros(total, np.intp)
        if stratify is not None:
            labels = checked_labels(stratify, source, argument="stratify")
            _, numbers = np.unique(labels, return_inverse=True)
        counts = shared_out(np.bincount(numbers).tolist(), shares)
        by_class = order[np.argsort(numbers[order], kind="stable")]
        part_of[by_class] = np.repeat(np.tile(np.arange(len(shares)), len(counts)), counts.ravel())
    counts = np.bincount(part_of, minlength=len(shares))
    if not counts.all():
        raise ValueError(
            f"sizes: expected a record or more in each part, got none in part {int(counts.argmin())} of "
            f"{_short(list(sizes))} of {total} records{'' if groups is None else ' in whole groups'}; give fewer or "
            "larger parts"
        )
    return np.split(np.argsort(part_of, kind="stable"), np.cumsum(counts)[:-1])


def _part_of_groups(groups: npt.NDArray[np.intp], shares: list[Fraction]) -> npt.NDArray[np.intp]:
    """The part of each group; groups: of the records in a random order, in which they are taken."""
    found, firsts, sizes = np.unique(groups, return_index=True, return_counts=True)
    left = found[np.argsort(firsts)]
    part_of = np.full(len(found), len(shares) - 1, np.intp)
    for part in range(len(shares) - 1):
        rest = shares[part:]
        target = largest_remainder(int(sizes[left].sum()), [share / sum(rest) for share in rest])[0]
        chosen = nearest_sum(sizes[left].tolist(), target)
        part_of[left[chosen]] = part
        left = np.delete(left, chosen)
    return part_of
