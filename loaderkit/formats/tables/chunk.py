"""One chunk of a table in memory: its columns, and how single rows of each are read."""

from typing import Any

from numpy.typing import NDArray

from .arrow_arrays import UnequalShapesError, holds_arrays, stacked_arrays
from .arrow_row_readers import RowReader, row_reader
from .arrow_values import Description, NullValueError, column_of


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


def array_of(column: Any, description: Description | None) -> NDArray[Any]:
    """A column as an array (rows, ...).

    Args:
        column: a pyarrow Array of one row or more. NullValueError where it has a null, UnequalShapesError where arrays
            that loaderkit wrote differ in shape.
        description: as `rows_of` takes it.
    """
    if description is not None and holds_arrays(description):
        return stacked_arrays(column, description)
    return column_of(column)
