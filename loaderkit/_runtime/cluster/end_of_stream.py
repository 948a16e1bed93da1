"""One process's seat at the store where processes agree when a run ends; the rules are in _plan/ending.py.

All of it happens in the thread that asks for an element; another one can close the iterator while it waits.
"""

from loaderkit._order.store import Store
from loaderkit._plan.ending import Announcement, Ending, Verdict
from loaderkit.errors import IteratorClosedError

from .waiting import Wait, named

_PREFIX = "loaderkit/steps"


class EndOfStreamAgreement:
    """Says for one pass over the data which steps this process may hand out.

    Args:
        store: this process's.
        name: of the stream, the same in all processes; the n-th pass of each process under it is one pass.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._ending = Ending(store.process, store.processes)
        self._prefix = f"{_PREFIX}/{name}/{store.count(name)}/"
        self._key = f"{self._prefix}{store.process}"
        self._unsent: Announcement | None = None
        self.closed = False

    def before(self, step: int, *, sure: int) -> None:
        """Said before step number `step` (the first is 1) is handed out, a real one of `sure` that are coming."""
        self._post(self._ending.before(step, sure=sure))

    def exhausted(self, total: int) -> None:
        """Said as soon as no more rows of this process will come than those of `total` steps."""
        self._post(self._ending.exhausted(total))

    def goes_past(self, step: int, total: int) -> bool:
        """Whether step number `step` is made, of which this process has no rows; it has `total` steps.

        Waits until that is known. TimeoutError names the processes that don't say it, RuntimeError those that stopped.
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
                    "data, by an error or by close(), so it can't be known how many steps there are"
                )
            if verdict is Verdict.WAIT and not wait.on(self._prefix):
                raise TimeoutError(
                    f"step {step}: this process has no more rows, and within {self._store.timeout:g} s processes "
                    f"{named(self._ending.awaited())} didn't say whether they have any; did they stop?"
                )
            if self.closed:
                raise IteratorClosedError("the iterator was closed while it waited for other processes")
        return verdict is Verdict.MASK

    def stop(self) -> None:
        """Tells the others that this process goes no further."""
        self._post(self._ending.stop())

    def _hear(self) -> None:
        said = self._store.read(self._prefix)
        self._ending.hear(
            {int(key.rpartition("/")[2]): Announcement.parse(value) for key, value in said.items()}
        )

    def _post(self, post: Announcement | None) -> None:
        # Where an interrupt or the store's error came in between, it is sent with the next one.
        self._unsent = post or self._unsent
        if self._unsent is not None:
            self._store.post(self._key, self._unsent.text())
            self._unsent = None
