"""The user's function of `lk.offline.map_shards`, on the records of a shard."""

from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

from loaderkit._base.notes import annotate

from .dropped import Dropped
from .record_stream import drop_or_raise, source_records
from .shard_result import ShardResult, json_value
from .write_format import RecordFiles


class ShardFunction:
    """The user's function on the records of a shard.

    Args:
        function: as `lk.offline.map_shards` takes it.
        source: gives the records.
        per_record: whether the function takes one record.
        reduce: folds values; None where records are written.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        source: Any,
        *,
        per_record: bool,
        reduce: Callable[[Any, Any], Any] | None,
    ) -> None:
        self.function, self.source, self.per_record = function, source, per_record
        self.reduce = reduce

    def outputs(self, keys: range, dropped: Dropped) -> Iterator[Any]:
        """What the function gives for the records of a shard, in order.

        Args:
            keys: the shard's records.
            dropped: as `drop_or_raise` takes it.
        """
        if self.per_record:
            for _, found in self._of_each(keys, dropped):
                yield from found if isinstance(found, list) else [found]
            return
        found = self.function(self._records(keys, dropped))
        if not isinstance(found, Iterable) or isinstance(found, str | bytes | dict):
            raise TypeError(
                f"function: expected an iterable of records for a shard, got a {type(found).__name__}; write them "
                "with yield, or give reduce= for values"
            )
        yield from found

    def value(self, keys: range, dropped: Dropped) -> tuple[Any, int]:
        """The value of a shard, and of how many values it was made; (None, 0) for none."""
        assert self.reduce is not None
        if not self.per_record:
            return json_value(self.function(self._records(keys, dropped)), "function"), 1
        total: Any = None
        count = 0
        for key, found in self._of_each(keys, dropped):
            try:
                value = json_value(found, "function")
                total = value if count == 0 else self.reduce(total, value)
            except Exception as error:  # noqa: BLE001 - the user's function
                drop_or_raise(error, key, self.source, None)
            count += 1
        return json_value(total, "reduce"), count

    def _of_each(self, keys: range, dropped: Dropped) -> Iterator[tuple[int, Any]]:
        """Each key, and what the function gives for its record, but None; a generator's values as a list."""
        for key, record in source_records(self.source, dropped, keys.start, keys.stop):
            try:
                found = self.function(record)
                if isinstance(found, GeneratorType):
                    found = [*found]
            except Exception as error:  # noqa: BLE001 - the user's function
                drop_or_raise(error, key, self.source, dropped)
                continue
            if found is not None:
                yield key, found

    def _records(self, keys: range, dropped: Dropped) -> Iterator[Any]:
        return (record for _, record in source_records(self.source, dropped, keys.start, keys.stop))


def unchanged(record: Any) -> list[Any]:
    """The function that writes records as they are, those that are a list or None too.

    >>> unchanged(None)
    [None]
    """
    return [record]


class MappedShards:
    """Makes the shards of `lk.offline.map_shards`; a `ShardJobs` calls it.

    Args:
        shard_function: what is done.
        shards: the keys of each shard's records.
        drop: whether a bad record is left out.
        files: that are written; None with `reduce`.
    """

    def __init__(
        self,
        shard_function: ShardFunction,
        shards: list[range],
        drop: bool,
        files: RecordFiles | None = None,
    ) -> None:
        self._function, self._shards, self._drop, self._files = shard_function, shards, drop, files

    def __call__(self, shard: int, path: str | None) -> ShardResult:
        keys, files = self._shards[shard], self._files
        dropped: Dropped = [] if self._drop else None
        if files is None:
            value, count = self._function.value(keys, dropped)
            return ShardResult(count, dropped or [], value)
        assert path is not None
        count = 0
        with files.writer(path) as writer:
            for record in self._function.outputs(keys, dropped):
                try:
                    writer.add(files.encoder.encode(record, self._number(shard, count)))
                except (ValueError, TypeError) as error:
                    annotate(error, f"lk.offline.map_shards: output {count} of shard {shard}")
                    raise
                count += 1
        return ShardResult(count, dropped or [])

    def _number(self, shard: int, count: int) -> int:
        """The number of an output, which no other output of any shard has: formats with keys make keys of it.

        Those behind the number of the shard's records have numbers behind all records, in turn with other shards.
        """
        keys = self._shards[shard]
        if count < len(keys):
            return keys.start + count
        return self._shards[-1].stop + (count - len(keys)) * len(self._shards) + shard
