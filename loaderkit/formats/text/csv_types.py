"""Types of the columns of CSV files: the values of texts, as a table has them, and the types that texts may have.

    float, int, bool    numpy scalars; "nan" and "inf" are floats, true, false, 1 and 0 bools, in any case of letters
    datetime64          of days: 2024-02-29; of s, ms, us, ns also 2024-02-29T12:30:00.5, with a zone as UTC
    str                 the text

A value that the dtype doesn't hold doesn't fit: 300 isn't int8, 1e300 isn't float32, and a day has no hours.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from reprlib import repr as _short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass

# In this order; rows decide for the first that all their values fit.
_INFERRED = ("int64", "bool", "datetime64[D]", "datetime64[s]", "datetime64[ns]", "float64")
# Post codes and keys, which a number would change, stay texts: the first as any number, the second as a float64.
_LEADING_ZERO, _LONG = re.compile(r"[+-]?0\d.*"), re.compile(r"[+-]?\d{16,}")
_DIGITS = {"D": -1, "s": 0, "ms": 3, "us": 6, "ns": 9}  # of a second's fraction; a day has no time
# Day, time, the digits of a second's fraction, zone.
_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:([T ]\d\d:\d\d(?::\d\d(?:\.(\d+))?)?)(Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?)?"
)
_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_EXPECTED = 'float, int, bool, str, or a dtype such as "float32" or "datetime64[D]"'


@dataclass(frozen=True, slots=True)
class ColumnType:
    """What the texts of a column stand for.

    dtype: of its values, None for texts. missing: the texts that stand for no value.

    >>> ColumnType(np.dtype(np.int8), frozenset(["", "NA"])).values(["7", "NA"])
    [np.int8(7), None]
    """

    dtype: np.dtype[Any] | None
    missing: frozenset[str]

    def values(self, texts: list[str]) -> list[Any] | NDArray[Any]:
        """The value of each, None for a missing one; ValueError or OverflowError where one doesn't fit."""
        holes = self.missing.intersection(texts)
        known = [text for text in texts if text not in holes] if holes else texts
        found = known if self.dtype is None else _parsed(known, self.dtype)
        if not holes:
            return found
        rest = iter(found)
        return [None if text in holes else next(rest) for text in texts]

    def fits(self, text: str) -> bool:
        """Whether the text stands for a value, or for none."""
        try:
            self.values([text])
        except (ValueError, OverflowError):
            return False
        return True

    def __str__(self) -> str:
        return "str" if self.dtype is None else self.dtype.name


def column_types(
    types: Any, missing: Any, columns: Sequence[str], first_rows: Callable[[], list[dict[str, str]]]
) -> dict[str, ColumnType]:
    """The types of the columns that aren't as the file has them; ValueError and TypeError for wrong arguments.

    Args:
        types: a mapping of column to type, "infer", or None.
        missing: a text, several, or a mapping of column to these.
        columns: the names of all.
        first_rows: gives the rows by which types are inferred.

    >>> column_types({"age": int}, "", ["age", "name"], list)["age"].dtype
    dtype('int64')
    >>> rows = [{"age": "3", "zip": "01234"}, {"age": "", "zip": "99999"}]
    >>> {name: str(kind) for name, kind in column_types("infer", "", ["age", "zip"], lambda: rows).items()}
    {'age': 'int64'}
    """
    if not (types is None or isinstance(types, Mapping) or types == "infer"):
        raise TypeError(
            f'types: expected a mapping such as {{"age": float}}, "infer" or None, got {_short(types)}'
        )
    given = missing if isinstance(missing, Mapping) else {}
    for argument, names in (("types", types if isinstance(types, Mapping) else ()), ("missing", given)):
        if unknown := [name for name in names if name not in columns]:
            raise ValueError(f"{argument}: expected columns, some of {list(columns)}, got {unknown}")
    if types is None and not (given or missing == ""):
        raise ValueError(
            f"missing: expected types= beside it, or a mapping of columns, got {_short(missing)}"
        )
    empty = _texts("" if isinstance(missing, Mapping) else missing)
    absent = {name: _texts(given[name]) if name in given else empty for name in columns}
    if isinstance(types, Mapping):
        dtypes = {name: _dtype(name, kind) for name, kind in types.items()}
    else:
        rows = [] if types is None else first_rows()
        dtypes = (
            {name: _inferred([row[name] for row in rows], absent[name]) for name in rows[0]} if rows else {}
        )
    return {
        name: ColumnType(dtypes.get(name), absent[name])
        for name in columns
        if dtypes.get(name) is not None or name in given
    }


def _texts(given: Any) -> frozenset[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence | set | frozenset) or not all(isinstance(text, str) for text in texts):
        raise TypeError(
            f'missing: expected texts such as ["", "NA"], or these by column, got {_short(given)}'
        )
    return frozenset(texts)


def _dtype(name: str, given: Any) -> np.dtype[Any] | None:
    try:
        dtype: np.dtype[Any] = np.dtype(given)
    except (TypeError, ValueError):
        dtype = np.dtype(object)
    if given is not None and dtype.kind == "U":
        return None
    unit, count = np.datetime_data(dtype) if dtype.kind == "M" else ("s", 1)
    if given is None or dtype.kind not in "biufM" or dtype.itemsize > 8 or unit not in _DIGITS or count > 1:
        raise ValueError(f"types: expected {_EXPECTED} for {name!r}, got {_short(given)}")
    return dtype.newbyteorder("=")


def _inferred(texts: list[str], missing: frozenset[str]) -> np.dtype[Any] | None:
    known = [text for text in texts if text not in missing]
    if not known or any(_LEADING_ZERO.fullmatch(text.strip()) for text in known):
        return None
    for name in _INFERRED:
        if name == "float64" and any(_LONG.fullmatch(text.strip()) for text in known):
            return None
        try:
            return _parsed(known, np.dtype(name)).dtype
        except (ValueError, OverflowError):
            continue
    return None


def _parsed(texts: list[str], dtype: np.dtype[Any]) -> NDArray[Any]:
    joined = "".join(texts)
    if "_" in joined or not joined.isascii():  # Python's numbers may have both
        raise ValueError("expected ASCII")
    if dtype.kind == "M":
        return _dates(texts, dtype)
    if dtype.kind == "b":
        try:
            return np.array([_BOOLS[text.strip().lower()] for text in texts], dtype)
        except KeyError as error:
            raise ValueError("expected true or false") from error
    if dtype.kind in "iu":
        return np.array([*map(int, texts)], dtype)
    wide = np.array([*map(float, texts)], np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        found = wide.astype(dtype)
        # Of a narrower float: a float64 amid two of them was rounded itself, so its text says which is nearer.
        other = 2 * wide - found
        amid = np.flatnonzero((other != found) & (other.astype(dtype) == other))
    for place, near, far in zip(amid.tolist(), found[amid].tolist(), other[amid].tolist()):
        if exact := Decimal(texts[place]).compare(Decimal(wide[place])):
            found[place] = max(near, far) if exact > 0 else min(near, far)
    if any("n" not in texts[place].lower() for place in np.flatnonzero(np.isinf(found)).tolist()):
        raise OverflowError("expected a smaller number")
    return found


def _dates(texts: list[str], dtype: np.dtype[Any]) -> NDArray[Any]:
    digits = _DIGITS[np.datetime_data(dtype)[0]]
    dates, zones = [], []
    for text in texts:
        match = _DATE.fullmatch(text.strip())
        if match is None or (match[2] and len(match[3] or "") > digits):
            raise ValueError("expected a date")
        zone = match[4] or ""
        minutes = 60 * int(zone[1:3]) + int(zone[-2:]) if len(zone) > 1 else 0
        dates.append(match[1] + (match[2] or ""))
        zones.append(-minutes if zone.startswith("-") else minutes)
    found = np.array(dates, dtype)
    of_utc = found - np.array(zones, "m8[m]") if any(zones) else found
    wrong = found.astype("M8[D]") != np.array([date[:10] for date in dates], "M8[D]")
    if (wrong | ((of_utc < found) != (np.array(zones) > 0))).any():
        raise OverflowError("expected a date that the unit holds")
    return of_utc
