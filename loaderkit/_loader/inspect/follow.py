"""`loader.follow(index)`: what becomes of one record, operation by operation, in this process."""

import html
import time
from typing import Any

import numpy as np

from loaderkit._base.numbers import not_an_int
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.one_thread import OneThread
from loaderkit._engine.stats.text import duration
from loaderkit._order.rng import child_of
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions, RecordReader
from loaderkit._source.naming import kind_of, namer_of, shown_key
from loaderkit.samplers.protocol import record_keys_of
from loaderkit.transforms.level_runner import Level
from loaderkit.transforms.pipeline import Pipeline
from loaderkit.transforms.run import ElementRun


def spec_text(value: Any) -> str:
    """The tree of a value, with dtype and shape of arrays and the types of other leaves.

    Args:
        value: any element.

    >>> import numpy as np
    >>> spec_text({"image": np.zeros((480, 640, 3), np.uint8), "label": 3, "name": "cat"})
    "{'image': uint8(480, 640, 3), 'label': int, 'name': str[3]}"
    >>> spec_text((np.float32(1), b"abc", [1, 2]))
    '(float32, bytes[3], [int, int])'
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {spec_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        inside = ", ".join(
            f"{name}={spec_text(each)}" for name, each in zip(value._fields, value, strict=True)
        )
        return f"{type(value).__name__}({inside})"
    if isinstance(value, tuple | list):
        inside = ", ".join(map(spec_text, value[:_MOST]))
        inside += f", ... {len(value)} in all" if len(value) > _MOST else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, bytes | bytearray | str):
        return f"{type(value).__name__}[{len(value)}]"
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return (
            f"{dtype}({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})" if shape else f"{dtype}"
        )
    return type(value).__name__


_MOST = 8  # leaves of a list that are shown


@dataclass(frozen=True, slots=True)
class FollowedStep:
    """What one operation did.

    name: of the operation, or of the source. nanoseconds: in its call. values: what came out, none where the record
    was dropped. key: (seed, ordinal, index, child) of what it draws, None for nothing. error: what it raised.
    """

    name: str
    nanoseconds: int
    values: tuple[Any, ...]
    key: tuple[int, int, int, int] | None = None
    error: Exception | None = None

    @property
    def outcome(self) -> str:
        """What came out, in one line."""
        if self.error is not None:
            return f"raised {type(self.error).__name__}: {self.error}"
        if not self.values:
            return "dropped"
        more = len(self.values) - 1
        return spec_text(self.values[0]) + (f" and {more} more" if more else "")

    @property
    def text(self) -> str:
        """The time, what came out, and the key of what was drawn, in one line."""
        text = f"{duration(self.nanoseconds / 1e9)}  {self.outcome}"
        if self.key is None:
            return text
        seed, ordinal, index, child = self.key
        return f"{text}  key (seed {seed}, ordinal {ordinal}, index {index}{f', child {child}' if child else ''})"


@dataclass(frozen=True, slots=True)
class Followed:
    """What becomes of one record.

    index, record_key, name: of the record; name is the source's, None where it has none. step, row: of the element that
    it is in, over all shards; None where operations change the number of rows. steps: the read, and each operation up
    to where it was dropped or failed; from the last Batch on they are of the whole step.
    """

    index: int
    record_key: int
    name: str | None
    step: int | None
    row: int | None
    steps: tuple[FollowedStep, ...]

    @property
    def dropped(self) -> bool:
        """Whether an operation dropped it."""
        last = self.steps[-1]
        return not last.values and last.error is None

    @property
    def value(self) -> Any:
        """What the last operation gave, of several the first; None where it was dropped."""
        return next(iter(self.steps[-1].values), None)

    def __str__(self) -> str:
        named = f" ({self.name})" if self.name is not None else ""
        where = "" if self.step is None else f", row {self.row} of step {self.step:,}"
        lines = [f"index {self.index:,}, record_key {self.record_key:,}{named}{where}"]
        width = max(len(step.name) for step in self.steps)
        lines += [f"  {step.name.ljust(width)}  {step.text}" for step in self.steps]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def follow(program: Program, plan: SeekablePlan, index: int) -> Followed:
    """Follows the record of an index through a loader's operations, in this process.

    The record is read and transformed as the run does it, with the same random numbers. From the first Batch on, the
    record's own step is made, where operations keep the number of rows and no other record of the step fails. An error
    of an operation isn't raised: it is in what is returned.

    Args:
        program: what the loader's workers run.
        plan: of the loader's stream.
        index: place in the stream of all epochs. TypeError where it isn't an int, IndexError where there is none such,
            and where a LengthBucketSampler leaves it unused.

    >>> import loaderkit as lk
    >>> loader = lk.load([5, 6, 7], num_epochs=1, operations=[lambda x: x / 2], batch_size=2)
    >>> followed = loader.follow(1)
    >>> followed.record_key, followed.step, followed.row, followed.value.tolist()
    (1, 0, 1, [2.5, 3.0])
    """
    if isinstance(index, bool) or not isinstance(index, int | np.integer):
        raise not_an_int("index", index, "the place of a record in the stream, as in loader.follow(0)")
    index = int(index)
    if index < 0 or not plan.reaches(index):
        raise IndexError(f"index: expected one of the stream, got {index}")
    _check_used(plan, index)
    key = int(record_keys_of(plan.sampler, np.array([index], np.int64))[0])
    pipeline = Pipeline(program.operations, program.seed, reads_windows=program.reads_windows)
    step = row = None
    if not program.row_changing:
        step, place = divmod(index - plan.start, plan.batching.stride)
        row = place // plan.batching.group

    def made() -> list[FollowedStep]:
        steps = _level_zero(program, pipeline.levels[0], index, key)
        if step is not None and len(pipeline.levels) > 1 and steps[-1].error is None:
            steps += _levels_after(program, pipeline, plan, step)
        return steps

    steps = OneThread().run(made, again=True)
    shown, name = shown_key(program.source, key), namer_of(program.source)(key)
    return Followed(index, shown, name, step, row, tuple(steps))


def _check_used(plan: SeekablePlan, index: int) -> None:
    """IndexError for an index that its step doesn't use, where a sampler plans steps of several sizes."""
    if (known := plan.shaped_for(plan.batching)) is not None:
        first = index - index % known.global_batch_size
        rows = int(known.rows_of(np.array([first], np.int64))[0])
        if index - first >= rows:
            raise IndexError(
                f"index: expected one that its step uses, from {first} to {first + rows - 1}, got {index}"
            )


def _level_zero(program: Program, level: Level, index: int, key: int) -> list[FollowedStep]:
    begun = time.perf_counter_ns()
    run = _read(program, np.array([key]), np.array([index]))
    spent = time.perf_counter_ns() - begun
    steps = [FollowedStep(f"source {kind_of(program.source)}", spent, tuple(run.values), None, _error(run))]
    return _through(level, run, steps)


def _through(level: Level, run: ElementRun, steps: list[FollowedStep]) -> list[FollowedStep]:
    for stage in level.stages:
        if not run.values or steps[-1].error is not None:
            break
        key, first = None, run.begins[0]
        if (rng := getattr(stage, "rng", None)) is not None:
            key = (rng.seed, rng.ordinal, first[0], child_of(first[1:]))
        begun = time.perf_counter_ns()
        run = stage.apply(run, ())
        spent = time.perf_counter_ns() - begun
        steps.append(FollowedStep(stage.label, spent, tuple(run.values), key, _error(run)))
    return steps


def _levels_after(program: Program, pipeline: Pipeline, plan: SeekablePlan, step: int) -> list[FollowedStep]:
    """The Batches and the operations after them, on this process's rows of the step; of all where it has none."""
    first = plan.start + step * plan.batching.stride
    part = plan.schedule.rows_at(first) or plan.schedule.all_rows(first)
    if part is None or part.fill or part.shape >= 0:
        return []
    rows = _read(program, part.keys, part.indices)
    if rows.failure is None:
        rows = pipeline.rows_of(pipeline.runners[0].run(rows, ()))
    if rows.failure is not None:
        return []
    last, made = pipeline.runners[-1], ElementRun([], [(first,)], rows=[rows.begins])
    begun = time.perf_counter_ns()
    made.failure = last.add_batch(made.values, [rows.values], rows.begins)
    spent = time.perf_counter_ns() - begun
    steps = [FollowedStep(last.level.label, spent, tuple(made.values), None, _error(made))]
    return _through(last.level, made, steps)


def _read(program: Program, keys: np.ndarray, indices: np.ndarray) -> ElementRun:
    options, ends = ReadOptions(num_threads=0), program.row_changing
    return RecordReader(program.source, options, copy=True, ahead=None, ends=ends).read(0, keys, indices)


def _error(run: ElementRun) -> Exception | None:
    return None if run.failure is None else run.failure.error
