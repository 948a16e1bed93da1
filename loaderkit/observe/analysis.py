"""What limits a pipeline, from its figures: operational analysis, without a clock or a loader.

A pipeline with N workers makes at most N / D records a second, where D is the worker-seconds of a record. Processors
allow C / (D_cpu + T_cpu), reading threads N x threads / latency, and the trainer takes no more than its demand. The
smallest of these is the limit.
"""

from dataclasses import dataclass

from loaderkit._stats.stats import Stats
from loaderkit._stats.text import duration, percent

# Of the trainer's time: a gain below it can't be told from noise.
ENOUGH = 0.03
_BUSY = 0.85  # workers that are busy for this share are the limit
_ON_CPU = 0.6  # tasks that use a processor for this share compute; others wait


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that could be changed.

    what: as it is written. rate: records a second then, None where that isn't known. gain: by which factor. known: how,
    "measured", "interpolated" or "at most". same_stream: whether the stream stays the same.
    """

    what: str
    rate: float | None
    gain: float | None
    known: str
    same_stream: bool = True


@dataclass(frozen=True, slots=True)
class Limit:
    """What a pipeline is limited by.

    kind: "trainer", "workers", "processors", "reads", "operation", "calling thread", "memory", "bursts" or "unknown".
    what: in words, such as "operations[0] Map(decode) on CPU". part: the largest one of a record, None where unknown.
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
    if stats.waiting is None:
        return None
    if stats.waiting <= ENOUGH:
        return False
    return True if synchronous else None


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
    part = max(parts, key=lambda name: parts[name])
    share = parts[part] / (stats.seconds_per_record or 1.0)
    work = stats.pool.all
    on_cpu = (stats.cpu or 0.0) >= _ON_CPU
    where = f"{part} {'on CPU' if on_cpu else 'waiting'}"
    where += f" ({percent(share)} of a record's {duration(stats.seconds_per_record)})"
    if stats.waiting is not None and stats.waiting <= ENOUGH:
        return Limit("trainer", "the trainer", part)
    if not stats.workers:
        return Limit(
            "calling thread", f"the thread that calls next() does all the work, most of it {where}", part
        )
    if threads and part == "read" and not on_cpu:
        return Limit(
            "reads", f"reads, {threads} in flight in each worker, {duration(stats.read_latency)} each", part
        )
    if work.waiting > 0.3 * (work.wall - work.starting):
        return Limit("memory", "workers wait for memory: max_memory, or batches that the trainer holds", part)
    if stats.busy >= _BUSY:
        computing = stats.workers * stats.busy * (stats.cpu or 0.0)
        kind = "processors" if computing > 0.9 * processors else "reads" if part == "read" else "workers"
        return Limit(kind, where, part)
    if (stats.starving or 0.0) > 0.3:
        return Limit("bursts", "workers and trainer wait for each other in turn: work comes in bursts", part)
    return Limit("operation", where, part)


def advice_of(limit: Limit, *, workers: int, processors: int, threads: int) -> str:
    """What to try first, as it is written; "" where there is nothing to do."""
    match limit.kind:
        case "calling thread":
            return f"worker_count={max(1, processors)}"
        case "workers" | "operation":
            return f"worker_count={2 * max(workers, 1)}"
        case "processors":
            return f"a cheaper {limit.part}, or more processors"
        case "reads":
            return f"read_options=lk.ReadOptions(num_threads={max(2 * threads, 8)})"
        case "memory":
            return "a larger max_memory, or fewer batches held"
        case "bursts":
            return "a larger prefetch_batches"
    return ""


def rate_at(workers: float, measured: dict[int, float]) -> tuple[float, str]:
    """Records a second with so many workers, and how that is known.

    Between measured numbers it is interpolated. Beyond them it is at most in proportion: processors, memory and locks
    only make it less.

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
    nearest = below[-1] if below else above[0]
    return measured[nearest] * max(workers, 1) / max(nearest, 1), "at most"
