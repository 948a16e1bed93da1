"""What the log and the errors say of workers that are hired, lost, replaced, or make no progress."""

import logging
import threading
from collections.abc import Sequence

from loaderkit._base.notes import keyed
from loaderkit._base.system.limits import inherited_limits
from loaderkit._engine.supervisor import GiveUp, StallWarning, WorkerLost, WorkerSnapshot
from loaderkit._engine.task import MakeBatch, Task
from loaderkit._engine.worker_tuner import Choice
from loaderkit._source.naming import Namer
from loaderkit.errors import WorkerError, WorkerTimeoutError

_ANSWER_SECONDS = 1.0  # a longer time names records of slower sources, and blocks the pump once as long


class RecordNames:
    """Asks for the names of records.

    Args:
        name: gives the source's name of a record; None if it has no names: then no thread is needed.

    >>> RecordNames({3: "cat.jpg"}.get).keyed([3, 4])
    ["3 'cat.jpg'", '4']
    """

    def __init__(self, name: Namer | None) -> None:
        self._name = name

    def keyed(self, keys: Sequence[int]) -> list[str]:
        """The record keys as texts, each with its name if it has one."""
        names = None if self._name is None else self._asked(self._name, keys)
        return [keyed(key, name) for key, name in zip(keys, names or [None] * len(keys), strict=True)]

    def _asked(self, name: Namer, keys: Sequence[int]) -> list[str | None] | None:
        answers: list[list[str | None]] = []
        asking = threading.Thread(
            target=lambda: answers.append([name(key) for key in keys]), name="loaderkit-names", daemon=True
        )
        try:
            asking.start()
            asking.join(_ANSWER_SECONDS)
        except RuntimeError:  # the process may have no further thread
            return None
        if not answers:
            self._name = None
            return None
        return answers[0]


_log = logging.getLogger("loaderkit")
_MOST_KEYS = 8  # record keys that a message names: enough to find the records, on a line that can be read


class WorkerLog:
    """Writes to the log, in the form "NAME did what; what follows".

    Args:
        names: of the records that workers have.
    """

    def __init__(self, names: RecordNames) -> None:
        self._names = names
        self._lost: list[str] = []  # names of workers that weren't replaced yet

    def hired(self, name: str, number: int, *, replaces: bool = True) -> None:
        """A worker is there, in place of one that is lost or as one more.

        Args:
            name: of the worker.
            number: of the worker in its pool, as in `it.stats()`.
            replaces: whether the pool started it, perhaps in place of another.
        """
        place = f" in place of {self._lost.pop(0)}" if replaces and self._lost else ""
        _log.info("%s was hired%s; it is number %d", name, place, number)

    def resized(self, before: int, choice: Choice) -> None:
        """There should be another number of workers."""
        self._lost.clear()
        _log.info("worker_count='auto': %d instead of %d, as %s", choice.workers, before, choice.why)

    def dismissed(self) -> None:
        """All workers were dismissed: the next ones are in place of none."""
        self._lost.clear()

    def stall(self, name: str, warning: StallWarning, doing: str, stack: str) -> None:
        """A worker made no progress.

        Args:
            name: of the worker.
            warning: for how long, and what it has.
            doing: what it does, in a few words.
            stack: its Python stack, "" where it didn't answer.
        """
        begun, tasks = warning.snapshot.begun, warning.snapshot.tasks
        where = "it isn't ready yet"
        if warning.ready and begun is not None:
            where = f"it is at {self._at(begun, warning.snapshot)}"
        elif warning.ready:
            where = f"it has {_count(tasks)}, and has begun none"
        _log.warning(
            "%s made no progress for %.3g s%s; %s; %s%s",
            name,
            warning.stall.seconds,
            ", and takes too long" if warning.stall.too_long else "",
            where,
            doing,
            f"; its Python stack:\n{stack}" if stack else "",
        )

    def loss(self, name: str, lost: WorkerLost, *, replaced: bool = True) -> None:
        """A worker is lost: why, and what becomes of its tasks. replaced: whether the pool starts another."""
        if replaced:
            self._lost.append(name)
        _log.warning(
            "%s %s %s; %s%s",
            name,
            "was fenced with"
            if lost.fenced
            else "was killed with"
            if lost.late
            else "died with"
            if replaced
            else "is lost:",
            lost.reason,
            # Said in full: the word is ours, and memory stays in use until the worker ends.
            "it can't be ended, is left to itself and may still write, so its memory is set apart; "
            if lost.fenced
            else "",
            self._work_of(lost),
        )

    def _work_of(self, lost: WorkerLost) -> str:
        tasks = lost.snapshot.tasks
        if not tasks:
            return "it had nothing to do"
        again = [task for task in tasks if lost.retry or task is not lost.begun]
        indices = [index for task in again for index in task.indices.tolist()]
        work = (
            f"indices {min(indices)} to {max(indices)}, {_count(again)}, are done again; " if indices else ""
        )
        if lost.begun is None:
            return f"{work}it was in none of them"
        return f"{work}it was at {self._at(lost.begun, lost.snapshot)}"

    def _at(self, begun: Task, snapshot: WorkerSnapshot) -> str:
        indices = begun.indices.tolist()
        keys = [] if isinstance(begun, MakeBatch) else begun.keys.tolist()
        at = snapshot.progress
        if keys and at.index in indices:
            own = keys[indices.index(at.index)]
            if at.instead is None:
                return f"index {at.index} (record_key {self._names.keyed([own])[0]})"
            index, other = at.instead
            key, own = self._names.keyed([other, own])
            return (
                f"index {index} (record_key {key}), "
                f"read instead of index {at.index} (record_key {own}), which is bad"
            )
        what = "a batch of" if isinstance(begun, MakeBatch) else "one of"
        more = ", …" if len(keys) > _MOST_KEYS else ""
        named = f" (record keys {', '.join(self._names.keyed(keys[:_MOST_KEYS]))}{more})" if keys else ""
        return f"{what} the indices {indices[0]}..{indices[-1]}{named}"


def _count(tasks: Sequence[Task]) -> str:
    return f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}"


def error_of(given_up: GiveUp, name: str) -> WorkerError:
    """The error of a pool that starts no more workers; `name` is that of the last one.

    >>> from loaderkit._engine.supervisor import GiveUp
    >>> print(error_of(GiveUp("late start", 1, "no sign of life for 60 s"), "worker process 9"))
    worker process 9 didn't get ready: no sign of life for 60 s
    """
    match given_up.cause:
        case "failed starts":
            return WorkerError(
                f"{given_up.count} workers in a row died before they were ready, the last with {given_up.reason}; "
                f"what they wrote to stderr says why. Their limits are this process's: {inherited_limits()}"
            )
        case "fruitless":
            return WorkerError(
                f"{given_up.count} workers in a row died and nothing was done meanwhile, "
                f"the last with {given_up.reason}; what they wrote to stderr may say why"
            )
        case "late start":
            return WorkerTimeoutError(f"{name} didn't get ready: {given_up.reason}")
