"""Conversion between a position in a plan and the state that `get_state` saves."""

from collections.abc import Mapping

from loaderkit._order.facts import Cursor, trimmed
from loaderkit._order.metadata import MOST_INDEX
from loaderkit._plan.bad_records import NO_BAD_RECORDS
from loaderkit._plan.ledger import Ledger
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit.errors import StateError

from .begun import of_begun
from .comparison import same_data
from .identity import operations_fingerprint
from .mixture import saved_stages
from .state import SavedStreams, State


def state_of(
    plan: SeekablePlan, position: Position, versions: Mapping[str, str], numerics: Mapping[str, str]
) -> State:
    """The state of a position. versions, numerics: of the libraries in this process."""
    batching, count = plan.batching, plan.logical_streams
    cursors: Mapping[int, Cursor] = position.cursors or {0: (plan.index_of(position),)}
    index = max(cursor[0] for cursor in cursors.values())
    per_block, writers = count // plan.shard.shard_count, plan.shard.writers
    return State(
        step=position.step,
        cursors={stream: trimmed(cursor) for stream, cursor in cursors.items()},
        segments=position.segments,
        sampler=plan.sampler_fingerprint,
        source=plan.source_fingerprint,
        operations=operations_fingerprint(plan),
        rows=batching.rows,
        stride=batching.stride,
        streams=SavedStreams(count, position.q, tuple(writers[s // per_block] for s in range(count)))
        if plan.row_changing
        else None,
        epoch=plan.epoch,
        losses=position.losses,
        parameters=plan.parameters,
        mixture=saved_stages(plan, index),
        exclusions=() if plan.exclusions is None else plan.exclusions.stages,
        versions=versions,
        numerics=numerics if position.numerics is None else position.numerics,
    )


def position_of(plan: SeekablePlan, state: State) -> Position:
    """The position of a state, which was compared with this plan before; another G starts a new segment.

    Raises StateError where it holds a number that no position of this plan has.
    """
    _check_reach(plan, state)
    cursors = None
    same = same_data(*of_begun(state, plan))
    losses = state.losses if same else NO_BAD_RECORDS  # bad records of other data have no meaning here
    if state.mixture is not None and plan.mixture is not None:
        changed = plan.mixture.first_difference(state.mixture)
        losses = losses if changed is None else losses.before(changed)
    if (
        plan.exclusions is not None
        and (begun := plan.exclusions.first_difference(state.exclusions)) is not None
    ):
        losses = losses.before(begun)
    _check_ledger(plan, losses.ledger)
    if state.streams is not None:
        owned = plan.owned_streams(state.streams.q)
        missing = [stream for stream in owned if stream not in state.cursors]
        if missing:
            raise StateError(
                f"cursors: expected those of logical streams {missing} too, got none; give the states of all processes"
            )
        cursors = {stream: state.cursors[stream] for stream in owned}
        losses = losses.of_streams(owned, plan.streams_in_blocks(state.streams.q).stream_of)
    segments = state.segments
    stride = plan.batching.stride
    if segments.stride_of(state.step) != stride:
        segments = segments.resize(state.step, None if cursors is not None else state.cursors[0][0], stride)
    q = plan.first_q if state.streams is None else state.streams.q
    return Position(state.step, segments, cursors, q, losses, state.numerics)


def check_cursors(plan: SeekablePlan, state: State) -> None:
    """Raises StateError where a cursor can't be one of this plan, which has the state's sampler and source.

    Where operations keep the number of rows, the cursor has to be the index that step and segments give. Elsewhere it
    has to lie within the stream.
    """
    if state.streams is None:
        at, index = state.cursors[0][0], state.segments.index_of(state.step)
        if at != (index if plan.stop is None else min(index, plan.stop)):
            raise StateError(
                f"cursors: expected index {index}, where segments start step {state.step}, got {at}"
            )
        return
    for stream, cursor in state.cursors.items():
        if plan.stop is not None and cursor[0] > plan.stop:
            raise StateError(
                f"cursors.{stream}: expected an index up to {plan.stop}, the stream's end, got {cursor[0]}"
            )


def check_ordinals(plan: SeekablePlan, state: State) -> None:
    """Raises StateError where a cursor has more ordinals of children than this plan has FlatMaps and Windows."""
    depth = sum(op.kind in ("flat_map", "window") for op in plan.operations)
    for stream, cursor in state.cursors.items():
        if len(cursor) > 1 + depth:
            raise StateError(
                f"cursors.{stream}: expected an index and at most {depth} ordinals, one for each FlatMap and Window, "
                f"got {cursor}"
            )


def _check_reach(plan: SeekablePlan, state: State) -> None:
    """Refuses numbers past 2**62: the next steps, and keys that are planned ahead, have to stay below 2**63."""
    counts = {"step": state.step}
    counts |= {f"bad_records.skipped.{stream}": count for stream, count in state.losses.skipped.items()}
    for name, count in counts.items():
        if count > MOST_INDEX:
            raise StateError(f"{name}: expected a number up to 2**62, got {count}")
    for stream, cursor in state.cursors.items():
        if max(cursor) > MOST_INDEX:
            raise StateError(f"cursors.{stream}: expected an index up to 2**62, got {max(cursor)}")
        if cursor[0] < plan.start:
            raise StateError(
                f"cursors.{stream}: expected an index from {plan.start} on, where this stream begins, got {cursor[0]}"
            )
    if state.streams is None:
        index, stride = state.segments.span_of(state.step)
        # a stream that ends at 2**62 may end within a step, and this is the next
        if index > MOST_INDEX + stride:
            raise StateError(f"segments: expected step {state.step} at an index up to 2**62, got {index}")


def _check_ledger(plan: SeekablePlan, ledger: Ledger) -> None:
    stop = MOST_INDEX if plan.stop is None else plan.stop
    # A mixture reads what its component would have read next, maybe behind its own end.
    read_up_to = MOST_INDEX if hasattr(plan.sampler, "keys_instead") else stop
    for lost, instead in ledger.items():
        if not (plan.start <= lost < stop and plan.start <= instead < read_up_to):
            raise StateError(
                f"bad_records.ledger: expected indices of this stream, from {plan.start} to below {stop}, "
                f"got {[lost, instead]}"
            )
