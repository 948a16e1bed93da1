"""Which bad records are reported with an element: each once, with the first element that passes it.

A stream keeps its losses until then, each with its pass number. Where a bad record is replaced, an element passes the
losses of its own records, because it needs their ledger entries to be made again. Where bad records are left out, an
element passes those before its end: a restore in the middle of a batch's children would meet later ones again.
"""

from collections.abc import Mapping

from loaderkit._order.facts import Cursor, Loss

from .element_queue import PassAndIndex, QueuedRun
from .logical_stream import LogicalStream


def losses_of(
    run: QueuedRun,
    place: int,
    ends: list[dict[int, Cursor]] | None,
    streams: Mapping[int, LogicalStream],
    *,
    left_out: bool,
) -> dict[int, tuple[Loss, ...]] | None:
    """The losses that the elements of a run pass, from a place on, by element; None where the streams have none.

    Args:
        run: its elements are delivered.
        place: of the first element that is.
        ends: for each, the cursors after it, by stream.
        streams: by number.
        left_out: whether bad records leave no row.
    """
    if not any(stream.losses for stream in streams.values()):
        return None
    passed = {
        k: _passed(None if ends is None else ends[k], run, place + k, streams, left_out)
        for k in range(run.size - place)
    }
    return {k: losses for k, losses in passed.items() if losses}


def losses_left(streams: Mapping[int, LogicalStream]) -> tuple[Loss, ...]:
    """Those after the last element, by index, without records read a second time to fill the last batch up."""
    left = [lost for stream in streams.values() for lost in stream.losses if not lost[0]]
    return tuple(loss for _, loss in sorted(left, key=_place_of))


def _passed(
    ends: dict[int, Cursor] | None,
    run: QueuedRun,
    place: int,
    streams: Mapping[int, LogicalStream],
    left_out: bool,
) -> tuple[Loss, ...]:
    waiting = {number: stream for number, stream in streams.items() if stream.losses}
    if not waiting:
        return ()
    after: dict[int, PassAndIndex] = {}
    ended = {number: (run.pass_after(number, place), end[0]) for number, end in (ends or {}).items()}
    if left_out:
        after = ended
    elif run.reaches is not None:
        # After a last batch that is filled up nothing is made again, so it passes what its end passes, too.
        after = {number: max(reach, ended.get(number, reach)) for number, reach in run.reaches.items()}
    elif run.begins is not None:
        after = dict.fromkeys(waiting, (run.pass_number, run.last_index(place) + 1))
    elif run.indices is not None:
        after = dict.fromkeys(waiting, (run.pass_number, int(run.indices[place]) + 1))
    passed: list[tuple[int, Loss]] = []
    for number, stream in waiting.items():
        place_after = after.get(number, (0, 0))
        passed += [lost for lost in stream.losses if _place_of(lost) < place_after]
        stream.losses = [lost for lost in stream.losses if _place_of(lost) >= place_after]
    return tuple(loss for _, loss in sorted(passed, key=_place_of))


def _place_of(lost: tuple[int, Loss]) -> PassAndIndex:
    pass_number, loss = lost
    return pass_number, loss.index
