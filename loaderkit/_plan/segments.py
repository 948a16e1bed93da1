"""Which indices belong to which step, through every change of the batch size, every skip and every seek.

In a segment [first_step, first_index, stride], step t starts at index first_index + (t - first_step) * stride, from
step first_step until the next segment starts. Each change of the global batch size and each skip adds a segment and
removes those that start at the same step or later; seek changes none. Where operations change the number of rows, the
first index of a step can't be computed: first_index is None.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.metadata import MOST_INT64
from loaderkit.errors import StateError


class Segment(NamedTuple):
    """Steps from `first_step` on start at `first_index` and every `stride` indices after it.

    >>> Segment(100, 25600, 512)
    Segment(first_step=100, first_index=25600, stride=512)
    """

    first_step: int
    first_index: int | None
    stride: int


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a run in order; the first starts at step 0.

    Raises ValueError naming the first entry that breaks the order or holds a number out of range, TypeError for an
    entry that isn't an int.

    >>> segments = Segments(((0, 0, 256),)).resize(100, 25600, 512).skip(150, 51200, 3)
    >>> segments.to_json()
    [[0, 0, 256], [100, 25600, 512], [150, 52736, 512]]
    >>> segments.seek(120, 512), segments.seek(150, 512)
    (35840, 52736)
    """

    entries: tuple[Segment, ...]

    def __init__(self, entries: Sequence[tuple[int, int | None, int]]) -> None:
        checked = tuple(_checked(place, Segment(*entry)) for place, entry in enumerate(entries))
        problem = _find_problem(checked)
        if problem:
            raise ValueError(f"segments{problem}")
        object.__setattr__(self, "entries", checked)

    @property
    def computable(self) -> bool:
        """Whether a step's first index can be computed: False where operations change the number of rows.

        >>> Segments(((0, None, 256),)).computable
        False
        """
        return self.entries[0].first_index is not None

    def index_of(self, step: int) -> int:
        """First index of a step.

        Raises IndexError for a negative step or one past 2**63, ValueError where it can't be computed.

        >>> Segments(((0, 0, 256), (100, 25600, 512))).index_of(101)
        26112
        """
        return self.span_of(step)[0]

    def step_around(self, index: int) -> tuple[int, int]:
        """The first index of the step that reads an index, and the one behind its last.

        >>> Segments(((0, 0, 256), (100, 25600, 512))).step_around(26000)
        (25600, 26112)
        """
        (*_, (first, stride)) = (
            (first, stride) for _, first, stride in self.entries if first is not None and first <= index
        )
        begin = index - (index - first) % stride
        return begin, begin + stride

    def span_of(self, step: int) -> tuple[int, int]:
        """First index of a step and its number of indices, G of a whole step. Raises what `index_of` raises.

        >>> Segments(((0, 0, 256), (100, 25600, 512))).span_of(100)
        (25600, 512)
        """
        segment = self._at(step)
        if segment.first_index is None:
            raise ValueError(
                "step: the first index of a step can't be computed, as an operation changes the number of rows"
            )
        index = segment.first_index + (step - segment.first_step) * segment.stride
        if index > MOST_INT64 - segment.stride:
            raise IndexError(
                f"step: expected one with indices that aren't past 2**63, got {step}, which starts at index {index}"
            )
        return index, segment.stride

    def end_of(self, step: int) -> int | None:
        """The first step of the segment after the one that a step is in, None where it is the last.

        Raises IndexError for a negative step.

        >>> Segments(((0, 0, 256), (100, 25600, 512))).end_of(7)
        100
        """
        later = [entry.first_step for entry in self.entries if entry.first_step > self._at(step).first_step]
        return min(later, default=None)

    def stride_of(self, step: int) -> int:
        """Number of indices of a step, G of a whole step. Raises IndexError for a negative step.

        >>> Segments(((0, None, 256), (100, None, 512))).stride_of(100)
        512
        """
        return self._at(step).stride

    def seek(self, step: int, stride: int) -> int:
        """First index of a step, for a loader with G = `stride` that moves to it; the segments stay as they are.

        Raises ValueError where the step has another G, and what `index_of` raises.

        >>> Segments(((0, 0, 256), (100, 25600, 512))).seek(50, 512)
        Traceback (most recent call last):
            ...
        ValueError: step 50 takes 256 indices, this loader's steps 512; use the global batch size of step 50
        """
        index, had = self.span_of(step)
        if had != stride:
            raise ValueError(
                f"step {step} takes {had} indices, this loader's steps {stride}; "
                f"use the global batch size of step {step}"
            )
        return index

    def skip(self, step: int, index: int, steps: int) -> "Segments":
        """Leave out `steps` steps from `step` on, which starts at `index`; steps=0 changes nothing.

        Raises ValueError for a negative number, IndexError where the result is past 2**63.

        >>> Segments(((0, 0, 256),)).skip(10, 2560, 2).to_json()
        [[0, 0, 256], [10, 3072, 256]]
        """
        if steps < 0:
            raise ValueError(f"skip: expected 0 or more steps, got {steps}; seek(step) goes back")
        if steps == 0:
            return self
        if not self.computable:
            raise ValueError(
                "skip: the first index of a step can't be computed, as an operation changes the number of rows"
            )
        stride = self.stride_of(step)
        if index + steps * stride > MOST_INT64 - stride:
            raise IndexError(
                f"skip: expected an end that isn't past 2**63, got {steps} steps from index {index} on"
            )
        return self._with(Segment(step, index + steps * stride, stride))

    def resize(self, step: int, index: int | None, stride: int) -> "Segments":
        """Give each step from `step` on `stride` indices.

        index: the first index of `step`, None where it can't be computed.

        >>> Segments(((0, 0, 256),)).resize(100, 25600, 512).to_json()
        [[0, 0, 256], [100, 25600, 512]]
        """
        return self._with(Segment(step, index, stride))

    def to_json(self) -> list[list[int | None]]:
        """The segments as plain lists.

        >>> Segments(((0, 0, 256),)).to_json()
        [[0, 0, 256]]
        """
        return [list(entry) for entry in self.entries]

    @classmethod
    def from_json(cls, value: Any) -> "Segments":
        """The segments that `to_json` gave. Raises StateError naming the malformed entry.

        >>> Segments.from_json([[0, 0, 256]])
        Segments(entries=(Segment(first_step=0, first_index=0, stride=256),))
        """
        if not isinstance(value, list):
            raise StateError(
                f"segments: expected a list of [first_step, first_index, stride], got {value!r:.80}"
            )
        for place, entry in enumerate(value):
            if not isinstance(entry, list) or len(entry) != 3:
                raise StateError(
                    f"segments[{place}]: expected [first_step, first_index, stride], got {entry!r:.80}"
                )
        try:
            return cls(value)
        except (TypeError, ValueError) as error:
            raise StateError(str(error)) from None

    def _at(self, step: int) -> Segment:
        if step < 0:
            raise IndexError(f"step: expected 0 or more, got {step}")
        return self.entries[bisect_right(self.entries, step, key=lambda entry: entry.first_step) - 1]

    def _with(self, segment: Segment) -> "Segments":
        kept = [entry for entry in self.entries if entry.first_step < segment.first_step]
        return Segments([*kept, segment])


def _checked(place: int, entry: Segment) -> Segment:
    step, index, stride = entry
    name = f"segments[{place}]"
    return Segment(
        at_least(f"{name}.first_step", step, 0, below=MOST_INT64 + 1),
        None if index is None else at_least(f"{name}.first_index", index, 0, below=MOST_INT64 + 1),
        at_least(f"{name}.stride", stride, 1, below=MOST_INT64 + 1),
    )


def _find_problem(entries: tuple[Segment, ...]) -> str | None:
    if not entries:
        return ": expected one or more, got none"
    if entries[0].first_step != 0:
        return f"[0].first_step: expected 0, got {entries[0].first_step}"
    for place, (before, after) in enumerate(pairwise(entries), start=1):
        if after.first_step <= before.first_step:
            return f"[{place}].first_step: expected more than {before.first_step}, got {after.first_step}"
        if (before.first_index is None) != (after.first_index is None):
            return f"[{place}].first_index: expected null in all segments or in none, got {after.first_index}"
        least_index = before.first_index or 0
        if after.first_index is not None and after.first_index < least_index:
            return f"[{place}].first_index: expected {least_index} or more, got {after.first_index}"
    return None
