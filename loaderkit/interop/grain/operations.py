"""Grain's legacy operations: callables that take an iterator of Records and give one.

Those of Grain's are run as the transforms that they are, and go with 0.3; a callable of the user's is run in order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

from loaderkit._base.former_arguments import warn_of_former
from loaderkit._base.numbers import at_least
from loaderkit._base.structure import structure_of
from loaderkit._order.metadata import RecordMetadata

from ._batching import make_batch

T = TypeVar("T")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


@dataclass(slots=True)
class Record(Generic[T]):
    """Metadata and data of an element, as the legacy operations take and give them.

    Args:
        metadata: of the record.
        data: the element.

    >>> Record(RecordMetadata(0), "data").data
    'data'
    """

    metadata: RecordMetadata
    data: T


def is_record(value: Any) -> bool:
    """Whether an object has metadata and data, as a Record has."""
    return hasattr(value, "metadata") and hasattr(value, "data")


class Operation(Protocol):
    """Any callable from records to records."""

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]: ...


@dataclass
class MapOperation(Generic[IN, OUT]):
    """Applies a function to the data of each record; deprecated.

    Args:
        map_function: takes the data and gives the data in its place.
    """

    map_function: Callable[[IN], OUT]

    def __post_init__(self) -> None:
        warn_of_former("MapOperation()", "a class derived from grain.MapTransform", stacklevel=3)

    def __call__(self, input_iterator: Iterator[Record[IN]]) -> Iterator[Record[OUT]]:
        for record in input_iterator:
            yield Record(record.metadata.remove_record_key(), self.apply(record.data))

    def apply(self, data: IN) -> OUT:
        """The function's answer; ValueError from what it raises.

        Args:
            data: of a record.
        """
        return cast(OUT, _called("map", self.map_function, data))


@dataclass
class RandomMapOperation(Generic[IN, OUT]):
    """Applies a function to the data and the generator of each record; deprecated.

    Args:
        random_map_function: takes the data and the numpy.random.Generator, and gives the data in its place.
    """

    random_map_function: Callable[[IN, np.random.Generator], OUT]

    def __post_init__(self) -> None:
        warn_of_former("RandomMapOperation()", "a class derived from grain.RandomMapTransform", stacklevel=3)

    def __call__(self, input_iterator: Iterator[Record[IN]]) -> Iterator[Record[OUT]]:
        for record in input_iterator:
            yield Record(record.metadata.remove_record_key(), self.apply(record.data, record.metadata.rng))

    def apply(self, data: IN, rng: np.random.Generator | None) -> OUT:
        """The function's answer; ValueError from what it raises.

        Args:
            data: of a record.
            rng: its generator, None where the sampler has no seed.
        """
        return cast(OUT, _called("random map", self.random_map_function, data, rng))


@dataclass
class FilterOperation(Generic[IN]):
    """Keeps the records of which the condition is true for the data; deprecated.

    Args:
        condition_function: takes the data and gives a bool.
    """

    condition_function: Callable[[IN], bool]

    def __post_init__(self) -> None:
        warn_of_former("FilterOperation()", "a class derived from grain.FilterTransform", stacklevel=3)

    def __call__(self, input_iterator: Iterator[Record[IN]]) -> Iterator[Record[IN]]:
        for record in input_iterator:
            if self.apply(record.data):
                yield Record(record.metadata.remove_record_key(), record.data)

    def apply(self, data: IN) -> bool:
        """The condition's answer; ValueError from what it raises.

        Args:
            data: of a record.
        """
        return bool(_called("condition", self.condition_function, data))


@dataclass
class BatchOperation(Generic[IN, OUT]):
    """Makes batches of the data of consecutive records; deprecated.

    Args:
        batch_size: rows; ValueError below 1.
        drop_remainder: whether a last, smaller batch is left out.
        batch_fn: takes the list of rows and gives the batch, instead of stacking.
    """

    batch_size: int
    drop_remainder: bool = False
    batch_fn: Callable[[Sequence[IN]], OUT] | None = None

    def __post_init__(self) -> None:
        at_least("batch_size", self.batch_size, 1)
        if self.batch_fn is None:
            self.batch_fn = _stacked
        warn_of_former("BatchOperation()", "grain.Batch(batch_size)", stacklevel=3)

    def __call__(self, input_iterator: Iterator[Record[IN]]) -> Iterator[Record[OUT]]:
        assert self.batch_fn is not None
        return batched(input_iterator, self.batch_size, self.drop_remainder, self.batch_fn)


def batched(
    records: Iterator[Record[Any]], batch_size: int, drop_remainder: bool, batch_fn: Callable[..., Any]
) -> Iterator[Record[Any]]:
    """Batches of the data of consecutive records, each with the metadata of its last one.

    >>> from loaderkit._order.metadata import RecordMetadata
    >>> records = iter([Record(RecordMetadata(number, 0), number) for number in range(3)])
    >>> [record.data for record in batched(records, 2, False, list)]
    [[0, 1], [2]]
    """
    while rows := [*islice(records, batch_size)]:
        if len(rows) < batch_size and drop_remainder:
            return
        yield Record(rows[-1].metadata.remove_record_key(), batch_fn([row.data for row in rows]))


def _called(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        raise ValueError(f"PyGrain encountered an error when calling {what} function.") from error


def _stacked(rows: Sequence[Any]) -> Any:
    try:
        return make_batch(rows)
    except ValueError as error:
        others = [place for place, row in enumerate(rows) if structure_of(row) != structure_of(rows[0])]
        raise TypeError(
            f"Record structures do not match. Record at position 0 has structure {rows[0]}, while records at "
            f"positions {others} have structures {[rows[place] for place in others]}."
        ) from error
