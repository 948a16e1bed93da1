"""Numbers brought to a common scale."""

from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any, Self

import numpy as np

from loaderkit._base.numbers import number, true_or_false
from loaderkit.transforms.leaf import Place

from .column_map import ColumnMap, checked_dtype, numbers_at, optional_number
from .stats_file import StatsFile, column_stats

Scale = float | tuple[float, ...] | None


@dataclass(frozen=True)
class Numeric(ColumnMap):
    """Numbers as floats, normalised: (x - mean) / std, or (x - min) / (max - min).

    Args:
        key, output: of the leaf, and of the result where the leaf stays.
        mean, std: of the values; a number, or one for each place of the last axis.
        min, max: of the values, which become 0 and 1; instead of mean and std.
        clip: (low, high): values outside become these, first.
        log1p: True takes log(1 + x) after that; mean, std, min and max are then of the results.
        default: takes the place of NaN, and of None in a single record, before all else.
        dtype: of the result, a float type. The arithmetic is in float64.

    A std, or a range, of 0 counts as 1: a column that never changes becomes 0.

    >>> Numeric("age", mean=40, std=10, default=40).map({"age": np.array([30, 40, 65])})
    {'age': array([-1. ,  0. ,  2.5], dtype=float32)}
    >>> Numeric("fare", clip=(0, 1000), log1p=True, output="log_fare").map({"fare": 0.0})
    {'fare': 0.0, 'log_fare': np.float32(0.0)}
    """

    mean: Scale = field(default=None, kw_only=True)
    std: Scale = field(default=None, kw_only=True)
    min: Scale = field(default=None, kw_only=True)
    max: Scale = field(default=None, kw_only=True)
    clip: tuple[float, float] | None = field(default=None, kw_only=True)
    log1p: bool = field(default=False, kw_only=True)
    default: float | None = field(default=None, kw_only=True)
    dtype: Any = field(default="float32", kw_only=True)
    _shift: Any = field(init=False, repr=False, compare=False)  # what is subtracted, and divided by

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(**{name: _scale(name, getattr(self, name)) for name in ("mean", "std", "min", "max")})
        self._set(
            default=optional_number("default", self.default),
            clip=_clip(self.clip),
            dtype=str(checked_dtype(self.dtype, "f", "a float type of numpy")),
        )
        if (self.min is None) != (self.max is None):
            raise ValueError("min, max: expected both or none, got one of them")
        if self.min is not None and (self.mean is not None or self.std is not None):
            raise ValueError("min, max: expected them without mean and std, got both; give one pair")
        true_or_false("log1p", self.log1p)
        low, wide = np.asarray(self.mean or 0.0), np.asarray(1.0 if self.std is None else self.std)
        if self.min is not None and self.max is not None:
            low, wide = np.asarray(self.min), np.asarray(self.max) - np.asarray(self.min)
        if (wide < 0).any():
            name = "std: expected 0 or more" if self.max is None else "max: expected at least min"
            raise ValueError(f"{name}, got {_short(self.std if self.max is None else self.max)}")
        plain = self.mean is None and self.std is None and self.max is None
        self._set(_shift=None if plain else (low, np.where(wide == 0, 1.0, wide)))

    @classmethod
    def from_stats(cls, stats: StatsFile, key: Place, *, scale: str = "mean_std", **others: Any) -> Self:
        """With what `loaderkit inspect --values` found.

        Args:
            stats: the file, or what lk.offline.column_stats gives.
            scale: "mean_std" for mean and std, "min_max" for the least and greatest value.
            key, others: as Numeric takes them.

        >>> stats = {"columns": {"age": {"kind": "number", "mean": 40.0, "std": 10.0, "min": 1, "max": 91}}}
        >>> Numeric.from_stats(stats, "age", scale="min_max").map({"age": 46})
        {'age': np.float32(0.5)}
        """
        if scale not in ("mean_std", "min_max"):
            raise ValueError(f"scale: expected 'mean_std' or 'min_max', got {_short(scale)}")
        names = tuple(scale.split("_"))
        found = column_stats(stats, key, *names)
        return cls(key, **{name: found[name] for name in names}, **others)

    def of(self, leaf: Any) -> Any:
        """The numbers, normalised."""
        values = numbers_at(self.key, leaf, self.default).astype(np.float64)
        if self.clip is not None:
            np.clip(values, *self.clip, out=values)
        if self.log1p:
            if (values <= -1).any():
                raise ValueError(
                    f"leaf {self.key!r}: expected values above -1 for log1p, got {np.nanmin(values)}; give "
                    "clip=(0, ...)"
                )
            np.log1p(values, out=values)
        if self._shift is not None:
            low, wide = self._shift
            places = max(low.shape, wide.shape)
            if places and values.shape[-1:] != places:
                raise ValueError(
                    f"leaf {self.key!r}: expected a last axis of {places[0]}, as mean or min has, got the shape "
                    f"{values.shape}"
                )
            values = (values - low) / wide
        return values.astype(self.dtype)[()]


def _scale(name: str, value: Any) -> Scale:
    if value is None:
        return None
    many = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)
    made = tuple(number(name, each) for each in value) if many else number(name, value)
    if not np.isfinite(made).all() or made == ():
        raise ValueError(f"{name}: expected finite numbers, got {_short(value)}")
    return made


def _clip(clip: Any) -> tuple[float, float] | None:
    if clip is None:
        return None
    if not isinstance(clip, tuple | list) or len(clip) != 2:
        raise TypeError(f"clip: expected (low, high), got {_short(clip)}")
    low, high = (number("clip", each) for each in clip)
    if not low <= high:
        raise ValueError(f"clip: expected (low, high) with low <= high, got {_short(clip)}")
    return low, high
