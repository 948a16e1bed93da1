"""Values and their ids: looked up in bulk."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from reprlib import repr as _short
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit.transforms.leaf import Place


@dataclass(frozen=True)
class VocabularyTable:
    """Different values, all texts or bytes, or all integers; the id of each is its place.

    Its length and its digest are its value, so that a saved state has them and not all values.

    >>> table = VocabularyTable.of("vocabulary", ["red", "blue"])
    >>> table.ids("x", np.array([b"blue", b"green"], object), len(table))
    array([1, 2])
    """

    count: int
    sha256: str
    values: tuple[Any, ...] = field(compare=False, repr=False)
    # Integers, their places.
    _sorted: tuple[np.ndarray, np.ndarray] = field(init=False, repr=False, compare=False)
    _places: dict[Any, int] = field(init=False, repr=False, compare=False)  # of texts, as str and as bytes

    def __post_init__(self) -> None:
        if isinstance(self.values[0], int):
            values = np.array(self.values, np.int64)
            order = np.argsort(values)
            object.__setattr__(self, "_sorted", (values[order], order))
        else:
            table: dict[Any, int] = {}
            for place, value in enumerate(self.values):
                table[value] = place
                if isinstance(value, str):
                    table[value.encode("utf-8", "surrogatepass")] = place
                    continue
                with suppress(UnicodeDecodeError):  # bytes that aren't a text
                    table[value.decode()] = place
            object.__setattr__(self, "_places", table)

    @classmethod
    def of(cls, argument: str, values: Sequence[Any]) -> "VocabularyTable":
        """A table of values that a user gave; TypeError or ValueError that names the argument for others."""
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        if not plain:
            raise ValueError(f"{argument}: expected one value or more, got none")
        integers = isinstance(plain[0], int)
        digest = sha256(b"i" if integers else b"s")
        seen = set()
        for value in plain:
            wrong = isinstance(value, bool) or not isinstance(value, int if integers else str | bytes)
            if wrong or (integers and not -(2**63) <= value < 2**63):
                raise TypeError(
                    f"{argument}: expected texts, or integers of 64 bits, got {_short(value)} beside {_short(plain[0])}"
                )
            text = value if not isinstance(value, str) else value.encode("utf-8", "surrogatepass")
            if text in seen:
                raise ValueError(
                    f"{argument}: expected each value once, got {_short(value)} again; leave it out"
                )
            seen.add(text)
            written = str(value).encode() if integers else text
            digest.update(len(written).to_bytes(8, "little") + written)
        return cls(len(plain), digest.hexdigest()[:16], plain)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __getitem__(self, place: int) -> Any:
        return self.values[place]

    def __getstate__(self) -> dict[str, Any]:
        return {"count": self.count, "sha256": self.sha256, "values": self.values}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def ids(self, key: Place, leaf: Any, unknown: int) -> np.ndarray:
        """The id of each value of a leaf, `unknown` for others and for None: int64, of the leaf's shape."""
        array = np.asarray(leaf, object) if isinstance(leaf, str | bytes | None) else np.asarray(leaf)
        if isinstance(self.values[0], int):
            return self._ids_of_integers(key, array, unknown)
        if array.dtype.kind not in "OSU":
            raise TypeError(f"leaf {key!r}: expected texts, as the vocabulary has, got {array.dtype}")
        find = self._places.get
        found = np.array([find(value, unknown) for value in array.ravel().tolist()], np.int64)
        return found.reshape(array.shape)

    def _ids_of_integers(self, key: Place, array: np.ndarray, unknown: int) -> np.ndarray:
        if array.dtype == object:  # None, or integers beside it
            given = array.ravel().tolist()
            if all(isinstance(value, int | None) for value in given):
                known = {value: place for place, value in enumerate(self.values)}
                found = np.array([known.get(value, unknown) for value in given], np.int64)
                return found.reshape(array.shape)
        if array.dtype.kind not in "biu":
            raise TypeError(f"leaf {key!r}: expected integers, as the vocabulary has, got {array.dtype}")
        if array.dtype == np.uint64:
            within = array < np.uint64(1 << 63)
            return np.where(within, self._ids_of_integers(key, array.astype(np.int64), unknown), unknown)
        values, order = self._sorted
        places = np.minimum(np.searchsorted(values, array), len(values) - 1)
        return np.where(values[places] == array, order[places], unknown)
