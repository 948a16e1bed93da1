"""A thread that makes the elements of an iterator ahead."""

import copy
import queue
import threading
import weakref
from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit.interop.grain.dataset.iter_dataset import DatasetIterator
from loaderkit.interop.grain.options import MultiprocessingOptions

from .step import State, Step


class _Thread:
    """Makes elements until it has an error to give, StopIteration among them, or is stopped.

    It refers to the iterator before, not to the one that takes the elements: that one's end stops it.
    """

    def __init__(self, parent: Any, most: int) -> None:
        self._parent = parent
        self._room = threading.Semaphore(most)
        # Element, state behind it, or an error.
        self._made = queue.SimpleQueue[tuple[Any, State, Exception | None]]()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="loaderkit-in-order")
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._room.acquire()
            if self._stopped:
                return
            try:
                element = next(self._parent)
                self._made.put((element, copy.deepcopy(self._parent.get_state()), None))
            except Exception as error:  # noqa: BLE001 - raised again by the thread that takes the elements
                self._made.put((None, {}, error))
                return

    def take(self) -> tuple[Any, State, Exception | None]:
        made = self._made.get()
        self._room.release()
        return made

    def stop(self) -> None:
        """Returns once the parent isn't used any more."""
        self._stopped = True
        self._room.release()
        if threading.current_thread() is not self._thread:  # of which the last reference to the taker may be
            self._thread.join()


class ThreadPrefetchDatasetIterator(DatasetIterator):
    """An iterator's elements, made ahead by a thread.

    Args:
        parent: an iterator with get_state and set_state.
        prefetch_buffer_size: the most elements that wait; 0 for no thread. ValueError below 0.
    """

    def __init__(self, parent: Any, prefetch_buffer_size: int) -> None:
        super().__init__(parent)
        self._most = at_least("prefetch_buffer_size", prefetch_buffer_size, 0)
        self._state: State = parent.get_state()
        self._ahead: _Thread | None = None
        self._end: Any = None  # stops the thread

    def __next__(self) -> Any:
        self.start_prefetch()
        if self._ahead is None:
            element, self._state = next(self._parent), self._parent.get_state()
            return element
        element, state, error = self._ahead.take()
        if error is not None:
            self._stop()
            raise error
        self._state = state
        return element

    def start_prefetch(self) -> None:
        """Begins to make elements now instead of at the first next()."""
        if self._ahead is None and self._most:
            self._ahead = _Thread(self._parent, self._most)
            self._end = weakref.finalize(self, self._ahead.stop)

    def _stop(self) -> None:
        if self._ahead is not None:
            self._end()
            self._ahead = None

    def get_state(self) -> State:
        return self._state

    def set_state(self, state: State) -> None:
        self._stop()
        self._parent.set_state(state)
        self._state = self._parent.get_state()

    def close(self) -> None:
        """Ends the thread; a second call does nothing."""
        self._stop()
        close = getattr(self._parent, "close", None)
        if close is not None:
            close()


class ThreadPrefetchIterDataset(Step):
    """The same elements, made ahead by a thread.

    Args:
        parent: the data set before.
        prefetch_buffer_size: the most elements that wait; 0 for no thread. ValueError below 0.
    """

    def __init__(self, parent: Any, *, prefetch_buffer_size: int) -> None:
        super().__init__(parent)
        self._most = at_least("prefetch_buffer_size", prefetch_buffer_size, 0)

    def __iter__(self) -> DatasetIterator:
        return ThreadPrefetchDatasetIterator(iter(self._parent), self._most)


def multithread_prefetch(ds: Any, num_threads: int, buffer_size: int, sequential_slice: bool = False) -> Any:
    """The elements that Grain gives with `num_threads` threads, each of which makes every so many-th.

    Args:
        ds: an IterDataset.
        num_threads: of Grain's; 0 for `ds` itself.
        buffer_size: elements that each makes ahead.
        sequential_slice: isn't here; NotImplementedError.
    """
    if not num_threads:
        return ds
    return ds.mp_prefetch(MultiprocessingOptions(num_threads, buffer_size), sequential_slice=sequential_slice)
