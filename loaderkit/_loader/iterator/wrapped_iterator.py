"""An iterator around a loader's own, which gives its elements in another form and shares its position."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from loaderkit._base.closing import Closing
from loaderkit._engine.stats.stats import Stats
from loaderkit._order.metadata import RecordMetadata
from loaderkit.samplers import Sampler

from .iterator import DataLoaderIterator

if TYPE_CHECKING:
    from loaderkit._loader.inspect.explanation import Explanation


class WrappedIterator(Closing):
    """A base class: all but `__next__` is that of the loader's iterator.

    Args:
        it: a loader's iterator.
    """

    def __init__(self, it: DataLoaderIterator[Any]) -> None:
        self._it = it

    def __iter__(self) -> Self:
        return self

    def __bool__(self) -> bool:
        return True

    @property
    def step(self) -> int:
        """Number of elements handed out so far by this run."""
        return self._it.step

    @property
    def remaining(self) -> int | None:
        """Number of elements that are left, as the wrapped iterator's; `len` is the same number."""
        return self._it.remaining

    def __len__(self) -> int:
        return len(self._it)

    def __length_hint__(self) -> int:
        return self._it.__length_hint__()

    @property
    def index(self) -> int:
        """The index of the next record."""
        return self._it.index

    @property
    def epoch(self) -> int | None:
        """The epoch of the next record."""
        return self._it.epoch

    @property
    def allow(self) -> Collection[str]:
        """The fields that may differ when Orbax's newer interface restores, as the wrapped iterator's."""
        return self._it.allow

    @allow.setter
    def allow(self, names: Collection[str]) -> None:
        self._it.allow = names

    def stats(self) -> Stats:
        """What this iterator and the loader's workers did so far, as the wrapped iterator's."""
        return self._it.stats()

    def explain(self) -> Explanation:
        """Whether the loader is the bottleneck, and what to try, as the wrapped iterator's."""
        return self._it.explain()

    def watch(self, loss: Any) -> None:
        """Finds out whether the device is idle while next() is blocked, as the wrapped iterator's."""
        self._it.watch(loss)

    def get_state(self) -> bytes:
        """The position after the element handed out last, as indented JSON."""
        return self._it.get_state()

    def set_state(self, state: bytes | Sequence[bytes], allow: Collection[str] = ()) -> None:
        """Moves to a saved position, as the wrapped iterator's set_state does."""
        self._it.set_state(state, allow)

    def writers_needed(self, writers: Sequence[int], allow: Collection[str] = ()) -> Collection[int]:
        """The numbers of the documents of a saved state that `set_state` needs, as the wrapped iterator's."""
        return self._it.writers_needed(writers, allow)

    @property
    def sampler(self) -> Sampler:
        """The loader's sampler; of a mixture the one with the weights of this run."""
        return self._it.sampler

    def reweigh(self, weights: Mapping[str, Any]) -> int:
        """Gives a mixture other weights, behind the elements on their way; returns the step that they begin in."""
        return self._it.reweigh(weights)

    def seek(self, step: int) -> None:
        """Moves to a step, 0 or more, as the wrapped iterator's seek does."""
        self._it.seek(step)

    def skip(self, n: int) -> None:
        """Leaves out the next n steps, as the wrapped iterator's skip does."""
        self._it.skip(n)

    def records(self, step: int) -> list[RecordMetadata]:
        """The metadata of every record of a step over all shards."""
        return self._it.records(step)

    def start_prefetch(self) -> None:
        """Starts making elements now; what the wrapper does with them starts with the first next()."""
        self._it.start_prefetch()

    def close(self) -> None:
        """Stops making elements."""
        self._it.close()

    async def save(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Saves for Orbax's StatefulCheckpointable, as the wrapped iterator does."""
        return await self._it.save(directory)

    async def load(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Restores for Orbax's StatefulCheckpointable, as the wrapped iterator does."""
        return await self._it.load(directory)
