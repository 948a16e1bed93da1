"""Pipelines that change the number of rows: elements, their groups and their cursors are those of plain generators."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from engine_specs import chain_specs, ending_specs
from engine_twins import ChainSpec
from engine_values import read_stream, stream_read
from engine_world import World, drain
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.element_queue import ElementQueue, QueuedRun
from loaderkit._engine.logical_stream import stream_of
from loaderkit._engine.read_selection import note_windows
from loaderkit._engine.task import End, ReadStream
from loaderkit._order.facts import Loss

CUTS = {
    "workers": st.integers(0, 3),
    "memory": st.sampled_from(["none", "batches", "all"]),
    "task_rows": st.none() | st.integers(1, 20),
}


def world_of(workers, memory="none", **knobs):
    world = World(workers=workers, arena=memory != "none", reserves=memory == "all", **knobs)
    for _ in range(max(workers, 1)):
        world.hire()
    return world


def fresh(spec, **changes):
    return replace(spec, given_up={}, **changes)


def forgiving(spec):
    """However many bad records there are in a row."""
    return spec if spec.tolerance is None else replace(spec, tolerance=1000)


def check_entered_behind(spec, popped, task_rows):
    """Entered at the cursors behind so many elements, plain generators and the chain both give the rest."""
    whole = spec.elements()
    heads = list(islice(whole, popped))
    left = [element.value for element in islice(whole, 20)]
    start = {stream: spec.start_of(stream) for stream in spec.owned}
    for head in heads:
        start |= head.ends
    resumed = fresh(spec, start=start)
    assert [element.value for element in islice(resumed.elements(), 20)] == left
    world = world_of(2, "all", task_rows=task_rows)
    drain(world, world.open(resumed), turns=400)
    world.wind_up()


@given(chain_specs(), CUTS["workers"], CUTS["memory"], CUTS["task_rows"])
def test_elements_and_cursors_are_those_of_plain_generators(spec, workers, memory, task_rows):
    """Filter, FlatMap and Batch in any nesting, one stream or several, however tasks are cut; errors in their place."""
    world = world_of(workers, memory, task_rows=task_rows)
    stream = world.open(spec)
    drain(world, stream, turns=3000 if spec.streams == 1 else 150)
    assert stream in world.ended or spec.streams > 1
    world.wind_up()


@given(chain_specs(), st.integers(1, 20), st.integers(0, 10))
def test_entered_at_the_cursors_behind_an_element_a_stream_goes_on_there(spec, task_rows, popped):
    """Saved after any element and resumed with every operation empty: the rest, and none of it twice."""
    # An endless stream of which nothing is left would keep the plain loop busy for ever.
    fans = spec.fans if spec.stop is not None else tuple(tuple(n or 1 for n in level) for level in spec.fans)
    spec = forgiving(fresh(spec, plain=False, fans=fans, fails=frozenset(), feed_fails=None, patience=None))
    check_entered_behind(spec, popped, task_rows)


@given(ending_specs(), CUTS["workers"], CUTS["memory"], CUTS["task_rows"])
def test_streams_that_end_are_filled_up_as_plain_generators_do(spec, workers, memory, task_rows):
    """Padded, wrapped or an error; masked batches without end where other processes may have rows; errors in place."""
    world = world_of(workers, memory, task_rows=task_rows)
    stream = world.open(spec)
    drain(world, stream, turns=200 if spec.masks else 3000)
    assert stream in world.ended or spec.masks
    world.wind_up()


@given(ending_specs(), st.integers(1, 20), st.integers(0, 10))
def test_entered_behind_any_element_a_stream_that_ends_is_filled_up_the_same(spec, task_rows, popped):
    """Saved after any element, a padded, wrapped or masked one too, and resumed: the rest, and none of it twice."""
    spec = forgiving(fresh(spec, fails=frozenset(), short="pad" if spec.short == "fail" else spec.short))
    check_entered_behind(spec, popped, task_rows)


@pytest.mark.parametrize("task_rows", [1, 2, 5, 50])
@pytest.mark.parametrize("at", range(12))
def test_a_failure_comes_behind_all_before_it(at, task_rows):
    """Whatever row fails, the batches of the rows before it are handed out first; the group it breaks is not."""
    world = world_of(2, "all", task_rows=task_rows)
    stream = world.open(ChainSpec(groupings=((3, True),), stop=12, fails=frozenset([(0, at)])))
    assert drain(world, stream) == at // 3
    assert world.ended[stream].error == ("stage", 0, at)


@pytest.mark.parametrize("level", [1, 2])
def test_a_failure_behind_an_inner_batch_keeps_the_rows_before_it(level):
    world = world_of(2, "all", task_rows=4)
    spec = ChainSpec(
        groupings=((2, True), (2, True)),
        flats=(False,) * 3,
        fans=((1,),) * 3,
        stop=24,
        fails=frozenset([(level, 12)]),
    )
    stream = world.open(spec)
    assert drain(world, stream) == 3
    assert world.ended[stream].error == ("stage", level, 12)


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("task_rows", [1, 7, 30])
def test_where_one_of_several_streams_fails_the_others_are_read_until_its_batch(failing, task_rows):
    """Filters leave little of the others, so much of them is read: the failure waits for its place, and comes."""
    fans = [(1, 0, 0, 0, 0)] * 3  # indices count round robin: each stream keeps every fifth of its own
    world = world_of(2, "all", task_rows=task_rows)
    spec = ChainSpec(
        groupings=((2, True),),
        flats=(False, False),
        fans=(fans[0], (1,)),
        streams=3,
        owned=(0, 1, 2),
        stop=None,
        fails=frozenset([(0, 60 + failing)]),
    )
    stream = world.open(spec)
    popped = drain(world, stream, turns=2000)
    assert world.ended[stream].error == ("stage", 0, 60 + failing)
    assert popped == 2


def test_of_two_failing_streams_the_first_is_the_error_whichever_was_quicker():
    world = world_of(1, "all", task_rows=1)
    spec = ChainSpec(
        groupings=((2, True),),
        streams=2,
        owned=(0, 1),
        stop=None,
        fails=frozenset([(0, 2), (0, 1)]),
    )
    stream = world.open(spec)
    while world.give():
        continue
    for place in reversed(range(len(world.hands[world.busy[0]].tasks))):
        world.finish(world.busy[0], place)
    drain(world, stream)
    assert world.ended[stream].error == ("stage", 0, 2)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("inner_keep", [True, False])
def test_the_last_rows_of_a_stream_are_a_smaller_batch_or_none(keep, inner_keep):
    world = world_of(2, task_rows=3)
    groupings = ((3, inner_keep), (2, keep))
    stream = world.open(ChainSpec(groupings=groupings, flats=(False,) * 3, fans=((1,),) * 3, stop=8))
    inner = 3 if inner_keep else 2  # of 8 records: two threes, and a two
    assert drain(world, stream) == (-(-inner // 2) if keep else inner // 2)
    assert world.ended[stream] == End()


def test_a_filter_that_leaves_nothing_ends_without_an_element():
    world = world_of(2, "all", task_rows=3)
    stream = world.open(ChainSpec(fans=((0,), (1,)), stop=100))
    assert drain(world, stream) == 0
    assert world.ended[stream] == End()


def test_a_filter_that_leaves_one_in_a_thousand_reads_on():
    world = world_of(1, task_rows=100)
    stream = world.open(ChainSpec(groupings=(), flats=(False,), fans=((1, *(0,) * 999),), stop=3500))
    assert drain(world, stream, turns=1000) == 4


def test_what_is_made_ahead_of_a_user_who_rests_is_bounded():
    """Workers that are quicker than the user stop: what they made is a few batches, not the data set."""
    for fans in [((1,), (1,)), ((3,), (1,)), ((0, 0, 1), (1,))]:
        world = world_of(2, "all", task_rows=4)
        world.open(ChainSpec(fans=fans, flats=(True, False), stop=100_000, prefetch=3))
        while world.give():
            for worker in world.busy:
                world.finish(worker)
        assert len(world.outputs) <= world.pace.rows_ahead(3)


# Inner Batches whose elements a FlatMap takes apart again: groupings, children at each level, and the records that a
# first element takes.
TAKEN_APART = {
    "by as many": (((64, True), (16, True)), (1, 64, 1), 64),
    "twice": (((64, True), (32, True), (16, True)), (1, 64, 32, 1), 64),
    "behind a FlatMap": (((256, True), (16, True)), (5, 256, 1), 52),
    "by less than the next takes": (((8, True), (32, True)), (1, 4, 1), 64),
    "not at all": (((4, True), (16, True)), (1, 1, 1), 64),
    "of a FlatMap's children": (((32, True),), (8, 1), 4),
}


@pytest.mark.parametrize("entered", [0, 1000])
@pytest.mark.parametrize(("workers", "task_rows"), [(0, 1), (0, None), (1, 4), (2, 8), (2, None), (4, None)])
@pytest.mark.parametrize("name", TAKEN_APART)
def test_a_first_element_costs_what_it_takes_and_two_tasks_a_worker(name, workers, task_rows, entered):
    """Whatever inner Batches multiply the step to; at the begin of a run, and where one goes on."""
    groupings, children, takes = TAKEN_APART[name]
    spec = ChainSpec(
        groupings=groupings,
        flats=tuple(count > 1 for count in children),
        fans=tuple((count,) for count in children),
        stop=100_000,
        start={0: (entered,)} if entered else {},
    )
    world = world_of(workers, task_rows=task_rows)
    stream = world.open(spec)
    rows = {}  # task -> records that it reads
    while not world.pop(stream):
        while world.give():
            tasks = [given.task for hand in world.hands.values() for given in hand.tasks]
            rows |= {task.id: len(task.indices) for task in tasks if isinstance(task, ReadStream)}
        world.finish(world.busy[0], row_seconds=2e-3)
    assert takes <= sum(rows.values()) <= takes + 2 * max(workers, 1) * max(rows.values())
    assert max(rows.values()) <= 32
    world.wind_up()


@pytest.mark.parametrize("lagging", [0, 1])
def test_a_stream_that_lags_is_read_before_those_that_have_enough(lagging):
    """One stream keeps one in fifty: it alone is read on, and what the other gives doesn't pile up in inner batches."""
    spec = ChainSpec(
        groupings=((2, True), (2, True)),
        flats=(False,) * 3,
        fans=(tuple(int(i % 2 != lagging or i == 50 + lagging) for i in range(100)), (1,), (1,)),
        streams=2,
        owned=(0, 1),
        stop=None,
    )
    world = world_of(1, task_rows=1)
    stream = world.open(spec)
    most = 0
    for _ in range(2):
        while not world.pop(stream):
            while world.give():
                continue
            world.finish(world.busy[0])
            most = max(most, len(world.outputs))
    assert most <= world.pace.rows_ahead(4) // 2


@pytest.mark.parametrize("task_rows", [1, 2, 3, 7, 50])
def test_an_endless_stream_of_which_nothing_is_left_ends_in_the_same_place_however_it_is_cut(task_rows):
    """Two elements that wait for a third, and then nothing: an error, not a loader that reads for ever."""
    world = world_of(2, "all", task_rows=task_rows)
    fans = (1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, *(0,) * 1000)
    stream = world.open(ChainSpec(groupings=((3, True),), fans=(fans, (1,)), stop=None, patience=5))
    assert drain(world, stream) == 1
    assert "5 records in a row gave no element" in str(world.ended[stream].error)


@pytest.mark.parametrize("task_rows", [1, 2, 3, 50])
@pytest.mark.parametrize("tolerance", [2, 3, 4])
def test_bad_records_count_in_a_row_however_tasks_are_cut(task_rows, tolerance):
    """Every other record is bad, and then three in a row: that many are too many, and no fewer."""
    lost = frozenset([*range(0, 30, 2), 29, 30])
    world = world_of(2, "all", task_rows=task_rows)
    stream = world.open(ChainSpec(groupings=((2, True),), stop=40, lost=lost, tolerance=tolerance))
    assert drain(world, stream, turns=1000) == (12 if tolerance == 4 else 7)
    last = {2: "29", 3: "30", 4: "None"}[tolerance]
    assert f"{last}" in str(getattr(world.ended[stream], "error", None))
    world.wind_up()


def test_bad_records_behind_the_last_element_are_told_in_order_whichever_worker_was_quicker():
    world = world_of(2, "all", task_rows=1)
    stream = world.open(ChainSpec(groupings=((2, True),), stop=8, lost=frozenset([1, 4, 6, 7]), tolerance=9))
    while world.give():
        continue
    while stream not in world.ended:
        for worker in world.busy:
            world.finish(worker, len(world.hands[worker].tasks) - 1)
        while world.give() or (stream not in world.ended and world.pop(stream)):
            continue
    world.wind_up()


@pytest.mark.parametrize("task_rows", [1, 4])
def test_a_bad_record_that_is_met_again_where_the_last_batch_is_filled_up_is_told_once(task_rows):
    """The first record is bad, and the second pass meets it, too: that is no second loss of the run."""
    world = world_of(1, task_rows=task_rows)
    spec = ChainSpec(groupings=((3, True),), short="wrap", stop=6, lost=frozenset([0, 4]), tolerance=9)
    stream = world.open(spec)
    assert drain(world, stream) == 2
    world.wind_up()


def test_what_shows_the_shape_of_masked_batches_may_fail_and_says_nothing_of_a_place_in_the_streams():
    """The whole data's first batch fails behind its Batch; this process's streams have no rows, and none is skipped."""
    spec = ChainSpec(
        groupings=((1, True), (1, True)),
        flats=(False,) * 3,
        fans=((1,),) * 3,
        short="pad",
        masks=True,
        streams=2,
        owned=(1,),
        stop=1,
        fails=frozenset([(1, 0)]),
    )
    world = world_of(1)
    stream = world.open(spec)
    drain(world, stream)
    assert world.ended[stream].error == ("stage", 1, 0) and world.ended[stream].cursors is None
    world.wind_up()


def test_too_many_bad_records_in_a_row_are_the_error_whatever_is_left_behind_them():
    """One task reads both stretches: the bad records come first, and what comes behind them isn't looked at."""
    world = world_of(1, task_rows=50)
    fans = ((*(1,) * 5, *(0,) * 30), (1,))
    spec = ChainSpec(groupings=((2, True),), fans=fans, stop=None, lost=frozenset({2, 3}), tolerance=2)
    stream = world.open(replace(spec, patience=20))
    assert drain(world, stream) == 1
    assert "2 records in a row are bad, the last of them at index 3" in str(world.ended[stream].error)


def test_an_endless_stream_of_batches_of_which_nothing_is_left_ends():
    world = world_of(2, "all", task_rows=4)
    fans = ((1,), (1, *(0,) * 1000))
    stream = world.open(ChainSpec(groupings=((2, True),), fans=fans, stop=None, patience=5))
    assert drain(world, stream) == 1
    assert "5 batches in a row gave no element" in str(world.ended[stream].error)


@pytest.mark.parametrize("task_rows", [1, 2, 5])
def test_rows_that_are_dropped_as_they_come_behind_the_end_are_let_go_of(task_rows):
    """The end is known while the last records are read: all of them are too few for an earlier Batch, and it wraps."""
    spec = ChainSpec(
        groupings=((4, False), (3, True)), short="wrap", flats=(False,) * 3, fans=((1,),) * 3, stop=22
    )
    world = world_of(2, task_rows=task_rows)
    stream = world.open(spec)
    while stream not in world.ended:
        while world.give():
            pass
        while world.busy:
            world.finish(world.busy[0])
        while stream not in world.ended and world.pop(stream):
            pass
    world.wind_up()


def test_behind_too_many_bad_records_in_a_row_nothing_more_is_read():
    queue = ElementQueue()
    losses = tuple(Loss(place, 20 + place, 120 + place, 20 + place, "source", "bad") for place in (1, 2))
    begins = np.array([[20]])
    queue.runs.append(QueuedRun(1, records=3, losses=losses, done=True, size=1, begins=begins))
    queue.give_up_lost(3)
    assert not queue.ended
    queue.runs.append(
        QueuedRun(2, records=1, losses=(replace(losses[0], place=0),), done=True, begins=begins)
    )
    queue.give_up_lost(3)
    assert queue.ended and queue.runs[1].failed is not None


def test_a_stream_knows_how_often_it_has_begun_again():
    """Also one of a single record: a loss of the second time isn't one of the first."""
    for reads, passes in (
        ([[0, 1], [2], [0, 1, 2], [0]], [0, 0, 1, 2]),
        ([[4], [4], [4]], [0, 1, 2]),
    ):
        stream = stream_of(None, (), ())
        numbers = []
        for indices in reads:
            stream.assign(np.array(indices))
            numbers.append(stream.pass_number)
        assert numbers == passes


def test_a_stream_that_begins_again_was_entered_nowhere_but_in_the_batch_that_is_filled_up():
    """A batch of the second pass that begins at the cursor's index has all its children, unless it is that batch."""
    stream = stream_of(None, (3, 1), (2, 2))
    assert stream.begin_again(None) == []
    assert [stream.enter(level) for level in range(3)] == [(), (), (3, 1)]


def test_the_last_record_of_an_element_is_that_of_its_window():
    """Windows of three of the indices 0, 2, 4, ...; the last one is short. A failed window is left behind."""
    task, run = read_stream(range(0, 16, 2)), QueuedRun(7)
    begins = np.array([[0, 0], [0, 1], [6, 0], [12, 0]])
    note_windows(task, stream_read(begins, begins, 4), run, size=3, stream=5)
    assert run.lasts.tolist() == [4, 4, 10, 14]
    assert [run.last_index(number) for number in range(4)] == [4, 4, 10, 14]
    assert run.after is None


@pytest.mark.parametrize("task_rows", [1, 4])
def test_children_of_a_wrapped_batch_are_handed_out_once(task_rows):
    """Entered behind the first of two children of the batch that is filled up: the second, and the end."""
    spec = ChainSpec(short="wrap", flats=(False, True), fans=((1,), (2,)), stop=5)
    heads = list(spec.elements())
    resumed = fresh(spec, start=heads[2].ends)
    assert [element.value for element in resumed.elements()] == [heads[3].value]
    world = world_of(1, task_rows=task_rows)
    assert drain(world, world.open(resumed)) == 1
    world.wind_up()
