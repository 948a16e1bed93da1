"""One process's side of the agreement on the last step, over the store; the rules are in _plan/ending.py.

It runs in the thread that calls next(); another thread can close the iterator while it waits.
"""

from loaderkit._order.store import Store
from loaderkit._plan.ending import Announcement, Ending, Verdict
from loaderkit.errors import IteratorClosedError

from .agreement import Wait, named

_PREFIX = "loaderkit/steps"


class EndOfStreamAgreement:
    """Decides for one pass over the data which steps this process may hand out.

    Args:
        store: of this process.
        name: of the stream, the same in all processes; the n-th passes of all processes under a name belong together.

    closed: once set, waiting raises IteratorClosedError.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._ending = Ending(store.process, store.processes)
        self._prefix = f"{_PREFIX}/{name}/{store.count(name)}/"
        self._key = f"{self._prefix}{store.process}"
        self._unsent: Announcement | None = None
        self.closed = False

    def before(self, step: int, *, sure: int) -> None:
        """To call before step `step` (the first is 1), one of `sure` steps with real rows, is handed out."""
        self._post(self._ending.before(step, sure=sure))

    def exhausted(self, total: int) -> None:
        """To call once this process's streams are exhausted after `total` steps."""
        self._post(self._ending.exhausted(total))

    def goes_past(self, step: int, total: int) -> bool:
        """Whether step `step`, for which this process has no rows, is made by others. total: this process's steps.

        Waits until that is known. Raises TimeoutError with the processes that don't announce it, and RuntimeError with
        those that stopped early.
        """
        self.exhausted(total)
        verdict = self._ending.past(step)
        wait = Wait(self._store)
        while verdict not in (Verdict.MASK, Verdict.END):
            self._hear()
            verdict = self._ending.past(step)
            if verdict is Verdict.ABANDONED:
                raise RuntimeError(
                    f"step {step}: processes {named(self._ending.stopped())} stopped before the end of their "
                    "data, by an error or by close(), so the number of steps can't be known"
                )
            if verdict is Verdict.WAIT and not wait.on(self._prefix):
                raise TimeoutError(
                    f"step {step}: this process has no more rows, and within {self._store.timeout:g} s processes "
                    f"{named(self._ending.awaited())} didn't announce whether they have any; did they stop?"
                )
            if self.closed:
                raise IteratorClosedError("the iterator was closed while it waited for other processes")
        return verdict is Verdict.MASK

    def stop(self) -> None:
        """Announces that this process stops early."""
        self._post(self._ending.stop())

    def _hear(self) -> None:
        found = self._store.read(self._prefix)
        self._ending.hear(
            {int(key.rpartition("/")[2]): Announcement.parse(value) for key, value in found.items()}
        )

    def _post(self, post: Announcement | None) -> None:
        # An announcement that an interrupt or an error of the store left unsent is sent by the next call.
        self._unsent = post or self._unsent
        if self._unsent is not None:
            self._store.post(self._key, self._unsent.text())
            self._unsent = None
