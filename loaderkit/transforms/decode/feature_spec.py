"""What a feature of a tf.train.Example becomes: its dtype, its shape, and what stands for a missing one."""

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from operator import index
from reprlib import repr as _short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.example import Values

_TEXTS = ("bytes", "str")
_KINDS = {"f": "floats", "i": "integers", "u": "integers", "b": "integers"}


@dataclass(frozen=True)
class FeatureSpec:
    """What a feature becomes; `Example` makes it of what the user gave.

    dtype: "bytes", "str", or the name of one of numpy's. shape: as given. default: None for none; of several
    values a tuple, with the feature's shape.
    """

    dtype: str
    shape: tuple[int | None, ...]
    default: Any = None

    def of(self, name: str, found: Mapping[str, Values]) -> Any:
        """The feature of a record.

        Args:
            name: of the feature.
            found: the record's features.
        """
        values = found.get(name)
        if values is None:
            if self.default is None:
                raise ValueError(
                    f"feature {name!r}: expected {self._kind}, got a record that has {_short(sorted(found))} only; "
                    "give a default as the third value of its spec if records may lack it"
                )
            return self._own_default()
        kind = "bytes" if isinstance(values, list) else _KINDS[values.dtype.kind]
        if kind != self._kind:
            raise ValueError(f"feature {name!r}: expected {self._kind}, got {kind}")
        if not self._takes(len(values)):
            raise ValueError(
                f"feature {name!r}: expected {self._count} {kind} for the shape {self.shape}, got {len(values)}"
            )
        if isinstance(values, list):
            return self._texts(name, values)
        return self.numbers(name, values).reshape([-1 if n is None else n for n in self.shape])

    def _own_default(self) -> Any:
        if self._kind == "bytes":
            return [*self.default] if self.shape else self.default
        return np.array(self.default, self.dtype)

    @property
    def _kind(self) -> str:
        return _kind_of(self.dtype)

    @property
    def _count(self) -> str:
        each = values_of(self.shape)
        return f"a multiple of {each}" if None in self.shape else str(each)

    def _takes(self, count: int) -> bool:
        each = values_of(self.shape)
        return count % each == 0 if None in self.shape else count == each

    def _texts(self, name: str, values: list[bytes]) -> Any:
        texts: list[Any] = values
        if self.dtype == "str":
            try:
                texts = [value.decode() for value in values]
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"feature {name!r}: expected text in UTF-8, got other bytes ({error})"
                ) from error
        return texts if self.shape else texts[0]

    def numbers(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Values of a feature in its dtype; ValueError for one that it can't hold."""
        numbers = values.astype(self.dtype, copy=False)
        if self._kind == "integers" and numbers is not values and (numbers.astype(np.int64) != values).any():
            wrong = values[(numbers.astype(np.int64) != values).argmax()]
            raise ValueError(f"feature {name!r}: expected integers of {self.dtype}, got {wrong}")
        return numbers


# Each record asks: without the caches both took a fifth of the time of a small record.
@lru_cache(1024)
def _kind_of(dtype: str) -> str:
    return "bytes" if dtype in _TEXTS else _KINDS[np.dtype(dtype).kind]


@lru_cache(1024)
def values_of(shape: tuple[int | None, ...]) -> int:
    """Values of a row where the first number is None, else of all."""
    return prod(n for n in shape if n is not None)


def feature_spec(name: str, given: Any) -> FeatureSpec:
    """What the user gave as a feature's spec, checked; TypeError or ValueError that names the feature.

    Args:
        name: of the feature.
        given: dtype, (dtype, shape) or (dtype, shape, default), as `Example` says.

    >>> feature_spec("x", ("float32", 2, 0.5))
    FeatureSpec(dtype='float32', shape=(2,), default=(0.5, 0.5))
    """
    if isinstance(given, FeatureSpec):
        return given
    parts = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(parts) <= 3:
        raise TypeError(
            f"features[{name!r}]: expected dtype, (dtype, shape) or (dtype, shape, default), got {_short(given)}"
        )
    dtype = _dtype(name, parts[0])
    texts = dtype in _TEXTS
    shape = _shape(name, parts[1], texts) if len(parts) > 1 else ()
    if len(parts) < 3 or parts[2] is None:
        return FeatureSpec(dtype, shape)
    default = _text_default(parts[2], dtype, shape) if texts else _default(parts[2], dtype, shape)
    if default is None:
        raise ValueError(
            f"features[{name!r}]: expected a default of {dtype} that fits the shape {shape}, got {_short(parts[2])}"
        )
    return FeatureSpec(dtype, shape, default)


def _dtype(name: str, dtype: Any) -> str:
    if dtype is bytes or dtype is str:
        return str(dtype.__name__)
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if dtype is None or found.kind not in _KINDS:
        raise TypeError(
            f"features[{name!r}]: expected bytes, str, or a dtype of integers, floats or bool, got {_short(dtype)}"
        )
    return str(found.name)


def _shape(name: str, shape: Any, texts: bool) -> tuple[int | None, ...]:
    given = (shape,) if isinstance(shape, int | np.integer) or shape is None else shape
    try:
        found = tuple(None if n is None and not place else index(n) for place, n in enumerate(given))
    except TypeError:
        raise TypeError(
            f"features[{name!r}]: expected a shape of ints, the first one perhaps None, got {_short(shape)}"
        ) from None
    if any(n is not None and n < 1 for n in found):
        raise ValueError(f"features[{name!r}]: expected a shape of numbers above 0, got {found}")
    if texts and len(found) > 1:
        raise ValueError(f"features[{name!r}]: expected the shape () or (n,) for bytes and str, got {found}")
    return found


def _text_default(default: Any, dtype: str, shape: tuple[int | None, ...]) -> Any:
    one = isinstance(default, bytes | str)
    values = (default,) * (shape[0] or 1 if shape else 1) if one else ()
    if isinstance(default, list | tuple):
        values = tuple(default)
    if (
        any(type(value).__name__ != dtype for value in values)
        or (one if shape and shape[0] is None else not (one or isinstance(default, list | tuple)))
        or (not shape and not one)
        or (shape and shape[0] not in (None, len(values)))
    ):
        return None
    return values if shape else default


def _default(default: Any, dtype: str, shape: tuple[int | None, ...]) -> Any:
    numbers: NDArray[Any] | None
    given = np.asarray(default)
    taken = "iub" if _KINDS[np.dtype(dtype).kind] == "integers" else "iuf"
    # A shape with None takes as many values as the default has.
    free = None in shape and given.ndim == len(shape)
    whole = given.shape[:1] + shape[1:] if free else shape
    try:
        if None in whole or (given.dtype.kind not in taken and given.size):
            raise ValueError("another shape or kind")
        numbers = np.broadcast_to(given.astype(dtype), [n for n in whole if n is not None])
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or (taken == "iub" and (numbers != given).any()):
        return None
    return _nested(numbers.tolist())


def _nested(values: Any) -> Any:
    return tuple(map(_nested, values)) if isinstance(values, list) else values
