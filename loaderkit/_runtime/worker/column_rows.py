"""Rows of a columnar source that no operation needs: gathered leaf by leaf, without a Python object for each row."""

from collections.abc import Callable
from typing import Any

import numpy as np

from loaderkit._base.tree import flatten
from loaderkit._engine.task import ReadRows, Slot, Target
from loaderkit._order.facts import Failure
from loaderkit.transforms.level_runner import LevelRunner
from loaderkit.transforms.run import Singles
from loaderkit.transforms.stack import Block

from .made_rows import MadeRows, leaves_of

# Of several small batches that the source gives at once: more saves calls, until the columns don't stay in the cache.
_GATHERED_NBYTES = 256 << 10


class ColumnRows:
    """Reads the rows of a task from a source that gives columns.

    Args:
        take: the source's `take(record_keys, out=None)`.
        token: gives an object over a slot's bytes.
        batches: of the only Batch.
        verify: whether slots have checksums.
    """

    def __init__(
        self, take: Callable[..., Any], token: Callable[[Slot], Any], batches: LevelRunner, *, verify: bool
    ) -> None:
        self._take = take
        self._token = token
        self._runner = batches
        self._verify = verify

    def read(self, task: ReadRows, before_target: Callable[[int, int], None] | None) -> MadeRows:
        """The rows of each target, in place where it has a slot.

        Args:
            task: what to read.
            before_target: called with the first and last of the task's records that a target takes, before it is read.
        """
        made = MadeRows(task, verify=self._verify)
        first = 0
        for target in task.targets:
            last = first + target.rows
            keys, indices = task.keys[first:last], task.indices[first:last]
            if before_target is not None:
                before_target(first, last)
            first = last
            if target.slot is not None:
                self._in_place(made, target, keys, indices)
            elif target.whole:
                self._batches(made, target, keys, indices)
            elif (block := self._block(made, keys, indices)) is not None:
                made.saw(target, block)
                made.add(target.rows, block)
            if made.failure is not None:
                break
        return made

    def _in_place(self, made: MadeRows, target: Target, keys: np.ndarray, indices: np.ndarray) -> None:
        assert target.slot is not None
        token = self._token(target.slot)
        leaves = leaves_of(target, token)
        try:
            self._take(keys, out=leaves)
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            made.failure = Failure(error, "source", tuple(indices.tolist()))
        else:
            made.placed(target, token)

    def _batches(self, made: MadeRows, target: Target, keys: np.ndarray, indices: np.ndarray) -> None:
        batches: list[Any] = []
        lo, size = 0, target.batch
        while lo < target.rows and made.failure is None:
            here = slice(lo, lo + size)
            block = self._block(made, keys[here], indices[here])
            if block is not None:
                run = self._runner.make_batches(block, Singles(indices[here]), target.batch)
                batches += run.values
                made.failure = run.failure
                if lo == 0:  # from here on as many batches at once as stay in the cache
                    made.saw(target, block)
                    if made.layout is not None:
                        size *= max(1, _GATHERED_NBYTES // max(made.layout.nbytes(size), 1))
                lo = here.stop
            elif size > target.batch:  # batch by batch, the failure comes with the batch it belongs to
                size, made.failure = target.batch, None
        if batches:
            made.add(len(batches), batches)

    def _block(self, made: MadeRows, keys: np.ndarray, indices: np.ndarray) -> Block | None:
        try:
            leaves, structure = flatten(self._take(keys))
        except Exception as error:  # noqa: BLE001 - a source may raise anything
            made.failure = Failure(error, "source", tuple(indices.tolist()))
            return None
        return Block(structure, tuple(leaves), len(keys))
