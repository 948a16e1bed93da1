"""The steps of a sampler that says the shape and the size of each: planned in blocks, handed out one by one."""

import numpy as np
from numpy.typing import NDArray

from loaderkit._engine.in_flight_step import StepRecords
from loaderkit.samplers.protocol import record_keys_of

from .batching import shard_spans
from .schedule import BLOCK_INDICES, Schedule, StepsAhead


def steps_ahead(schedule: Schedule) -> "StepsAhead | ShapedStepsAhead":
    """What plans a schedule's steps ahead."""
    return StepsAhead(schedule) if schedule.shaped is None else ShapedStepsAhead(schedule)


class ShapedStepsAhead:
    """A schedule with a cache, for a sampler that says shapes; the result equals `Schedule.rows_at`.

    Steps with fewer records than their batch, and those after a sampler's error, are planned by the schedule.

    >>> from loaderkit._order.sharding import ShardOptions
    >>> from loaderkit.samplers import LengthBucketSampler
    >>> from .batching import Batching
    >>> sampler = LengthBucketSampler([3, 9, 2, 8], [4, 9], 2, shuffle=False, num_epochs=1)
    >>> batching = Batching(inner=(), rows=2, remainder="keep", batched=True)
    >>> schedule = Schedule(sampler, batching, ShardOptions(0, 1), start=0, stop=4, shaped=sampler)
    >>> steps = ShapedStepsAhead(schedule)
    >>> steps.records(2).keys, steps.records(2).shape
    (array([1, 3]), 1)
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        assert schedule.shaped is not None
        self._shaped = schedule.shaped
        self._ahead = max(1, BLOCK_INDICES // schedule.batching.stride)
        self._offsets = [self._offsets_of(size) for size in self._shaped.sizes]  # of each bucket
        self._first = 0
        self._shapes: list[int] = []
        # where the records of each step begin; of a step without any it is planned alone
        self._cuts: list[int] = []
        self._indices: NDArray[np.int64] = np.empty(0, np.int64)
        self._keys: NDArray[np.int64] = np.empty(0, np.int64)

    def records(self, index: int, most: int = 1) -> StepRecords | None:
        """This shard's part of the step that begins at `index`; None where the shard doesn't make that step.

        most: one step is returned for any number.
        """
        known = self._known(index)
        if known is None and self._ahead > 1 and self._plan(index):
            known = self._known(index)
        return known or self.schedule.rows_at(index)

    def _known(self, index: int) -> StepRecords | None:
        step, inside = divmod(index - self._first, self.schedule.batching.stride)
        if inside or not 0 <= step < len(self._shapes):
            return None
        records = slice(self._cuts[step], self._cuts[step + 1])
        indices = self._indices[records]
        if not len(indices):
            return None
        return StepRecords(indices, self._keys[records], len(indices), shape=self._shapes[step])

    def _plan(self, index: int) -> bool:
        stride, stop = self.schedule.batching.stride, self.schedule.stop
        if 0 <= index - self._first < len(self._shapes) * stride or index < self.schedule.start:
            return False
        steps = self._ahead if stop is None else min(self._ahead, (stop - index) // stride)
        if steps < 2:
            return False
        firsts = np.arange(steps, dtype=np.int64) * stride + index
        try:
            shapes = self._shaped.shapes(firsts).tolist()
            whole = self._shaped.rows_of(firsts) == np.take(self._shaped.sizes, shapes)
            places = [
                first + self._offsets[shape] if all_there else self._indices[:0]
                for first, shape, all_there in zip(firsts.tolist(), shapes, whole.tolist(), strict=True)
            ]
            indices = np.concatenate(places)
            keys = record_keys_of(self.schedule.sampler, indices)
        except Exception:  # noqa: BLE001 - a user's sampler may raise anything for a step far ahead
            self._ahead = 1  # one step at a time from now on, so that the error is raised at its own step
            return False
        self._first, self._shapes, self._indices, self._keys = index, shapes, indices, keys
        self._cuts = [0, *np.cumsum([len(place) for place in places]).tolist()]
        return True

    def _offsets_of(self, size: int) -> NDArray[np.int64]:
        """(n,) int64: which records of a whole batch of `size` are this shard's."""
        schedule = self.schedule
        spans = shard_spans(size, size, shard=schedule.shard, remainder=schedule.batching.remainder)
        return np.concatenate([np.arange(low, high, dtype=np.int64) for low, high in spans])
