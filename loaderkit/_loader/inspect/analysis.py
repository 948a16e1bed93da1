"""What limits a pipeline, from its figures: operational analysis, without a clock or a loader.

A pipeline with N workers makes at most N / D records a second, where D is the worker-seconds of a record. C processors
allow C / D_cpu, reading threads N x threads / latency, threads of one interpreter 1 / D_cpu, and the trainer takes no
more than its demand. The smallest of these is the limit.
"""

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._engine.stats.stats import Stats
from loaderkit._engine.stats.text import counted, duration, percent

# Of the trainer's time: a gain below it can't be told from noise.
ENOUGH = 0.03
FEWEST_STEPS = 3  # the first is the opening's; of fewer nothing is said
_BUSY = 0.85  # workers that are busy for this share are the limit
_ON_CPU = 0.6  # tasks that use a processor for this share compute; others wait for something else
_DELAYED = 0.3  # tasks that wait for a processor for this share: there are too few processors
_STARVING = 0.15  # workers without a task for this share, while next() is blocked, wait for the trainer and it for them
_READY = 0.5  # steps that don't wait, if others wait because work comes in bursts
_COPIED = 0.5  # of the bytes that were made: then max_memory is the reason
_HAND_OVER = 0.1  # the loader's own code in next(), of the trainer's time
_ONE_LOCK = (0.7, 1.6)  # processors that threads under one interpreter lock use, or wait for, together
MOST_READS = 64  # reading threads of a worker that are advised


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that could be changed.

    Attributes:
        what: as it is written.
        rate: records a second then, None where that isn't known.
        gain: by which factor.
        known: how, "measured", "interpolated" or "at most".
        same_stream: whether the stream stays the same.
    """

    what: str
    rate: float | None
    gain: float | None
    known: str
    same_stream: bool = True


@dataclass(frozen=True, slots=True)
class Limit:
    """What a pipeline is limited by.

    Attributes:
        kind: "trainer", "hand-over", "workers", "processors", "interpreter lock", "reads", "operation", "calling
            thread", "memory", "bursts" or "unknown".
        what: in words, such as "operations[0] Map(decode) on CPU".
        part: the largest one of a record, None where unknown.
    """

    kind: str
    what: str
    part: str | None = None


def is_bottleneck(stats: Stats, *, synchronous: bool) -> bool | None:
    """Whether the trainer loses time to the loader; None where that isn't known.

    Args:
        stats: of an iterator.
        synchronous: whether a step has ended when its call returns, so that a blocked next() is lost time. Under JAX it
            isn't: then `it.watch(loss)` has to tell.
    """
    if stats.exposed_waiting is not None:
        return stats.exposed_waiting > ENOUGH
    if stats.waiting is None or (stats.steps or 0) < FEWEST_STEPS:
        return None
    if stats.waiting > ENOUGH or (stats.handing or 0.0) > _HAND_OVER:
        return True if synchronous else None
    return False


def is_on_cpu(stats: Stats) -> bool:
    """Whether the workers' tasks compute rather than wait; the time in which they wait for a processor is left out."""
    return (stats.cpu or 0.0) >= _ON_CPU * (1 - (stats.delayed or 0.0))


def limit_of(stats: Stats, *, processors: int, threads: int) -> Limit:
    """What limits the workers, from counters alone.

    Args:
        stats: of an iterator or a loader.
        processors: that the loader's processes may use.
        threads: reading threads of each worker.
    """
    parts = stats.parts
    if not parts or stats.busy is None:
        return Limit("unknown", "nothing was made yet")
    if stats.steps is not None and stats.steps < FEWEST_STEPS:
        return Limit("unknown", f"{counted(stats.steps, 'element')} handed out, too few to tell")
    part = max(parts, key=lambda name: parts[name])
    of_record = f"({percent(share_of(stats, part))} of a record's {duration(stats.seconds_per_record)})"
    where = f"{part} {'on CPU' if is_on_cpu(stats) else 'waiting'} {of_record}"
    handing = stats.handing or 0.0
    if stats.waiting is not None and handing > max(_HAND_OVER, stats.waiting):
        what = f"handing elements over, {percent(handing)} of the trainer's time"
        if stats.pool.copied > _COPIED * stats.pool.all.nbytes:
            return Limit("memory", f"{what}: batches are copied for want of memory", part)
        return Limit("hand-over", what, part)
    if stats.waiting is not None and stats.waiting <= ENOUGH:
        return Limit("trainer", "the trainer", part)
    if not stats.workers:
        return Limit(
            "calling thread", f"the thread that calls next() does all the work, most of it {where}", part
        )
    # Work in bursts leaves workers without a task, though next() is blocked at other times, for a few steps. Where most
    # steps wait, workers were without a task for another reason, such as the compilation of the first step.
    busy, starving = while_running(stats)
    if busy < _BUSY and starving > _STARVING and (stats.ready or 0.0) > _READY:
        return Limit(
            "bursts",
            f"workers and trainer wait for each other in turn: work comes in bursts, most of it {where}",
            part,
        )
    if part == "read":
        if threads and stats.read_latency is not None:
            what = f"reads, {threads} in flight in each worker, {duration(stats.read_latency)} each"
            return Limit("reads", what, part)
        return Limit("reads", where, part)
    kind = _kind_of_workers(stats, busy, processors)
    if kind == "interpreter lock":
        where = f"{part} in threads that share one interpreter lock {of_record}"
    return Limit(kind, where, part)


def share_of(stats: Stats, part: str) -> float:
    """Of the workers' time for a record, that of one part; 0 for one that isn't known."""
    return stats.parts.get(part, 0.0) / (stats.seconds_per_record or 1.0)


def while_running(stats: Stats) -> tuple[float, float]:
    """The shares of the workers' time in which they were busy, and had no task, without the trainer's pauses."""
    work = stats.pool.all
    paused = 0 if stats.trainer is None else stats.trainer.paused * max(1, stats.workers)
    paused = min(paused, work.starving)
    wall = max(1, work.wall - work.starting - paused)
    return (work.working + work.telling) / wall, (work.starving - paused) / wall


def _kind_of_workers(stats: Stats, busy: float, processors: int) -> str:
    cpu, delayed = stats.cpu or 0.0, stats.delayed or 0.0
    used = stats.workers * busy * cpu  # processors
    wanted = stats.workers * busy * (cpu + delayed)
    if stats.pool.kind == "thread" and stats.workers > 1 and _ONE_LOCK[0] <= wanted <= _ONE_LOCK[1]:
        return "interpreter lock"
    if used > 0.9 * processors or (delayed > _DELAYED and is_on_cpu(stats)):
        return "processors"
    # Then workers with nothing to do are of a short time.
    waits = stats.ready is not None and stats.ready <= _READY
    return "workers" if busy >= _BUSY or waits else "operation"


def more_reads(limit: Limit, threads: int) -> int | None:
    """How many reading threads of a worker to try; None where no more of them lift the limit.

    >>> more_reads(Limit("reads", "read waiting", "read"), 8), more_reads(Limit("trainer", "", "read"), 8)
    (16, None)
    """
    waits = limit.kind == "reads" or (limit.kind == "calling thread" and limit.part == "read")
    if not waits or "read on CPU" in limit.what or threads >= MOST_READS:
        return None
    return reads_to_try(threads)


def advice_of(limit: Limit, *, workers: int, processors: int, threads: int) -> str:
    """What to try first, as it is written; "" where there is nothing to do."""
    if (reads := more_reads(limit, threads)) is not None:
        return f"read_options=lk.ReadOptions(num_threads={reads})"
    match limit.kind:
        case "calling thread":
            return f"worker_count={max(1, processors)}"
        case "workers" | "operation":
            count = 2 * max(workers, 1)
            if " on CPU " in limit.what and count > processors:
                if workers >= processors:
                    return f"a cheaper {limit.part}, or more processors"
                count = processors
            return f"worker_count={count}"
        case "processors":
            return f"a cheaper {limit.part}, or more processors"
        case "interpreter lock":
            return 'worker_kind="process"'
        case "reads":
            return f"worker_count={2 * max(workers, 1)}"
        case "memory":
            return "a larger max_memory, or fewer batches held"
        case "bursts":
            return "a larger prefetch_batches"
        case "hand-over":
            return "a larger batch_size"
    return ""


def reads_to_try(threads: int) -> int:
    """Reading threads of a worker to try next.

    >>> reads_to_try(0), reads_to_try(8), reads_to_try(48)
    (8, 16, 64)
    """
    return min(max(2 * threads, 8), MOST_READS)


def rate_at(workers: float, measured: dict[int, float]) -> tuple[float, str]:
    """Records a second with so many workers, and how that is known.

    Between measured numbers it is interpolated. Beyond them it is at most in proportion: processors, memory and locks
    only make it less. Fewer workers than all measured ones make at most what the fewest of these made.

    Args:
        workers: asked for, 1 or more.
        measured: records a second by number of workers; one at least.

    >>> rate_at(2, {1: 100.0, 4: 250.0}), rate_at(8, {1: 100.0, 4: 250.0})
    ((150.0, 'interpolated'), (500.0, 'at most'))
    """
    known = sorted(measured)
    if workers in measured:
        return measured[int(workers)], "measured"
    below = [count for count in known if count < workers]
    above = [count for count in known if count > workers]
    if below and above:
        low, high = below[-1], above[0]
        part = (workers - low) / (high - low)
        return measured[low] + part * (measured[high] - measured[low]), "interpolated"
    if not below:
        return measured[above[0]], "at most"
    return measured[below[-1]] * workers / max(below[-1], 1), "at most"
