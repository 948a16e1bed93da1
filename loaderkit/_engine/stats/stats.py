"""`Stats`: the figures of a loader that `it.stats()` gives, with what follows from them, as text, HTML and scalars."""

import itertools
from collections.abc import Mapping
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, field, fields, replace

from .counters import CorpusCounters, Exposed, PoolCounters, TrainerCounters, WorkerCounters
from .text import html_of, line_of, lines_of, rows_of

_NS = 1e9
new_number = itertools.count(1).__next__  # for what gives snapshots, in this process


@dataclass(frozen=True, slots=True)
class Stats:
    """What a loader's iterator and its workers did, from `iter(loader)` on, or between two snapshots.

    `later - earlier` is the interval between two of one iterator or one loader; ValueError for others. A figure that
    isn't known is None, and "unknown" in texts.

    Attributes:
        trainer: of the thread that takes the elements; None for a loader's own `stats()`.
        pool: of the workers, which all iterators of a loader share.
        step: that of the iterator; None for a loader.
        exposed: what `it.watch(loss)` saw, None without it.
        of: the number of the iterator or loader in this process.
        at: when it was taken, by perf_counter_ns.
        of_interval: whether it is a difference.
        corpora: of a mixture each component, by name.

    >>> import loaderkit as lk
    >>> it = iter(lk.load(range(100), num_epochs=1, batch_size=10))
    >>> before = it.stats()
    >>> batches = [next(it) for _ in range(5)]
    >>> (it.stats() - before).steps, it.stats().pool.all.records >= 50
    (5, True)
    """

    trainer: TrainerCounters | None
    pool: PoolCounters
    step: int | None = None
    exposed: Exposed | None = None
    of: int = 0
    at: int = 0
    of_interval: bool = False
    corpora: Mapping[str, CorpusCounters] = field(default_factory=dict)

    def __sub__(self, earlier: "Stats") -> "Stats":
        if not isinstance(earlier, Stats):
            return NotImplemented
        if self.of_interval or earlier.of_interval:
            raise ValueError("stats: expected two snapshots, got an interval; subtract what stats() gave")
        if self.of != earlier.of or (self.trainer is None) != (earlier.trainer is None):
            raise ValueError(
                "stats: expected two snapshots of one iterator or of one loader, got those of two; subtract what the "
                "same one gave earlier"
            )
        if self.at < earlier.at:
            raise ValueError("stats: expected later - earlier, got earlier - later; turn them round")
        trainer, exposed = self.trainer, self.exposed
        if trainer is not None and earlier.trainer is not None:
            trainer = trainer.minus(earlier.trainer)
        if exposed is not None and earlier.exposed is not None:
            exposed = exposed.minus(earlier.exposed)
        corpora = {
            name: now.minus(earlier.corpora.get(name, CorpusCounters())) for name, now in self.corpora.items()
        }
        pool = self.pool.since(earlier.pool)
        return replace(self, trainer=trainer, pool=pool, exposed=exposed, of_interval=True, corpora=corpora)

    # --- of the trainer -----------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float | None:
        """Seconds since the first element was there, or of the interval; without pauses see `running`."""
        return None if self.trainer is None else self.trainer.elapsed / _NS

    @property
    def running(self) -> float | None:
        """Seconds without pauses and without openings: what all shares of the trainer's time are of."""
        if self.trainer is None:
            return None
        mine = self.trainer
        return max(0, mine.elapsed - mine.paused - mine.opening_since_first) / _NS

    @property
    def steps(self) -> int | None:
        """Elements handed out."""
        return None if self.trainer is None else self.trainer.elements

    @property
    def steps_per_second(self) -> float | None:
        """Elements handed out while it ran; the first, which came before that, isn't among them."""
        if self.trainer is None or (self.trainer.elements and not self.trainer.after_first):
            return None
        return _over(self.trainer.after_first, self.running)

    @property
    def bad_records(self) -> int | None:
        """Bad records of the elements handed out; None for a loader."""
        return None if self.trainer is None else self.trainer.bad_records

    @property
    def own(self) -> float | None:
        """The share of the trainer's time in the user's code, from 0 to 1.

        Under JAX that isn't the time of the device, which works on while next() is blocked: see `exposed_waiting`.
        """
        return self._share("own")

    @property
    def waiting(self) -> float | None:
        """The share in which next() was blocked, from 0 to 1: by the workers, or by work of its own without workers."""
        return self._share("waiting")

    @property
    def handing(self) -> float | None:
        """The share in the loader's own code, from 0 to 1."""
        return self._share("handing")

    @property
    def placing(self) -> float | None:
        """The share in which batches were sent to devices, from 0 to 1."""
        return self._share("placing")

    @property
    def ready(self) -> float | None:
        """The share of elements that were ready when they were asked for, from 0 to 1; openings are left out."""
        if self.trainer is None:
            return None
        return _over(self.trainer.ready, self.trainer.elements - self.trainer.openings)

    @property
    def exposed_waiting(self) -> float | None:
        """The share of the trainer's time in which the device had nothing to do and next() was blocked, from 0 to 1.

        From the calls that `it.watch(loss)` judged, about one a second; None without it. Where no call was blocked
        since, it is 0.
        """
        if self.exposed is None or self.waiting is None:
            return None
        if not self.exposed.judged:
            return 0.0 if self.trainer is not None and not self.trainer.blocked_calls else None
        return self.waiting * (self.exposed.share or 0.0)

    def _share(self, name: str) -> float | None:
        return None if self.trainer is None else _over(getattr(self.trainer, name) / _NS, self.running)

    # --- of the workers -----------------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """Workers of the loader, also while one is replaced and after their end; 0 where the thread of next() works."""
        return 0 if self.pool.kind == "inline" else self.pool.wanted or len(self.pool.workers)

    @property
    def busy(self) -> float | None:
        """The share of the workers' time in which they worked or told of it, from 0 to 1."""
        work = self.pool.all
        return _over(work.working + work.telling, work.wall - work.starting)

    @property
    def starving(self) -> float | None:
        """The share of the workers' time in which they had no task, from 0 to 1."""
        work = self.pool.all
        return _over(work.starving, work.wall - work.starting)

    @property
    def cpu(self) -> float | None:
        """The share of their tasks' time in which the workers used a processor, from 0 to 1."""
        work = self.pool.all
        return None if work.cpu is None else _over(work.cpu, work.working - work.unfinished)

    @property
    def delayed(self) -> float | None:
        """The share of their tasks' time in which the workers waited for a processor; None where that isn't known."""
        work = self.pool.all
        if work.delayed is None:
            return None
        share = _over(work.delayed, work.working - work.unfinished + work.telling)
        return None if share is None else min(1.0, share)

    @property
    def seconds_per_record(self) -> float | None:
        """Seconds of a worker for each record read."""
        work = self.pool.all
        return _over((work.working - work.unfinished + work.telling) / _NS, work.records)

    @property
    def parts(self) -> dict[str, float]:
        """Where the workers' busy time goes: seconds a record by "read", each operation, "batch" and "engine".

        "engine" is the rest, loaderkit's own code. Empty before the first record.
        """
        work = self.pool.all
        if not work.records:
            return {}
        named = [
            ("read", work.read),
            *((op.name, op.nanoseconds) for op in work.operations),
            ("batch", work.batch),
        ]
        rest = work.working - work.unfinished + work.telling - sum(nanoseconds for _, nanoseconds in named)
        return {
            name: nanoseconds / _NS / work.records for name, nanoseconds in [*named, ("engine", max(0, rest))]
        }

    @property
    def records_per_second(self) -> float | None:
        """Records of the elements handed out, as `steps_per_second`; dropped ones are among them, and none read ahead.

        Where operations change the number of rows, or several shards share the last step, it is about that.
        """
        steps, trainer = self.steps_per_second, self.trainer
        if steps is None or trainer is None:
            return None
        return steps * trainer.records / max(trainer.elements, 1)

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes of the elements handed out, about: as many for each record as the workers made for each they read."""
        work, records = self.pool.all, self.records_per_second
        return None if records is None else _over(records * work.nbytes, work.records)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens in packed rows of the elements handed out, as `bytes_per_second`; None where no rows are packed."""
        work, records = self.pool.all, self.records_per_second
        return None if records is None or not work.tokens else _over(records * work.tokens, work.records)

    @property
    def fill(self) -> float | None:
        """The share of the places of packed rows that has tokens, from 0 to 1; None where no rows are packed."""
        return _over(self.pool.all.tokens, self.pool.all.places)

    def tokens_of(self, corpus: str) -> float | None:
        """Tokens of a component of a mixture, about: its rows, each with as many as all have in the mean.

        Args:
            corpus: its name; KeyError for another.
        """
        work, records = self.pool.all, self.corpora[corpus].records
        return _over(records * work.tokens, work.records) if work.tokens else None

    @property
    def read_latency(self) -> float | None:
        """Seconds of a read of the reading threads; None without these."""
        work = self.pool.all
        return _over(work.threads_read / _NS, work.threads_read_calls)

    @property
    def reads_in_flight(self) -> float | None:
        """Reads of the reading threads that were in flight at once, in the mean; None without these."""
        work = self.pool.all
        return _over(work.threads_read, work.wall - work.starting) if work.threads_read_calls else None

    # --- for others ---------------------------------------------------------------------------------------------

    def scalars(self) -> dict[str, float]:
        """Figures by name, for a metric writer: `writer.write_scalars(it.step, it.stats().scalars())`.

        Names don't change in a release. Those that aren't known are left out.

        >>> import loaderkit as lk
        >>> it = iter(lk.load([1, 2, 3]))
        >>> next(it)
        1
        >>> it.stats().scalars()["loader/steps"]
        1.0
        """
        named: dict[str, float | None] = {
            "loader/steps": self.steps,
            "loader/steps_per_second": self.steps_per_second,
            "loader/records_per_second": self.records_per_second,
            "loader/bytes_per_second": self.bytes_per_second,
            "loader/tokens_per_second": self.tokens_per_second,
            "loader/fill": self.fill,
            "trainer/own": self.own,
            "trainer/waiting": self.waiting,
            "trainer/handing": self.handing,
            "trainer/placing": self.placing,
            "trainer/ready": self.ready,
            "trainer/exposed": self.exposed_waiting,
            "workers/count": self.workers,
            "workers/busy": self.busy,
            "workers/starving": self.starving,
            "workers/cpu": self.cpu,
            "workers/seconds_per_record": self.seconds_per_record,
            "workers/lost": self.pool.lost,
            "reads/latency": self.read_latency,
            "reads/in_flight": self.reads_in_flight,
            "memory/mapped": self.pool.mapped,
            "memory/held": self.pool.leased,
            "faults/bad_records": self.bad_records,
        }
        named.update((f"seconds_per_record/{name}", seconds) for name, seconds in self.parts.items())
        for name, corpus in self.corpora.items():
            named[f"corpus/{name}/records"], named[f"corpus/{name}/epochs"] = corpus.records, corpus.epochs
            named[f"corpus/{name}/tokens"] = self.tokens_of(name)
        return {name: float(value) for name, value in named.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """All counters as JSON values, nanoseconds as they are."""
        made = {
            "step": self.step,
            "bad_records": self.bad_records,
            "trainer": None if self.trainer is None else _fields_of(self.trainer),
            "exposed": None if self.exposed is None else _fields_of(self.exposed),
            "corpora": {name: _fields_of(corpus) for name, corpus in self.corpora.items()},
            "workers": [_worker_json(worker) for worker in self.pool.workers],
            "ended": _worker_json(self.pool.ended),
            "places": [_worker_json(worker) for worker in self.pool.places],
        }
        pool = _fields_of(self.pool)
        return {
            **made,
            **{name: value for name, value in pool.items() if name not in ("workers", "ended", "places")},
        }

    def line(self) -> str:
        """One line for a log."""
        return line_of(self)

    def __str__(self) -> str:
        return "\n".join(lines_of(rows_of(self)))

    def _repr_html_(self) -> str:
        return html_of(rows_of(self))


def _over(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole or whole <= 0 else part / whole


def _fields_of(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _worker_json(worker: WorkerCounters) -> dict[str, Any]:
    return {**_fields_of(worker), "operations": [_fields_of(operation) for operation in worker.operations]}
