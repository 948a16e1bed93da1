"""Positions as states, and back: the document that `get_state` writes, and the place that one leads to."""

import platform
from collections.abc import Mapping

import numpy as np

from loaderkit._version import __version__
from loaderkit.errors import StateError
from loaderkit.plan.comparison import same_data
from loaderkit.plan.cursor import Cursor, trimmed
from loaderkit.plan.losses import NO_LOSSES
from loaderkit.plan.state import State, Streams

from .course import Course
from .identity import operations_fingerprint
from .position import Position

_MOST_INDEX = 2**62  # where a stream of unknown rows may go on


def state_of(course: Course, position: Position, q: int) -> State:
    """The document of a position."""
    batching, count = course.batching, course.logical_streams
    cursors: Mapping[int, Cursor] = position.cursors or {0: (course.index_of(position),)}
    per_block, writers = count // course.shard.shard_count, course.shard.writers
    return State(
        step=position.step,
        cursors={stream: trimmed(cursor) for stream, cursor in cursors.items()},
        segments=position.segments,
        sampler=course.sampler_fingerprint,
        source=course.source_fingerprint,
        operations=operations_fingerprint(course),
        rows=batching.rows,
        stride=batching.stride,
        streams=Streams(count, q, tuple(writers[s // per_block] for s in range(count)))
        if course.row_changing
        else None,
        epoch=course.epoch,
        losses=position.losses,
        versions={"loaderkit": __version__, "numpy": np.__version__, "python": platform.python_version()},
    )


def position_of(course: Course, state: State) -> Position:
    """The position in a document that was compared with this course before; a new G starts a new segment."""
    cursors = None
    same = same_data(state, course.sampler_fingerprint, course.source_fingerprint)
    losses = state.losses if same else NO_LOSSES  # of other records, which mean nothing here
    if state.streams is not None:
        owned = course.owned_streams(state.streams.q)
        missing = [stream for stream in owned if stream not in state.cursors]
        if missing:
            raise StateError(
                f"the state has no cursor of logical streams {missing}: give the states of all processes"
            )
        cursors = {stream: state.cursors[stream] for stream in owned}
        for stream, cursor in cursors.items():
            if cursor[0] > _MOST_INDEX:  # no block of indices could be planned there
                raise StateError(f"cursors.{stream}: expected an index up to 2**62, got {cursor[0]}")
        losses = losses.of_streams(owned)
    segments = state.segments
    stride = course.batching.stride
    if segments.stride_of(state.step) != stride:
        segments = segments.resize(state.step, None if cursors is not None else state.cursors[0][0], stride)
    return Position(state.step, segments, cursors, losses)


def check_cursor(course: Course, state: State) -> None:
    """Raises StateError where the cursor isn't the one that step and segments give: two positions in one."""
    if state.streams is None:
        cursor, index = state.cursors[0][0], state.segments.index_of(state.step)
        if cursor != (index if course.stop is None else min(index, course.stop)):
            raise StateError(f"cursors: step {state.step} and the segments say index {index}, got {cursor}")
