"""The shards of a set made on a cluster: who may write what, and which answer counts.

A task writes to a name of its own. The first answer of a shard counts: only here its file gets its name, and its
`.done` file is written. A later answer, and what a lost task goes on to write, change nothing. So the files are those
of one machine, and a run may go on there, or here again.
"""

import contextlib
import itertools
import logging
import os
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.numerics import numerics, other_numerics
from loaderkit._runtime.start.driver import ANSWER, LOST, Driver, Event
from loaderkit._runtime.transport.exceptions import unpack_exception
from loaderkit.errors import ClusterError

from .attempts import new_attempts, remove_attempts
from .cluster import ClusterWork
from .cluster_task import Answer, pack_program
from .shard_jobs import ShardJobs
from .shard_result import ShardResult

# Attempts of a shard that may be lost, each with its host or worker: one is chance, four are the shard.
_MOST_LOSSES = 3
# Tasks that a cluster knows of: as many hosts' processors as it may have, and a few megabytes there.
_UNDER_WAY = 1024
_log = logging.getLogger("loaderkit")


def cluster_results(jobs: ShardJobs, shards: Sequence[range], work: ClusterWork) -> Iterator[ShardResult]:
    """The results of all shards in order; those that are done are read, and the cluster isn't asked where all are.

    Args:
        jobs: of the shards.
        shards: the keys of each one's records, for errors.
        work: what goes to the cluster.

    An error of the user's function is raised in its place, as one machine does; ClusterError where a host is refused,
    a task was lost again and again, or the driver has ended.
    """
    done = {shard: result for shard in range(len(jobs)) if (result := jobs.finished(shard)) is not None}
    results: dict[int, ShardResult | Exception] = {**done}
    folder = os.path.dirname(jobs.files[0]) if jobs.files else None
    with contextlib.ExitStack() as stack:
        run: _Run | None = None
        if len(done) < len(jobs):
            attempts = None if folder is None else new_attempts(folder)
            if folder is not None:
                stack.callback(remove_attempts, folder)
            program = pack_program(work, jobs.make, len(jobs), attempts)
            driver = stack.enter_context(Driver(work.cluster.driver, work.cluster.settings(), program))
            run = _Run(jobs, shards, work, driver, results, iter(sorted({*range(len(jobs))} - done.keys())))
        for shard in range(len(jobs)):
            while shard not in results:
                assert run is not None
                run.advance()
            found = results.pop(shard)
            if isinstance(found, Exception):
                raise found
            yield found


@dataclass(slots=True)
class _Run:
    """The tasks of a run: those under way, those lost, and the results that came.

    Args:
        jobs, shards, work: as `cluster_results` has them.
        driver: has tasks done.
        results: gets them, by shard.
        coming: the shards that aren't done, in order.
    """

    jobs: ShardJobs
    shards: Sequence[range]
    work: ClusterWork
    driver: Driver
    results: dict[int, ShardResult | Exception]
    coming: Iterator[int]
    under_way: set[int] = field(default_factory=set)
    losses: Counter[int] = field(default_factory=Counter)
    numerics: dict[str, str] = field(default_factory=numerics)
    warned: set[str] = field(default_factory=set)  # hosts

    def advance(self) -> None:
        """Begins tasks, and waits for one event."""
        for shard in itertools.islice(self.coming, _UNDER_WAY - len(self.under_way)):
            self.under_way.add(shard)
            self.driver.begin(shard)
        self._handle(self.driver.next())

    def _handle(self, event: Event) -> None:
        shard = event.task
        if shard not in self.under_way:  # READY, or a late attempt
            return
        self.losses[shard] += event.kind == LOST
        if event.kind == LOST and self.losses[shard] <= _MOST_LOSSES:
            _log.info("shard %d is made again: %s", shard, event.body.decode())
            self.driver.begin(shard)
            return
        self.under_way.remove(shard)
        if event.kind == ANSWER:
            self.results[shard] = self._result(shard, Answer(*pickle.loads(event.body)))
            return
        keys = self.shards[shard]
        self.results[shard] = ClusterError(
            f"shard {shard}, records {keys.start} to {keys.stop - 1}, was lost {self.losses[shard]} times with the "
            f"worker or the host that made it, at last: {event.body.decode()}. Does a record need more memory than "
            "memory= asks for, or end its process? What is done stays: the same call goes on"
        )

    def _result(self, shard: int, answer: Answer) -> ShardResult | Exception:
        if answer.refused:
            raise ClusterError(f"host {answer.host} can't make shards of this run: {answer.refused}")
        self._compare_bits(answer)
        if answer.error is not None:
            return unpack_exception(answer.error)
        assert answer.made is not None
        fields, path = answer.made
        if path is not None and self.jobs.files is not None:
            try:
                os.replace(path, self.jobs.files[shard])
            except FileNotFoundError:
                raise ClusterError(
                    f"host {answer.host} has written {path}, which isn't there on this machine: path has to lie on "
                    "storage that all hosts share"
                ) from None
        return self.jobs.finish(shard, ShardResult(**fields))

    def _compare_bits(self, answer: Answer) -> None:
        """Of libraries, too, that were loaded for the first shards only."""
        others = other_numerics(self.numerics, answer.numerics)
        self.numerics = answer.numerics | self.numerics
        if not others or answer.host in self.warned:
            return
        told = f"{', '.join(others)} on host {answer.host} computes other last bits than on this machine or other hosts"
        if self.work.cluster.other_cpus == "refuse":
            raise ClusterError(f"{told}, as on another kind of processor; other_cpus='warn' takes them")
        self.warned.add(answer.host)
        _log.warning("%s; its shards may differ in them", told)
