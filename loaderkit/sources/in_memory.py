"""Any objects as records, held in memory once for all workers.

Each element is pickled alone, with the memory of its arrays apart, into *pieces* of one shared block:

    first[i]           the number of element i's first piece, its pickle; a piece for each of its arrays follows
    spans[p] = lo, hi  piece p is the bytes [lo, hi) of the block
"""

from __future__ import annotations

import io
import itertools
import pickle
import sys
import types
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit._base.system.byte_order import reduce_array
from loaderkit._base.system.importable import lives_here_alone
from loaderkit._source.content import content_hash, sampled_keys
from loaderkit._source.tables import rows_instead
from loaderkit.errors import TransportError

from .has_card import HasCard
from .shared_arrays import ALIGNMENT, SharedArrays
from .sliced import sliced


class InMemoryDataSource(HasCard):
    """Elements held in memory, one copy for the trainer and all workers.

    Each read of a record gives a new object, so changing it doesn't change the source; its numpy arrays are read-only
    views of the one copy.

    Args:
        elements: any elements that can be pickled, those of classes of `__main__` included. TransportError naming the
            first that can't; TypeError for a dict of columns or a table.

    >>> source = InMemoryDataSource([{"x": np.arange(3), "name": "first"}, "second"])
    >>> len(source), source[0]["x"].tolist(), source[1]
    (2, [0, 1, 2], 'second')
    """

    def __init__(self, elements: Iterable[Any]) -> None:
        if isinstance(elements, Mapping):
            raise TypeError(
                f"elements: expected an object for each record, got a {type(elements).__name__}; use "
                "ArrayDataSource for a dict of columns, or list(elements.values())"
            )
        instead = rows_instead(elements)
        if instead is not None:
            raise TypeError(f"elements: {instead}")
        # Classes and functions that only this process can import; they are pickled once, apart from the block.
        self._local: list[Any] = []
        pieces: list[bytes | memoryview] = []
        first = [0]
        for place, element in enumerate(elements):
            pieces += _pickled(element, self._local, place)
            first.append(len(pieces))
        sizes = [len(piece) for piece in pieces]
        ends = itertools.accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
        begin = [0, *ends]
        self._shared = SharedArrays(
            [
                ((begin[-1],), np.dtype(np.uint8)),
                ((len(first),), np.dtype(np.int64)),
                ((len(sizes), 2), np.dtype(np.int64)),
            ]
        )
        block, first_place, span_place = self._shared.writable()
        first_place[:] = first
        for piece, lo, size, span in zip(pieces, begin, sizes, span_place):
            block[lo : lo + size] = np.frombuffer(piece, np.uint8)
            span[:] = lo, lo + size
        self._open()

    def _open(self) -> None:
        block, self._first, self._spans = self._shared.views()
        self._block = block.data

    def __len__(self) -> int:
        return len(self._first) - 1

    @sliced
    def __getitem__(self, key: int) -> Any:
        spans = self._spans[self._first[key] : self._first[key + 1]].tolist()
        content, *arrays = [self._block[lo:hi] for lo, hi in spans]
        if self._local:
            return _RecordUnpickler(content, arrays, self._local).load()
        return pickle.loads(content, buffers=arrays)

    def fingerprint(self) -> dict[str, Any]:
        """The number of elements, and a hash of some of them."""
        content = content_hash(self[key] for key in sampled_keys(len(self)))
        return {"type": "InMemoryDataSource", "records": len(self), "content": content}

    def __repr__(self) -> str:
        return f"InMemoryDataSource({len(self)} elements, {self._shared.nbytes} bytes)"

    def __getstate__(self) -> tuple[SharedArrays, list[Any]]:
        return self._shared, self._local

    def __setstate__(self, state: tuple[SharedArrays, list[Any]]) -> None:
        self._shared, self._local = state
        self._open()


def _pickled(element: Any, local: list[Any], place: int) -> list[bytes | memoryview]:
    content = io.BytesIO()
    arrays: list[pickle.PickleBuffer] = []
    try:
        _RecordPickler(content, arrays, local).dump(element)
        return [content.getvalue(), *[array.raw() for array in arrays]]
    except Exception as error:
        # The element's own methods may raise anything; the cause stays attached.
        raise TransportError(
            f"elements: element {place}, a {type(element).__name__}, can't be pickled ({text_of(error)}); store the "
            "values that it is made from (a path, numbers, arrays), and make it in a Map"
        ) from error


class _RecordPickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, arrays: list[pickle.PickleBuffer], local: list[Any]) -> None:
        super().__init__(file, protocol=5, buffer_callback=arrays.append)
        self._local = local

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray and not value.dtype.hasobject and not value.flags.forc:
            # numpy gives no buffer for an array that isn't contiguous; unpickled, it would be a writable copy.
            value = np.array(value, order="C")
        return reduce_array(value) if isinstance(value, np.ndarray) else NotImplemented

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, type | types.FunctionType) or _is_importable(value):
            return None
        for number, known in enumerate(self._local):
            if known is value:
                return number
        self._local.append(value)
        return len(self._local) - 1


class _RecordUnpickler(pickle.Unpickler):
    def __init__(self, content: memoryview, arrays: list[memoryview], local: list[Any]) -> None:
        super().__init__(io.BytesIO(content), buffers=arrays)
        self._local = local

    def persistent_load(self, number: Any) -> Any:
        return self._local[number]


def _is_importable(value: Any) -> bool:
    # A worker doesn't run the script, so it can't import what `__main__` defines.
    module = sys.modules.get(value.__module__)
    if module is None or lives_here_alone(value.__module__):
        return False
    try:
        return reduce(getattr, value.__qualname__.split("."), module) is value
    except AttributeError:
        return False
