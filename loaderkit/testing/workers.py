"""The same work done by a pickled copy, by several threads at once, and by a worker process."""

import os
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from loaderkit._base.system.shared_memory import receiving, sending
from loaderkit._loader.one_pass import one_pass
from loaderkit._runtime.transport.pickling import Packer
from loaderkit.sources import RangeDataSource
from loaderkit.transforms.base import Map

from .conformance import Mismatch

_THREADS = 4
# Seconds between two switches of threads while they are tried, Python's default is 0.005: a race shows in fewer calls.
_SWITCH_SECONDS = 1e-5
# For all threads together: a longer time delays a test run that hangs, a shorter one stops slow reads.
_MOST_SECONDS = 60.0
_FUNCTION_NAMES = re.compile(r"(?:\w+\.|<\w+>\.)*<locals>\.")
T = TypeVar("T")


def copies_of(value: T) -> tuple[Callable[[], T], int]:
    """Makes copies of a value as it is now, such as worker processes get, and says how many bytes its pickle has.

    Shared memory stays shared, and isn't counted. So do classes that can't be imported, as those of a script: each copy
    puts back what has changed in their attributes since.

    >>> own = [1, 2]
    >>> copy, _ = copies_of(own)
    >>> own.append(3)
    >>> copy()
    [1, 2]
    """
    packer = Packer()
    with sending() as descriptors:  # they stay the value's own
        packed = packer.teach(value)
        nbytes = len(packed)
        # Loaded here, a class of a script would get copies of its methods, with other globals.
        if packer.known:
            descriptors.clear()
            packed = packer.dumps(value)
    classes = _ClassAttributes(packer.classes())

    def copy(holder: T = value) -> T:  # it holds the value, which holds the descriptors
        classes.put_back()
        with receiving([os.dup(descriptor) for descriptor in descriptors]):
            made: T = pickle.loads(packed)
        return made

    return copy, nbytes


class _ClassAttributes:
    """The attributes of some classes as they are now, with what is in a dict, list or set of theirs."""

    def __init__(self, classes: Sequence[type]) -> None:
        self._before = [(cls, _own_attributes(cls)) for cls in classes]
        values = [value for _, attributes in self._before for value in attributes.values()]
        self._contents = [(value, value.copy()) for value in values if type(value) in (dict, list, set)]

    def put_back(self) -> None:
        for cls, before in self._before:
            now = _own_attributes(cls)
            for name in now.keys() - before.keys():
                type.__delattr__(cls, name)
            for name, value in before.items():
                if now.get(name, self) is not value:
                    type.__setattr__(cls, name, value)
        for container, content in self._contents:
            container.clear()
            (container.extend if isinstance(container, list) else container.update)(content)


def _own_attributes(cls: type) -> dict[str, Any]:
    return {name: value for name, value in vars(cls).items() if not name.startswith("__")}


def pickled_copy(value: T) -> tuple[T, int]:
    """One copy, and how many bytes its pickle has.

    >>> pickled_copy([1, 2])[0]
    [1, 2]
    """
    copy, nbytes = copies_of(value)
    return copy(), nbytes


def without_function_names(text: str) -> str:
    """A text with classes that functions define named as cloudpickle's copies of them are.

    >>> without_function_names("test_reader.<locals>.Reader(step=2)")
    'Reader(step=2)'
    """
    return _FUNCTION_NAMES.sub("", text)


def in_threads(job: Callable[[int], T], places: Sequence[int], noun: str) -> list[tuple[int, T]]:
    """What each of some threads gets for each place by job(place), all of them at once and in different orders.

    Args:
        job: runs in the threads. The first error that a thread meets is raised here.
        places: what job takes. noun: for one, such as "record_key". Mismatch where threads still run after a minute.

    >>> in_threads(abs, range(3), "number")[:3]
    [(0, 0), (1, 1), (2, 2)]
    """
    begin = threading.Barrier(_THREADS)
    results: list[dict[int, T]] = [{} for _ in range(_THREADS)]
    errors: list[BaseException] = []
    running: dict[int, int] = {}

    def work(number: int) -> None:
        try:
            begin.wait()
            first = number * len(places) // _THREADS
            for place in (*places[first:], *places[:first]):
                running[number] = place
                results[number][place] = job(place)
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything, and end its thread
            errors.append(error)
        finally:
            running.pop(number, None)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(_THREADS)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        for thread in threads:
            thread.start()
        end = time.monotonic() + _MOST_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
    except RuntimeError:  # the system starts no more threads: those that wait for others mustn't
        begin.abort()
        raise
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]
    waiting = [f"{noun} {place}" for place in dict.fromkeys(running.values())]
    if any(thread.is_alive() for thread in threads):
        alive = sum(thread.is_alive() for thread in threads)
        raise Mismatch(
            f"all threads to end within {_MOST_SECONDS:g} seconds",
            f"{alive} of {_THREADS} still running in {', '.join(waiting)}",
        )
    return [(place, found[place]) for found in results for place in places]


def in_another_process(job: Callable[[int], Any], count: int) -> list[Any]:
    """job(0) to job(count - 1), computed in one worker process that is started for it.

    Args:
        job: travels by pickle, and so do its results.
        count: at least 1.

    >>> in_another_process(abs, 3)
    [0, 1, 2]
    """
    operation = Map(job)
    operation._may_give_none = True  # a source may have None
    with one_pass(RangeDataSource(count), [operation], worker_count=1) as loader, iter(loader) as results:
        return list(results)
