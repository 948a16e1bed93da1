"""What a function gives for the records of a source, made by workers and given in order."""

import pickle
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

from loaderkit._loader.one_pass import one_pass
from loaderkit.transforms import Map


class _PickledOutputs:
    # Pickled, since a loader makes arrays of numbers.
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, record: Any) -> bytes:
        found = self._function(record)
        if isinstance(found, GeneratorType):
            found = list(found)
        outputs = [] if found is None else found if isinstance(found, list) else [found]
        return pickle.dumps(outputs, protocol=5)


def mapped_records(function: Callable[[Any], Any], source: Any, worker_count: int) -> Iterator[Any]:
    """The function's records, as `lk.offline.map_shards` takes them.

    function: takes a record and gives one, a list of them, or None for none. source: of the records. worker_count:
    processes.

    >>> list(mapped_records(lambda number: [number] * number, range(3), 0))
    [1, 2, 2]
    """
    loader = one_pass(source, [Map(_PickledOutputs(function))], worker_count=worker_count)
    with loader, iter(loader) as found:
        for outputs in found:
            yield from pickle.loads(outputs)
