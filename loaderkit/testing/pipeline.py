"""Whether a loader's operations are functions of their arguments, checked by running them in several ways.

All ways must give the same elements. Where two don't, ever longer beginnings of the pipeline are run in both: the
first that differs ends with the operation at fault, and further runs find out what it depends on.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import Any

import numpy as np

from loaderkit._base.notes import annotate
from loaderkit._base.numbers import at_least
from loaderkit._base.tree import paths
from loaderkit._loader.loader import DataLoader, settings_of, variant_of
from loaderkit._order.sharding import NoSharding
from loaderkit.errors import PurityError
from loaderkit.transforms.base import Transformation, function_of, label_of, operation_name, seeds
from loaderkit.transforms.seeding import SeededCall

from .conformance import kept_global_generators
from .progress import ProgressLine
from .snapshot import Difference, Snapshot, difference, snapshot_of
from .user_code import UserCode
from .watched_source import WatchedSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """What `check_pipeline` ran and found equal.

    Attributes:
        batches: number of compared elements, less than requested where the stream ends before.
        indices: number of indices that they took, over all shards.
        leaves: paths of the first element's leaves, "" for an element that is a leaf.
        operations: labels, in order.
        runs: the ways in which the pipeline was run.
        shared: names of operations that can't be copied: what the first run left in them isn't seen.

    >>> PipelineReport(
    ...     batches=8, indices=256, leaves=("['x']",), operations=("Batch(batch_size=32)",), runs=()
    ... )
    PipelineReport(batches=8, indices=256, leaves=("['x']",), operations=('Batch(batch_size=32)',), runs=(), shared=())
    """

    batches: int
    indices: int
    leaves: tuple[str, ...]
    operations: tuple[str, ...]
    runs: tuple[str, ...]
    shared: tuple[str, ...] = ()


_MOST = 10_000  # elements of a beginning of the pipeline that has no Batch yet
_CLOCK_SECONDS = 1.1  # between two runs, so that a clock of whole seconds shows
_ENTERED = 64  # elements, or records, that a run in another order looks at
Found = dict[int, Snapshot]  # by step
Way = Callable[["_Pipeline"], Found]


def check_pipeline(loader: DataLoader, batches: int = 8, *, progress: bool | None = None) -> PipelineReport:
    """Runs the first batches in this process, again, in another order, with 1 and with 3 workers: all must agree.

    The first thing to run on a new loader. The loader itself isn't iterated, and its source is in the end as it was;
    nothing else may read it meanwhile.

    Each run has copies of the user's code as it was before the first, pickled as for worker processes: of operations
    with the data that they hold, `on_record_error`, and the functions of each MapDataSource. The source's data isn't
    copied; a table in an operation takes its time and memory again for each run. So no run fills what the next one
    uses, but where no copy has it: in an imported module and its classes (a worker that is a process imports it anew),
    in a global that a script's class uses, in compiled code, and in operations that can't be copied, since threads
    alone can run them or they know an object of the source by its identity. There it may miss what is kept from the
    first record.

    Args:
        loader: any; its workers' kind is used.
        batches: elements to look at, at least 2; fewer if the stream ends before.
        progress: whether a line on stderr says how far it is; None where that is a terminal.

    Returns what was compared. Raises PurityError, an AssertionError, naming the operation and the leaf that differ, and
    what it probably does: draws from a global generator, reads a clock, keeps something from record to record, depends
    on its process, or writes into an array of the source. What an operation raises itself is raised here too.

    >>> import loaderkit as lk
    >>> loader = lk.load([1.5, 2.5, 3.5], batch_size=2, operations=[lambda x: x * np.random.random()])
    >>> try:
    ...     check_pipeline(loader, batches=2)
    ... except PurityError as error:
    ...     print(error.operation)
    operations[0] Map(<lambda>)
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(
            f"check_pipeline: expected a DataLoader, got {type(loader).__name__}; give the loader itself"
        )
    if progress is not None and not isinstance(progress, bool):
        raise TypeError(f"progress: expected True, False or None, got {progress!r}")
    batches = at_least("batches", batches, 2)
    shown = ProgressLine(shown=progress, name="check_pipeline", stages=2 + len(_WAYS))
    with kept_global_generators(), shown:
        settings = settings_of(loader)
        with UserCode(settings) as code:
            return _checked(_Pipeline(loader, batches, len(settings.operations), shown, code))


def _checked(whole: "_Pipeline") -> PipelineReport:
    begun = time.monotonic()
    whole.progress.stage(_FIRST)
    try:
        expected = _here(whole)
    except Exception:  # noqa: BLE001 - what the user's code itself raises it raises again
        whole.code.share()
        expected = _here(whole)
    whole.progress.stage("in this process, with a look at the source's arrays")
    _check_writes(whole)
    for name, way in _WAYS.items():
        whole.progress.stage(name)
        if name == "in another order":
            _wait_until(begun + _CLOCK_SECONDS)
        try:
            found = _first_difference(expected, way(whole))
        except PurityError:
            raise
        except Exception as error:
            annotate(error, f"raised while the pipeline ran {name}; in this process it raised nothing")
            raise
        if found is not None:
            raise _blame(whole, name, *found)
    return PipelineReport(
        batches=len(expected),
        indices=whole.indices,
        leaves=paths(expected[0].structure) if expected else (),
        operations=tuple(map(label_of, whole.operations)),
        runs=(_FIRST, *_WAYS),
        shared=whole.code.shared,
    )


# --- ways to run a pipeline ------------------------------------------------------------------------------------------


@dataclass
class _Pipeline:
    """The first `count` operations of a loader, and how far to run them: `last_index` is where the whole one got."""

    loader: DataLoader
    batches: int
    count: int
    progress: ProgressLine
    code: UserCode
    last_index: int | None = None
    indices: int = 0  # that the whole one took

    @property
    def operations(self) -> tuple[Transformation, ...]:
        return settings_of(self.loader).operations[: self.count]

    @property
    def whole(self) -> bool:
        return self.count == len(settings_of(self.loader).operations)

    def watched(self) -> WatchedSource:
        """The loader's source, which says what was written into its arrays."""
        return WatchedSource(settings_of(self.loader).source)

    def beginning(self, count: int) -> "_Pipeline":
        return _Pipeline(self.loader, self.batches, count, self.progress, self.code, self.last_index)

    @contextmanager
    def made(self, **changes: Any) -> Iterator[DataLoader]:
        """A loader for a run, with unused copies of the user's code."""
        with self.code.unused() as copies, self.loader_of(copies, **changes) as loader:
            yield loader

    def loader_of(self, copies: dict[str, Any], **changes: Any) -> DataLoader:
        """A loader that leaves the user's quarantine file alone.

        Args:
            copies: of the user's code, as settings.
            changes: of the loader's settings.
        """
        # Without a level: this process has none, and whether an operation is pure doesn't depend on it.
        changes = {"quarantine": None, "cpu": None, **changes}
        if not self.whole:  # a beginning may have no Batch to shard, fewer rows than streams, and more steps
            changes = {
                "sharding": NoSharding(),
                "logical_streams": 1,
                "num_steps": None,
                **changes,
            }
        operations = copies["operations"][: self.count]
        return variant_of(self.loader, **{**copies, **changes, "operations": operations})

    def take(self, it: Any) -> Iterator[Snapshot]:
        """The elements of the run; of a beginning as many as the whole pipeline's records gave."""
        taken = 0
        while taken < self.batches if self.whole else it.index < (self.last_index or 0) and taken < _MOST:
            try:
                element = next(it)
            except StopIteration:
                return
            yield snapshot_of(element)
            taken += 1
            self.progress.count(taken, f"of {self.batches} batches" if self.whole else "elements")


def _here(pipeline: _Pipeline, runs: int = 1, **changes: Any) -> Found:
    """The last of some runs with the same copies."""
    found: Found = {}
    with pipeline.code.unused() as copies:
        for _ in range(runs):
            settings = {**changes, "worker_count": 0, "source": pipeline.watched()}
            with pipeline.loader_of(copies, **settings) as loader, iter(loader) as it:
                first = it.index
                found = dict(enumerate(pipeline.take(it)))
                if pipeline.whole and pipeline.last_index is None:
                    pipeline.last_index, pipeline.indices = it.index, it.index - first
    return found


def _backwards(workers: int) -> Way:
    """Element by element from the last to the first, each entered by its saved state."""

    def run(pipeline: _Pipeline) -> Found:
        source = pipeline.watched()
        with pipeline.made(worker_count=0, source=source) as loader, iter(loader) as it:
            states = [it.get_state(), *(it.get_state() for _ in pipeline.take(it))]
        last = len(states) - 2
        steps = {last * k // (_ENTERED - 1) for k in range(_ENTERED)} if last >= _ENTERED else range(last + 1)
        watched = {} if workers else {"source": source}
        found = {}
        with pipeline.made(worker_count=workers, **watched) as loader, iter(loader) as it:
            for step in sorted(steps, reverse=True):
                it.set_state(states[step])
                for element in islice(it, 1):  # there may be none where a Filter isn't pure
                    found[step] = snapshot_of(element)
        return found

    return run


def _workers(count: int) -> Way:
    def run(pipeline: _Pipeline) -> Found:
        task_rows = 1 if count > 1 else None  # with 1, neighbours are made by different workers
        with pipeline.made(worker_count=count, task_rows=task_rows) as loader, iter(loader) as it:
            return dict(enumerate(pipeline.take(it)))

    return run


_WAYS: dict[str, Way] = {
    "in this process again": partial(_here, runs=2),
    "in another order": _backwards(0),
    "with 1 worker, in another order": _backwards(1),
    "with 3 workers": _workers(3),
}
_FIRST = "in this process"
_IN_THIS_PROCESS = ("in this process again", "in another order")


def _first_difference(expected: Found, found: Found) -> tuple[int, Difference] | None:
    for step in sorted(found.keys() & expected.keys()):
        differs = difference(expected[step], found[step])
        if differs is not None:
            return step, differs
    ends = max(expected, default=-1), max(found, default=-1)
    if ends[0] != ends[1]:
        one, other = ("there", "missing") if ends[0] > ends[1] else ("missing", "there")
        return min(ends) + 1, Difference("", one, other)
    return None


# --- the operation at fault -----------------------------------------------------------------------------------------


def _check_writes(whole: _Pipeline) -> None:
    if _written_by(whole) is None:
        return
    for count in range(whole.count + 1):
        pipeline = whole.beginning(count)
        written = _written_by(pipeline)
        if written is not None:
            record_key, path = written
            label = _label(pipeline)
            raise PurityError(
                f"{label} writes into an array of the source, {path or 'the record itself'} of record_key "
                f"{record_key}: the next read of that record gets what was written. Copy first: x = x.copy()",
                operation=label,
                leaf=path,
            )


def _written_by(pipeline: _Pipeline) -> tuple[int, str] | None:
    source = pipeline.watched()
    with pipeline.made(worker_count=0, source=source) as loader, iter(loader) as it:
        for _ in pipeline.take(it):
            pass
    return source.written()


def _blame(whole: _Pipeline, name: str, step: int, differs: Difference) -> PurityError:
    # What is kept from record to record may be the same at the start of each run, and shows in another order.
    names = _IN_THIS_PROCESS if name in _IN_THIS_PROCESS else (name,)
    whole.progress.stage(f"{name} it differs: looking for the operation at fault")
    begun = time.monotonic()
    beginnings = [whole.beginning(count) for count in range(whole.count + 1)]
    expected = [_here(beginning) for beginning in beginnings]
    _wait_until(begun + _CLOCK_SECONDS)
    for (beginning, here), tried in product(zip(beginnings, expected, strict=True), names):
        found = _first_difference(here, _WAYS[tried](beginning))
        if found is not None:
            behind = "" if beginning.whole else f" (seen at step {step} of the whole pipeline)"
            return _blamed(beginning, tried, *found, behind)
    where = f"leaf {differs.path}" if differs.path else "the element itself"
    return PurityError(
        f"the operations aren't functions of what they are given: {where} of element {step} is {differs.one} in this "
        f"process and {differs.other} {name}. It didn't show again when they were tried one by one: something is kept "
        "in a module, its classes or compiled code, or differs rarely. Give each to check_operation in a new process",
        operation="operations",
        leaf=differs.path,
    )


def _blamed(faulty: _Pipeline, name: str, element: int, leaf: Difference, behind: str) -> PurityError:
    label = _label(faulty)
    where = f"leaf {leaf.path}" if leaf.path else "the element itself"
    return PurityError(
        f"{label} isn't a function of what it is given: {where} of its element {element}{behind} is {leaf.one} in this "
        f"process and {leaf.other} {name}. {_reason(faulty, name)}{_seeded_by(faulty)}{_of_source(faulty)}",
        operation=label,
        leaf=leaf.path,
    )


def _of_source(faulty: _Pipeline) -> str:
    """Of a source the function in it that gives other records in another order; "" where none does."""
    for name, part in [] if faulty.count else faulty.code.of_source.parts:
        keys = range(min(len(part), _ENTERED))
        runs = []
        for order in (keys, keys[::-1]):
            with faulty.code.unused():
                runs.append({key: _read(part, key) for key in order})
        if _first_difference(*runs) is not None:
            return f". It is {name}"
    return ""


def _read(source: Any, key: int) -> Snapshot:
    try:
        return snapshot_of(source[key])
    except Exception as error:  # noqa: BLE001 - a bad record, which the loader may skip
        return snapshot_of(repr(error))


def _seeded_by(faulty: _Pipeline) -> str:
    """Of a Seeded what it reaches; "" for another operation."""
    if not faulty.count or not seeds(operation := faulty.operations[-1]):
        return ""
    own = len(SeededCall(function_of(operation)).own)
    return (
        f". It seeds random, numpy.random, torch's generator where torch is imported, and {own} generators that the "
        "function keeps; others, such as OpenCV's and one that is made in a call, it can't reach: give the transform "
        "a generator as an attribute, or make it a RandomMap that draws from the rng that it is given"
    )


def _reason(faulty: _Pipeline, name: str) -> str:
    if name not in _IN_THIS_PROCESS:
        return (
            "In this process it repeats itself: it depends on the process, as the order of a set of strings, hash(), "
            "id(), os.getpid(), the environment, or on what the process did before, as a cache that was filled here"
        )
    if _repeats(faulty, seeded=False):
        return (
            "A fresh copy of the operations repeats itself: something is kept from one record to the next, a counter, "
            "a buffer, a cache, a generator of its own"
        )
    if _repeats(faulty, seeded=True):
        return (
            "With the global generators seeded it repeats itself: it draws from random or numpy.random. Make it a "
            "RandomMap and draw from the rng that it is given, or wrap it as lk.transforms.Seeded(function)"
        )
    return (
        "Nor does a fresh copy of the operations repeat itself: it reads a clock, draws from an unseeded generator, "
        "or keeps something in a global"
    )


def _repeats(pipeline: _Pipeline, *, seeded: bool) -> bool:
    """Whether two runs agree more than a second apart, perhaps with the global generators seeded for both."""
    begun = time.monotonic()
    first = _tried(pipeline, seeded)
    _wait_until(begun + _CLOCK_SECONDS)
    second = _tried(pipeline, seeded)
    return first is not None and second is not None and _first_difference(first, second) is None


def _wait_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _tried(pipeline: _Pipeline, seeded: bool) -> Found | None:
    """What a run in this process gives; None where it fails, which says nothing of the cause."""
    if seeded:
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - the point is the global generator
    try:
        # Element by element: how far it works ahead decides what is kept by then.
        return _here(pipeline, task_rows=1)
    except Exception:  # noqa: BLE001 - the user's operations may fail in any way
        return None


def _label(pipeline: _Pipeline) -> str:
    if not pipeline.count:
        return "data_source"
    place = pipeline.count - 1
    return operation_name(place, pipeline.operations[place])
