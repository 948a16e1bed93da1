"""What a function gives for records, as an array: numbers as they are, labels as codes."""

from collections.abc import Callable, Sequence
from reprlib import repr as _short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit.transforms.column import Column, column_of

# The labels are in one JSON document, which is read as a whole; texts that differ for most records are no labels.
MOST_LABELS = 1 << 16
_CODES = np.dtype(np.int32)


def rows_as_column(rows: Sequence[Any]) -> Column:
    """The values of some records, as an array (n,) where they are of one type; a batch_fn, which a worker runs.

    >>> rows_as_column([1, 2]), rows_as_column([1, "a"])
    (array([1, 2]), [1, 'a'])
    """
    return column_of(rows, set(map(type, rows)), views=False)


class MeasuredValues:
    """Makes arrays of one dtype of the values of consecutive records.

    Args:
        describe: takes a record_key, gives the record's name for errors.
        dtype: of the values before; None at the first.
        labels: of the values before, where they were labels.

    dtype: of all values, once there are some. labels: in the order of their codes; None for numbers.

    >>> values = MeasuredValues("record {}".format)
    >>> values.array(["en", "de", "en"], 0), values.labels
    (array([0, 1, 0], dtype=int32), ['en', 'de'])
    >>> values.array([7], 3)
    Traceback (most recent call last):
        ...
    TypeError: fn: expected a label, as for the records before, got 7 for record 3; give values of one type
    """

    def __init__(
        self,
        describe: Callable[[int], str],
        dtype: np.dtype[Any] | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        self._describe = describe
        self.dtype = dtype
        self._codes = None if labels is None else {label: code for code, label in enumerate(labels)}

    @property
    def labels(self) -> list[str] | None:
        return None if self._codes is None else list(self._codes)

    def array(self, values: Column, first: int) -> NDArray[Any]:
        """The values as an array (n,) of the dtype.

        Args:
            values: what the function gave, as `rows_as_column` gives them.
            first: the record_key of the first. TypeError naming the record for a value of another type, ValueError for
                too many labels.
        """
        if not isinstance(values, np.ndarray):
            values = self._array_of_list(values, first)
        if values.ndim != 1 or values.dtype.kind not in "biuf":
            raise TypeError(
                f"fn: expected a number, a bool or a short text, got {_short(values[0])} for {self._describe(first)}"
            )
        if self.dtype is None:
            self.dtype = values.dtype
        if values.dtype != self.dtype or (self._codes is not None and values.dtype != _CODES):
            raise self._other_type(values[0].item(), first)
        return values

    def _array_of_list(self, values: Sequence[Any], first: int) -> NDArray[Any]:
        if self.dtype is None and isinstance(values[0], str):
            self._codes = {}
        if self._codes is not None:
            return np.fromiter(
                (self._code(value, first + place) for place, value in enumerate(values)), _CODES, len(values)
            )
        # One that differs is among them: each is looked at alone, so that the error names its record.
        return np.concatenate(
            [self.array(self._single(v, first + place), first + place) for place, v in enumerate(values)]
        )

    def _single(self, value: Any, key: int) -> NDArray[Any]:
        if isinstance(value, str) and self.dtype is not None:
            raise self._other_type(value, key)
        column = rows_as_column([value])
        if not isinstance(column, np.ndarray):
            raise TypeError(
                f"fn: expected a number, a bool or a short text, got {_short(value)} for {self._describe(key)}"
            )
        return column

    def _code(self, value: Any, key: int) -> int:
        assert self._codes is not None
        if not isinstance(value, str):
            raise self._other_type(value, key)
        code = self._codes.setdefault(value, len(self._codes))
        if code >= MOST_LABELS:
            raise ValueError(
                f"fn: expected at most {MOST_LABELS:,} different labels, got another, {_short(value)}, for "
                f"{self._describe(key)}; give a number, such as a hash of the text"
            )
        return code

    def _other_type(self, value: Any, key: int) -> TypeError:
        expected = "a label" if self._codes is not None else f"values of {self.dtype}"
        return TypeError(
            f"fn: expected {expected}, as for the records before, got {_short(value)} for {self._describe(key)}; "
            "give values of one type"
        )
