"""Integers as records."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.numbers import not_an_int
from loaderkit._source.record_key import check_keys

from .has_card import HasCard
from .sliced import sliced


class RangeDataSource(HasCard):
    """The integers of Python's `range`, each one a record.

    Args:
        start: the first integer; given alone, it is `stop`, and the first is 0.
        stop: the end, which isn't included.
        step: difference between one and the next; ValueError for 0, and where one of the three doesn't fit in 64 bits;
            TypeError for a bool, a float and anything else that isn't an int.

    >>> source = RangeDataSource(10, 20, 3)
    >>> len(source), source[1], source.take([3, 0])
    (4, 13, array([19, 10]))
    """

    def __init__(
        self, start: SupportsIndex, stop: SupportsIndex | None = None, step: SupportsIndex = 1
    ) -> None:
        for name, value in (("start", start), ("stop", 0 if stop is None else stop), ("step", step)):
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise not_an_int(name, value)
        if step == 0:
            raise ValueError(f"step: expected another int than 0, got {step}")
        values = range(start) if stop is None else range(start, stop, step)
        low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        for name, value in (("start", values.start), ("stop", values.stop), ("step", values.step)):
            if not low <= value <= high:
                raise ValueError(
                    f"{name}: expected an int that fits in 64 bits, as batches are int64, got {value}"
                )
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @sliced
    def __getitem__(self, key: int) -> int:
        return self._values[key]

    def __getitems__(self, record_keys: ArrayLike) -> list[int]:
        return [self._values[key] for key in check_keys(record_keys, len(self), self).tolist()]

    def take(self, record_keys: ArrayLike, out: list[NDArray[np.int64]] | None = None) -> NDArray[np.int64]:
        """Many records as one int64 array (n,).

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.
            out: a list with one int64 array (n,) to be filled.
        """
        keys = check_keys(record_keys, len(self), self)
        column = np.empty(len(keys), np.int64) if out is None else out[0]
        np.multiply(keys, self._values.step, out=column)
        column += self._values.start
        return column

    def fingerprint(self) -> dict[str, Any]:
        """Start, stop and step."""
        values = self._values
        return {"type": "RangeDataSource", "start": values.start, "stop": values.stop, "step": values.step}

    def __repr__(self) -> str:
        values = self._values
        return f"RangeDataSource(start={values.start}, stop={values.stop}, step={values.step})"
