"""Which losses an element leaves behind: each is told once, with the element that passes its place.

A stream keeps its losses until then, with the pass number of each. An element passes those of its records, whose place
in the ledger it needs to be made again; of records left out, those that its end passes: in the middle of a batch's
children they would be met again.
"""

from collections.abc import Mapping

from loaderkit._order.cursor import Cursor
from loaderkit._order.loss import Loss

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
    """The losses that the elements of a run from a place on leave behind, by element; None where none wait.

    Args:
        run: what is handed out.
        place: of its first element that is.
        ends: the cursors behind each, by stream.
        streams: by number.
        left_out: whether lost records leave no row.
    """
    if not any(stream.losses for stream in streams.values()):
        return None
    passed = {
        k: _passed(None if ends is None else ends[k], run, place + k, streams, left_out)
        for k in range(run.size - place)
    }
    return {k: losses for k, losses in passed.items() if losses}


def losses_left(streams: Mapping[int, LogicalStream]) -> tuple[Loss, ...]:
    """Those behind the last element; records read once more to fill up the last batch were lost before, if at all."""
    return tuple(
        loss for stream in streams.values() for pass_number, loss in stream.losses if not pass_number
    )


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
    behind: dict[int, PassAndIndex] = {}
    ended = {number: (run.pass_after(number, place), end[0]) for number, end in (ends or {}).items()}
    if left_out:
        behind = ended
    elif run.reaches is not None:
        # Behind a last batch that is filled up nothing is made again: what its end passes goes with it, too.
        behind = {number: max(reach, ended.get(number, reach)) for number, reach in run.reaches.items()}
    elif run.begins is not None:
        behind = dict.fromkeys(waiting, (run.pass_number, int(run.begins[place, 0]) + 1))
    elif run.indices is not None:
        behind = dict.fromkeys(waiting, (run.pass_number, int(run.indices[place]) + 1))
    passed: list[tuple[int, Loss]] = []
    for number, stream in waiting.items():
        place_behind = behind.get(number, (0, 0))
        passed += [lost for lost in stream.losses if _place_of(lost) < place_behind]
        stream.losses = [lost for lost in stream.losses if _place_of(lost) >= place_behind]
    return tuple(loss for _, loss in sorted(passed, key=_place_of))


def _place_of(lost: tuple[int, Loss]) -> PassAndIndex:
    pass_number, loss = lost
    return pass_number, loss.index
