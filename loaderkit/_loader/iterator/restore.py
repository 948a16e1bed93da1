"""What saved states say to an iterator: the plan and the state to go on with, and what the user is warned of."""

import contextlib
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from loaderkit._base.system.numerics import present_versions
from loaderkit._order.mixture.stages import same_shares
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._plan.state.begun import of_begun
from loaderkit._plan.state.comparison import compare, other_bits
from loaderkit._plan.state.document import dumps, loads
from loaderkit._plan.state.exclusions import restored_exclusions, waiting_lists
from loaderkit._plan.state.mixture import (
    FindUnread,
    check_all_cursors,
    check_present,
    restored_plan,
    resumed,
)
from loaderkit._plan.state.positions import check_cursors, check_ordinals, state_of
from loaderkit._plan.state.state import State, merge
from loaderkit._runtime.executors.executor import Executor
from loaderkit.errors import StateError

from .first_unread import first_unread
from .reweigh import agree_on_stages


def merged(state: bytes | Sequence[bytes]) -> State:
    """The state of one document or of several; StateError where one isn't valid."""
    documents: list[Any] = [*state] if isinstance(state, list | tuple) else [state]
    return merge([_loaded(document, place, len(documents)) for place, document in enumerate(documents)])


def saved_bytes(plan: SeekablePlan, position: Position, executor: Executor) -> bytes:
    """The document of a position, as this process saves it. executor: of the loader."""
    return dumps(state_of(plan, position, present_versions(), executor.known_numerics()))


def restored(
    own: SeekablePlan, saved: State, allow: Collection[str], executor: Executor, *, agrees: bool
) -> tuple[SeekablePlan, State, list[str]]:
    """The plan to go on with, the state in it, and what to warn of.

    Args:
        own: the loader's plan.
        saved: the state.
        allow: fields that may differ, as in `DataLoaderIterator.set_state`.
        executor: of the loader.
        agrees: whether other processes restore, too, and weights are compared with theirs.

    Raises CheckpointMismatchError where the state is of another stream.
    """

    def find_unread(plan: SeekablePlan) -> int:
        if saved.streams is None or saved.streams.count != own.logical_streams:
            return saved.index
        at = Position(saved.step, saved.segments, saved.cursors, saved.streams.q, saved.losses)
        return first_unread(plan, at, executor)

    behind = _behind(own, saved, find_unread)
    begun, sampler, source = of_begun(saved, own)
    current = state_of(own, own.first_position(), present_versions(), executor.known_numerics())
    notices = compare(begun, replace(current, sampler=sampler, source=source), allow, behind)
    if saved.digest_missing:
        notices.append("the state has no digest: it was edited by hand and is taken as it is")
    before, plan = restored_plan(restored_exclusions(own, saved, allow), saved, allow, behind, find_unread)
    if not {"sampler", "source"} & set(allow):  # of another length, whose end is elsewhere
        check_cursors(before, saved)
    if "operations" not in allow:
        check_ordinals(before, saved)
    check_present(plan, saved)
    if plan is not before and agrees:
        agree_on_stages(plan, saved.step, saved.index)
    if (lists := waiting_lists(plan, saved)) is not None:
        if "exclude" in allow:
            check_all_cursors(saved, "the lists of records that are left out", "exclude")
            plan = plan.excluding_from(find_unread(plan), lists)
            if agrees:
                agree_on_stages(plan, saved.step, saved.index)
        else:
            notices.append(
                "the folders of exclude= have other lists than the saved run left out: it goes on as it was; "
                'it.exclude() takes them from the next step on, allow={"exclude"} from here on'
            )
    return plan, saved if plan is before else resumed(plan, saved), notices


def late_comparison(saved: State, plan: SeekablePlan, executor: Executor) -> Callable[[Executor], None]:
    """What warns of other last bits of libraries that are loaded, here or in workers, for the first batch only."""
    known = executor.known_numerics()
    levels = {side["cpu"] for side in (saved.numerics, known) if "cpu" in side}

    def compare(executor: Executor) -> None:
        found = executor.known_numerics()
        new = found.keys() - known.keys() if len(levels) < 2 else ()  # of other levels the restore has warned
        loaded = {library: found[library] for library in new}
        for notice in other_bits(saved, plan.parameters, loaded):
            warnings.warn(notice, stacklevel=5)

    return compare


def _behind(own: SeekablePlan, saved: State, find_unread: FindUnread) -> int | None:
    """The first index that no stream of a state has read, where weights differ at its index; None if not known."""
    ours, theirs = own.mixture, saved.mixture
    if ours is None or theirs is None or same_shares(*(m.written_at(saved.index) for m in (ours, theirs))):
        return saved.index
    with contextlib.suppress(Exception):  # a state of another stream, which is refused
        return find_unread(restored_exclusions(own, saved, ()).restaged(theirs, moved=False))
    return None


def _loaded(document: bytes, place: int, count: int) -> State:
    try:
        return loads(document)
    except StateError as error:
        if count > 1:
            error.add_note(f"in document {place} of {count}, counted from 0")
        raise
