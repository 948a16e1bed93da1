"""The workers of other machines in one pool, as far as its pump has to do with them.

They come at any time, are asked again and again whether they are there, lose tasks for which they take too long, and go
at any time. What they are told of tasks, and tell, goes through the pump as with any worker behind a socket.
"""

import logging
import time
from collections.abc import Callable, Mapping

from loaderkit._base.system.limits import with_limits
from loaderkit._base.system.numerics import other_numerics
from loaderkit._runtime.remote.door import Offer
from loaderkit._runtime.remote.recruiter import News, Recruiter
from loaderkit._runtime.start.first_messages import pack_parcel
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.program import Program
from loaderkit._source.description import described
from loaderkit.errors import RemoteWorkerError

from .pool_state import PoolState
from .remote_worker import RemoteWorker

_log = logging.getLogger("loaderkit")

_LOOK_SECONDS = 0.4  # from one look at them to the next, at least
_FULL_LOOKS = 10  # in a row, before it is said that memory is short
# To arrive, once they are asked for: until then a pool doesn't judge whether it has enough workers.
_ARRIVE_SECONDS = 60.0


class RemoteCrew:
    """Workers of other machines for one pool.

    Args:
        recruiter: of the loader.
        program: what is run.
        level: of processors, as which workers compute; None for the present one.
        numerics: gives the last bits that workers of this machine compute, as far as that is known.

    Raises TransportError where the program can't be sent to other machines.
    """

    def __init__(
        self,
        recruiter: Recruiter,
        program: Program,
        level: str | None,
        numerics: Callable[[], Mapping[str, str]],
    ) -> None:
        self.recruiter = recruiter
        self.wanted = recruiter.wanted.count
        self.workers: dict[int, RemoteWorker] = {}  # by number; those that have ended leave with `left`
        self._packer = Packer()
        self._parcel = pack_parcel(program, self._packer)
        self._description = described(program.source)
        self._level, self._numerics = level, numerics
        self._news = News()
        self._refusals = 0
        self._refused: set[str] = set()  # hosts
        self._look_at = self._looked = 0.0
        self._resized = 0.0
        self._attached = False
        self._full, self._told_full = 0, False  # looks in a row

    # --- without the pool's lock --------------------------------------------------------------------------------

    def begin(self) -> int | None:
        """Asks for workers; a descriptor that is readable when `serve` has something to do, or None.

        Not before the pool's own workers have begun: what follows costs processor time here, and hosts are compared
        with what these compute.
        """
        if (
            self._attached
            or self.recruiter.closed
            or not self.wanted
            or not self._numerics().keys() - {"cpu"}
        ):
            return None
        offer = Offer(
            self._parcel,
            self._description,
            same_numerics=self.recruiter.wanted.other_cpus == "refuse",
            settings={} if self._level is None else {"level": self._level},
            numerics=self._numerics,
        )
        self._attached, self._resized = True, time.monotonic()
        try:
            return self.recruiter.attach(self, offer, self.wanted)
        except OSError as error:
            _log.warning("workers of other machines: %s; the workers here do all", with_limits(error))
            return None

    def serve(self, now: float) -> bool:
        """Lets workers in, and keeps them for `hire`; False where another pool of the loader has the door now."""
        news = self.recruiter.serve(self, now)
        if news is not None:
            self._news = news
        return news is not None

    # --- under the pool's lock ----------------------------------------------------------------------------------

    def end(self, state: PoolState) -> None:
        """Asks for workers no more, until the next `begin`; those that there are were dismissed."""
        self.recruiter.detach(self)
        for connection, _ in self._news.arrivals:
            connection.close()
        self._news, self._attached = News(), False
        if state.failed:
            for worker in self.workers.values():
                worker.kill()
        self.workers.clear()
        self.tell(state)

    def hire(self, state: PoolState) -> list[RemoteWorker]:
        """Makes those that were let in workers of the pool."""
        news, self._news = self._news, News()
        hired = []
        for connection, session in news.arrivals:
            worker = RemoteWorker(
                connection,
                session,
                state.arena,
                self._packer,
                state.dispatcher.is_current,
                state.dispatcher.request_space,
            )
            worker.number = state.supervisor.arrived(worker)
            state.take_place(worker.number)
            self.workers[worker.number] = worker
            state.dispatcher.ready(worker.number, elsewhere=worker.tasks_ahead)
            state.worker_log.hired(worker.name, worker.number, replaces=False)
            self._warn_of_other_bits(worker, session.answer["numerics"])
            hired.append(worker)
        for text in news.troubles:
            _log.warning("workers of other machines: %s", text)
        for why, host in news.refusals:
            self._refuse(state, why, host)
        return hired

    def _warn_of_other_bits(self, worker: RemoteWorker, theirs: dict[str, str]) -> None:
        differ = other_numerics(self._numerics(), theirs)
        if differ:
            _log.warning(
                "%s computes other last bits than workers here, in %s, which other_cpus='warn' allows: the stream "
                "depends on who reads what",
                worker.name,
                ", ".join(differ),
            )

    def _refuse(self, state: PoolState, why: str, host: str) -> None:
        first = host not in self._refused
        self._refused.add(host)
        self._refusals += 1
        early = time.monotonic() < self._resized + _ARRIVE_SECONDS  # later a run doesn't end for it
        if early and not self.recruiter.had_any and self._refusals >= self.wanted:
            state.give_up(RemoteWorkerError(f"no worker of another machine can be used; of {host}: {why}"))
        elif first:
            _log.warning("workers of other machines: host %s was refused: %s", host, why)

    def look(self, state: PoolState, now: float) -> list[RemoteWorker]:
        """Those that have ended without an event, if it is time to look at them."""
        if now < self._look_at:
            return []
        # Then this process was stopped, and hasn't read what came meanwhile.
        stopped = now - self._looked > 2 * _LOOK_SECONDS
        self._looked, self._look_at = now, now + _LOOK_SECONDS
        for number, worker in self.workers.items():
            worker.tick(now)
            for task, attempt in () if stopped else worker.withdraw(now):
                state.dispatcher.withdraw(number, task, attempt)
            state.dispatcher.look_again(number)
        self.tell(state)
        self._warn_of_memory(state)
        return [worker for worker in self.workers.values() if not worker.open]

    def let_go(self) -> None:
        """None are wanted any more; what they have is done here."""
        self.wanted = 0
        for worker in self.workers.values():
            worker.kill()

    def _warn_of_memory(self, state: PoolState) -> None:
        self._full = self._full + 1 if state.dispatcher.elsewhere_is_full else 0
        if self._full == _FULL_LOOKS and not self._told_full:
            self._told_full = True
            _log.warning(
                "the %d workers of other machines have work for a quarter of max_memory and get no more: a larger "
                "max_memory feeds more of them",
                len(self.workers),
            )

    def left(self, state: PoolState, number: int) -> None:
        """A worker has ended, of whatever kind it was."""
        if self.workers.pop(number, None) is not None:
            self.tell(state)

    def tell(self, state: PoolState) -> None:
        """Tells the pace how much may be under way."""
        workers = self.workers.values()
        tasks = sum(worker.tasks_ahead() for worker in workers)
        latency = sum(worker.pace.latency for worker in workers)
        state.pace.set_elsewhere(len(workers), tasks, latency)

    def resize(self, workers: int) -> None:
        """Another number of workers is wanted from now on."""
        if workers != self.wanted:
            self.wanted, self._resized = workers, time.monotonic()
            self.recruiter.resize(self, workers)

    def missing(self, now: float) -> int:
        """How many of the wanted ones may still arrive soon."""
        return max(0, self.wanted - len(self.workers)) if now < self._resized + _ARRIVE_SECONDS else 0
