"""Chunks of tables in memory: the columns of one and how its single rows are read, and those that were used last."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from loaderkit._base.system.process_locks import ProcessLocks

from .arrow_row_readers import RowReader, row_reader
from .arrow_values import Description, NullValueError, UnequalShapesError, array_of

# More let more threads decode different chunks; two chunks with one lock only wait for each other.
_LOCKS = 64


class TableChunk:
    """A record batch or a decoded row group.

    Args:
        table: a pyarrow RecordBatch or Table with the columns in order.
        descriptions: of the columns, as `rows_of` takes them.
    """

    def __init__(self, table: Any, descriptions: list[Description | None]) -> None:
        self.table, self._descriptions = table, descriptions
        self._arrays: dict[int, NDArray[Any] | None] = {}
        self._readers: list[RowReader | None] | None = None

    @property
    def readers(self) -> list[RowReader | None]:
        """Of each column the reader of its rows; None where it has several chunks."""
        # No cached_property: until Python 3.12 it has one lock for all chunks, which a forked child may inherit held.
        if self._readers is None:
            self._readers = [
                None if (column := self._whole(place)) is None else row_reader(column, each)
                for place, each in enumerate(self._descriptions)
            ]
        return self._readers

    def array(self, place: int) -> NDArray[Any] | None:
        """A column of rows with one shape as an array (rows, ...); None where it has nulls or several shapes."""
        if place not in self._arrays:
            column = self._whole(place)
            try:
                self._arrays[place] = None if column is None else array_of(column, self._descriptions[place])
            except (NullValueError, UnequalShapesError):
                self._arrays[place] = None
        return self._arrays[place]

    def _whole(self, place: int) -> Any:
        """The column as one pyarrow Array; None where it has several chunks."""
        column = self.table.column(place)
        if not hasattr(column, "chunks"):
            return column
        return column.chunk(0) if column.num_chunks == 1 else None


class ChunkMemory:
    """Chunks by number, those used last; the newest is kept whatever its size.

    Args:
        limit: bytes of all chunks together.

    >>> memory = ChunkMemory(10)
    >>> memory.get(0, lambda: ("zero", 6)), memory.get(1, lambda: ("one", 6)), memory.numbers
    ('zero', 'one', [1])
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._chunks: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._locks = ProcessLocks(threading.Lock)
        self._decoding = ProcessLocks(lambda: [threading.Lock() for _ in range(_LOCKS)])

    @property
    def numbers(self) -> list[int]:
        """The chunks held, the one used last at the end."""
        return list(self._chunks)

    def get(self, number: int, make: Callable[[], tuple[Any, int]]) -> Any:
        """A chunk; two threads that ask for the same one make it once.

        Args:
            number: of the chunk.
            make: gives the chunk and its bytes.
        """
        found = self._found(number)
        if found is None:
            with self._decoding.own()[number % _LOCKS]:
                found = self._found(number) or self._keep(number, make())
        return found[0]

    def clear(self) -> None:
        """Forgets all."""
        with self._locks.own():
            self._chunks.clear()
            self._held = 0

    def _found(self, number: int) -> tuple[Any, int] | None:
        with self._locks.own():
            found = self._chunks.get(number)
            if found is not None:
                self._chunks.move_to_end(number)
            return found

    def _keep(self, number: int, made: tuple[Any, int]) -> tuple[Any, int]:
        with self._locks.own():
            self._chunks[number] = made
            self._held += made[1]
            while self._held > self._limit and len(self._chunks) > 1:
                _, (_, nbytes) = self._chunks.popitem(last=False)
                self._held -= nbytes
        return made
