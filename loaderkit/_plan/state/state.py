"""The saved position of an iterator and the identity of its stream, as a value; document.py has its JSON."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, field, replace
from loaderkit._order.exclusions import ExclusionStage
from loaderkit._order.facts import Cursor
from loaderkit._order.metadata import MOST_STRIDE
from loaderkit._order.mixture.stages import MixtureStages
from loaderkit._plan.bad_records import NO_BAD_RECORDS, BadRecords
from loaderkit._plan.segments import Segments
from loaderkit.errors import StateError

from .data_fingerprint import same_on_all_hosts


@dataclass(frozen=True, slots=True)
class SavedStreams:
    """The logical streams of a row-changing pipeline: their number, q, and the process that writes each cursor.

    >>> SavedStreams(count=2, q=128, writers=(0, 1)).writers[1]
    1
    """

    count: int
    q: int
    writers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A position of an iterator, and the identity of its stream.

    step: number of elements handed out. cursors: {stream: (index, k1, ...)}; {0: (index,)} where operations keep the
    number of rows. segments: see Segments. sampler, source: their fingerprints. operations: those that define the
    stream's shape, each a str or a dict with "op". rows, stride: N and G. streams: None where operations keep the
    number of rows. epoch: e of `epoch(e)`, else None. versions: of loaderkit, numpy, python. losses: the bad records so
    far. mixture: the stages of a mixture's weights, None for other samplers. parameters: all operations by name and
    parameters, each a dict with "op"; None where an earlier version of loaderkit saved the state. numerics: digests of
    the last bits that libraries compute, by library; {} where an earlier version saved it. exclusions: the stages in
    which records are left out, () for none. digest_missing: read from a document without a digest.

    >>> state = State(
    ...     step=2,
    ...     cursors={0: (8,)},
    ...     segments=Segments(((0, 0, 4),)),
    ...     sampler={},
    ...     source={},
    ...     operations=[],
    ...     rows=4,
    ...     stride=4,
    ...     streams=None,
    ...     epoch=None,
    ...     versions={"loaderkit": "1", "numpy": "2.0", "python": "3.11"},
    ... )
    >>> merge([state, state]) == state
    True
    """

    step: int
    cursors: Mapping[int, Cursor]
    segments: Segments
    sampler: Mapping[str, Any]
    source: Mapping[str, Any]
    operations: Sequence[Any]
    rows: int
    stride: int
    streams: SavedStreams | None
    epoch: int | None
    versions: Mapping[str, str]
    losses: BadRecords = NO_BAD_RECORDS
    parameters: Sequence[Any] | None = None
    mixture: MixtureStages | None = None
    numerics: Mapping[str, str] = field(default_factory=dict)
    exclusions: tuple[ExclusionStage, ...] = ()
    digest_missing: bool = field(default=False, compare=False)

    @property
    def index(self) -> int:
        """The next index; where operations change the number of rows the greatest at which a stream goes on."""
        return max(cursor[0] for cursor in self.cursors.values())


def check_sound(state: State) -> None:
    """Raises StateError, naming the field, where two fields of a state contradict each other."""
    streams, segments = state.streams, state.segments
    if segments.computable == (streams is not None):
        raise StateError(
            f"segments: expected null for first_index exactly where streams is an object, "
            f"got {segments.to_json()!r:.80}"
        )
    if not any(entry.stride == state.stride for entry in segments.entries if entry.first_step <= state.step):
        raise StateError(
            f"global_batch.G: expected the G of a segment up to step {state.step}, got {state.stride}"
        )
    if streams is not None:
        if state.rows % streams.count:
            raise StateError(f"streams.count: expected a divisor of N = {state.rows}, got {streams.count}")
        if streams.q > MOST_STRIDE // streams.count:
            raise StateError(
                f"streams.q: expected at most 2**60 indices for all {streams.count} streams, got {streams.q} for each"
            )
        if max(state.cursors) >= streams.count:
            raise StateError(
                f"cursors: expected streams below {streams.count}, got stream {max(state.cursors)}"
            )
        if max(state.losses.skipped, default=0) >= streams.count:
            raise StateError(
                f"bad_records.skipped: expected streams below {streams.count}, got {max(state.losses.skipped)}"
            )
        return
    if state.losses.skipped:
        raise StateError(
            f"bad_records.skipped: expected none where streams is null, got {dict(state.losses.skipped)!r:.80}"
        )
    try:
        limit = segments.index_of(state.step)
    except IndexError as error:
        raise StateError(f"segments: {error}") from None
    if state.cursors[0][0] > limit:
        raise StateError(
            f"cursors: expected at most {limit}, where segments start step {state.step}, "
            f"got {state.cursors[0][0]}"
        )


def _shared(state: State) -> dict[str, Any]:
    """What the documents of all processes at one step have in common."""
    names = (
        "step",
        "segments",
        "sampler",
        "source",
        "operations",
        "rows",
        "stride",
        "streams",
        "epoch",
        "exclusions",
    )
    shared = {name: same_on_all_hosts(getattr(state, name)) for name in names}
    # Not the counts: each process has those of the stage in which its own streams stand.
    return shared | {"mixture": state.mixture and state.mixture.to_json()["stages"]}


def merge(states: Sequence[State]) -> State:
    """Joins the states that several processes wrote at the same step to one that has all cursors.

    Raises StateError for an empty list, and for states that differ in more than cursors and bad records.

    >>> merge([])
    Traceback (most recent call last):
        ...
    loaderkit.errors.StateError: state: expected one document or more, got none
    """
    if not states:
        raise StateError("state: expected one document or more, got none")
    if len(states) == 1:
        return states[0]
    cursors: dict[int, Cursor] = {}
    first = _shared(states[0])
    for place, state in enumerate(states):
        for name, other in _shared(state).items() if place else ():
            if first[name] != other:
                raise StateError(
                    f"{name}: expected documents of one step of one run, got {first[name]!r:.200} in the first "
                    f"and {other!r:.200} in document {place}"
                )
        for stream, cursor in state.cursors.items():
            if cursors.setdefault(stream, cursor) != cursor:
                raise StateError(
                    f"cursors: expected one cursor for stream {stream}, got {cursors[stream]} and {cursor}"
                )
    # Ledgers are joined: each has what its own process handed out. Parameters aren't compared: they may have paths of
    # one host.
    losses = reduce(BadRecords.joined, (state.losses for state in states))
    return replace(
        states[0],
        cursors=cursors,
        losses=losses,
        digest_missing=any(state.digest_missing for state in states),
    )
