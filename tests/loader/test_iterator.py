"""An iterator stands at one place, for every thread that uses it, until an element is handed out."""

import gc
import json
import threading
import weakref

import numpy as np
import pytest
from internals import variant_of
from pipelines import Pipeline, Running, Step
from stream_twin import assert_same, outcomes

import loaderkit as lk

RUNNINGS = [Running(), Running(2), pytest.param(Running(1, "process"), marks=pytest.mark.slow)]
every_running = pytest.mark.parametrize("running", RUNNINGS, ids=str)

NUMBERS = Pipeline("numbers", 20, False, 1, (Step("batch", 3),))
CHANGING = Pipeline("numbers", 20, False, 1, (Step("fan", 2), Step("batch", 3)))


def loader_of(running: Running, *operations, count: int = 20) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=range(count),
        sampler=lk.IndexSampler(count, num_epochs=1, seed=1),
        operations=operations,
        worker_count=running.workers,
        worker_kind=running.kind,
    )


@every_running
@pytest.mark.parametrize("pipeline", [NUMBERS, CHANGING], ids=["fixed", "changing"])
def test_peek_gives_what_next_gives(pipeline, running):
    """peek, however often, gives the element that next() then gives, the same object, and moves nothing."""
    expected, _ = outcomes(pipeline.twin())
    with running.loader(pipeline) as loader:
        it = iter(loader)
        for step, element in enumerate(expected):
            peeked = it.peek()
            assert it.peek() is peeked
            assert it.step == step
            assert next(it) is peeked
            assert_same([peeked], [element])
        for _ in range(2):
            with pytest.raises(StopIteration):
                it.peek()
        assert next(it, None) is None


@every_running
def test_step_and_index_count_what_was_handed_out(running):
    """step counts elements, index is the next record's; prefetching moves neither, and the epoch follows the index."""
    sampler = lk.IndexSampler(4, num_epochs=3)
    with lk.DataLoader(
        data_source=range(4),
        sampler=sampler,
        operations=[lk.Batch(3)],
        worker_count=running.workers,
        worker_kind=running.kind,
    ) as loader:
        it = iter(loader)
        it.start_prefetch()
        seen = [(it.step, it.index, it.epoch)]
        for _ in it:
            seen.append((it.step, it.index, it.epoch))  # noqa: PERF401 - the positions change with the loop
        assert seen == [(0, 0, 0), (1, 3, 0), (2, 6, 1), (3, 9, 2), (4, 12, 3)]
        assert repr(it) == "<DataLoaderIterator at step 4, index 12>"


def test_an_epoch_that_nobody_knows():
    """Of a sampler that doesn't say how long an epoch is, the epoch is None."""

    class Own:
        def __getitem__(self, index: int) -> lk.RecordMetadata:
            return lk.RecordMetadata(index, index % 4)

    assert iter(lk.DataLoader(data_source=range(4), sampler=Own())).epoch is None


def test_always_true():
    """Loader and iterator are true, whatever their length or place."""
    loader = loader_of(Running(), lk.Batch(20, drop_remainder=True), count=5)
    it = iter(loader)
    assert len(loader) == 0
    assert bool(loader)
    assert list(it) == []
    assert bool(it)
    assert iter(it) is it


@every_running
def test_closing(running):
    """After close, or the with statement, next, peek and moves say so; the position stays; closing twice is fine."""
    with loader_of(running, lk.Batch(3)) as loader:
        with iter(loader) as it:
            first = next(it)
            it.peek()
        it.close()
        assert (it.step, it.index, first.tolist()) == (1, 3, [0, 1, 2])
        state = it.get_state()
        for ask in (
            lambda: next(it),
            it.peek,
            it.start_prefetch,
            lambda: it.seek(0),
            lambda: it.skip(1),
            lambda: it.set_state(state),
        ):
            with pytest.raises(lk.errors.IteratorClosedError, match=r"closed; iter\(loader\) gives another"):
                ask()
        assert it.get_state() == state
        assert next(iter(loader)).tolist() == first.tolist()


@every_running
def test_with_statement_keeps_the_users_error(running):
    """The with statement closes and hands on what was raised in it."""
    with loader_of(running) as loader:
        with pytest.raises(KeyError), iter(loader) as it:
            raise KeyError(next(it))
        with pytest.raises(lk.errors.IteratorClosedError):
            next(it)


@every_running
def test_closing_the_loader(running):
    """Closing a loader twice is fine; its iterators and new ones say that it was closed."""
    loader = loader_of(running, lk.Batch(3))
    it = iter(loader)
    next(it)
    loader.close()
    loader.close()
    with pytest.raises(lk.errors.IteratorClosedError, match="the loader was closed"):
        next(it)
    with pytest.raises(lk.errors.IteratorClosedError, match="the loader was closed"):
        iter(loader)
    assert it.step == 1


@every_running
def test_threads_share_an_iterator(running):
    """Of threads that call next() on one iterator, each element goes to exactly one, and none is left out."""
    with loader_of(running, lk.Batch(3), count=600) as loader:
        it = iter(loader)
        taken: list[list[np.ndarray]] = [[], [], []]
        states: list[bytes] = []

        def take(mine: list[np.ndarray]) -> None:
            for batch in it:
                mine.append(batch)
                states.append(it.get_state())

        threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(key for mine in taken for batch in mine for key in batch.tolist()) == list(range(600))
        for mine in taken:
            assert [batch[0] for batch in mine] == sorted(batch[0] for batch in mine)
        assert it.step == 200
        assert len(states) == 200


def test_close_wakes_a_thread_that_waits():
    """A thread that waits for a slow element ends with an error when another one closes the iterator."""
    begun, go = threading.Event(), threading.Event()

    def slow(key: int) -> int:
        begun.set()
        go.wait(30)
        return key

    with loader_of(Running(1), slow) as loader:
        it = iter(loader)
        errors: list[type[Exception] | None] = []
        waiting = threading.Thread(target=lambda: errors.append(outcomes(it, 1)[1]))
        waiting.start()
        assert begun.wait(30)
        it.close()
        waiting.join(30)
        go.set()
    assert errors == [lk.errors.IteratorClosedError]
    assert it.step == 0


@every_running
def test_two_iterators_at_once(running):
    """Iterators of one loader stand each at its own place, and share its workers."""
    expected, _ = outcomes(NUMBERS.twin())
    with running.loader(NUMBERS) as loader:
        one, two = iter(loader), iter(loader)
        assert one._reader.executor is two._reader.executor
        found = [[], []]
        for who in (0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1):
            found[who].append(next((one, two)[who]))
        assert_same(found[0], expected)
        assert_same(found[1], expected)
        one.close()
        third = iter(loader)
        assert_same(list(third), expected)


def test_an_iterator_outlives_its_loaders_name():
    """for batch in DataLoader(...): the iterator keeps the workers, and with it they go."""
    before = {*threading.enumerate()}
    it = iter(loader_of(Running(2), lk.Batch(3)))
    gc.collect()
    assert len(list(it)) == 7
    executor = weakref.ref(it._reader.executor)
    threads = {*threading.enumerate()} - before
    del it
    gc.collect()
    for thread in threads:
        thread.join(30)
    assert threads and not any(thread.is_alive() for thread in threads)
    del thread, threads
    gc.collect()
    assert executor() is None


@every_running
def test_an_iterator_that_failed_can_go(running):
    """An error holds its iterator through the traceback; once both are dropped, workers and memory go, unclosed."""

    def fail(key: int) -> int:
        raise ZeroDivisionError(key)

    it = iter(loader_of(running, fail))
    gone = weakref.ref(it)
    with pytest.raises(ZeroDivisionError) as raised:
        next(it)
    del it, raised
    gc.collect()
    assert gone() is None


@every_running
def test_start_prefetch_begins_work(running):
    """start_prefetch makes elements before the first next() where there are workers, and changes nothing else."""
    expected, _ = outcomes(NUMBERS.twin())
    with running.loader(NUMBERS) as loader:
        it = iter(loader)
        it.start_prefetch()
        it.start_prefetch()
        assert it._reader._stream is not None
        assert_same(list(it), expected)


def test_inline_makes_nothing_ahead():
    """At worker_count=0 an element is made when it is asked for, in the calling thread."""
    made: list[tuple[int, threading.Thread]] = []

    def note(key: int) -> int:
        made.append((key, threading.current_thread()))
        return key

    loader = variant_of(loader_of(Running(), note, lk.Batch(3)), task_rows=3)
    it = iter(loader)
    it.start_prefetch()
    assert made == []
    next(it)
    assert made == [(key, threading.current_thread()) for key in range(3)]


def test_an_interrupt_loses_nothing():
    """Ctrl-C in the middle of an element: the position stays, and next() gives that element."""
    interrupts = iter([False, False, True])

    def interrupted(key: int) -> int:
        if next(interrupts, False):
            raise KeyboardInterrupt
        return key

    expected = [[0, 1], [2, 3], [4]]
    loader = loader_of(Running(), interrupted, lk.Batch(2), count=5)
    it = iter(loader)
    found = []
    try:
        for batch in it:
            found.append(batch.tolist())  # noqa: PERF401 - the loop is interrupted
    except KeyboardInterrupt:
        assert len(found) == it.step
        found += [batch.tolist() for batch in it]
    else:
        raise AssertionError("nothing was interrupted")
    assert found == expected


def test_notices_of_a_state():
    """A state edited by hand, and another RandomMap, are told and taken."""
    it = iter(loader_of(Running(), lk.RandomMap(lambda key, rng: key)))
    state = it.get_state()
    without = b"\n".join(line for line in state.split(b"\n") if b'"digest"' not in line)
    without = without.rstrip().rstrip(b"}").rstrip().rstrip(b",") + b"}"
    with pytest.warns(UserWarning, match="no digest: it was edited by hand") as said:
        it.set_state(without)
    assert said[0].filename == __file__
    plain = iter(loader_of(Running()))
    with pytest.warns(UserWarning, match="the RandomMaps changed"):
        plain.set_state(state)


def test_a_wrapped_iterator_stands_where_its_user_stands():
    """What a wrapper took ahead counts when the user has it: in the state, and in every way to ask for the place."""
    loader = lk.load(range(20), batch_size=2)
    with iter(loader) as plain, iter(loader) as it:
        next(it)
        ahead = it.wrap()
        taken = [ahead.take() for _ in range(3)]
        next(plain)
        assert (it.step, it.index, it.get_state()) == (1, 2, plain.get_state())
        next(plain)
        ahead.received(taken[0])
        assert (it.step, it.index, it.get_state()) == (2, 4, plain.get_state())
        assert [one.element.value.tolist() for one in taken] == [[2, 3], [4, 5], [6, 7]]
        moves = ahead.moves
        it.skip(2)
        plain.skip(2)
        assert ahead.moves != moves and it.get_state() == plain.get_state()
        assert ahead.take().element.value.tolist() == next(plain).tolist() == [8, 9]


def test_a_wrappers_user_hears_of_bad_records_with_the_elements_that_they_are_of(tmp_path):
    """Not when they are taken ahead: what is never received would be told of by the run that goes on from there."""
    path = tmp_path / "bad.jsonl"

    def bad(record: int) -> int:
        if record in (3, 6, 7):
            raise ValueError(record)
        return record

    options = {"batch_size": 2, "num_epochs": 1, "on_record_error": "skip", "quarantine": path}
    with iter(lk.load(range(8), operations=[bad], **options)) as it:
        ahead = it.wrap()
        taken = [ahead.take() for _ in range(3)]
        with pytest.raises(StopIteration):
            ahead.take()
        seen = []
        for item in taken:
            seen.append((it.bad_records, '"record_key": 3' in path.read_text()))
            ahead.received(item)
        assert seen == [(0, False), (0, False), (1, True)]
        assert it.bad_records == 3
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert {(line["record_key"], line["step"]) for line in lines} == {(3, 1), (6, 3), (7, 3)}


def test_an_error_of_a_wrapped_iterator_names_its_own_step():
    """Not that of what the user has received."""

    def fail(record: int) -> int:
        if record == 5:
            raise ValueError("five")
        return record

    with iter(lk.load(range(8), batch_size=1, operations=[fail])) as it:
        ahead = it.wrap()
        for _ in range(5):
            ahead.take()
        with pytest.raises(ValueError, match="five") as raised:
            ahead.take()
    assert raised.value.__notes__[0].endswith("at step 5")


def test_an_error_that_is_raised_again_is_as_it_was():
    """However often next() is asked: its traceback doesn't grow, and its notes aren't repeated."""
    with iter(lk.load([1, 0], operations=[lambda x: 1 // x])) as it:
        next(it)
        seen = []
        for _ in range(4):
            with pytest.raises(ZeroDivisionError) as raised:
                next(it)
            seen.append((raised.value, len(raised.traceback), [*raised.value.__notes__]))
        assert all(one == seen[1] for one in seen[1:]) and seen[0][0] is seen[1][0]


def test_elements_of_a_wrapped_iterator_are_the_wrappers():
    """Two consumers would each miss what the other took: the second is refused."""
    with iter(lk.load(range(20))) as it:
        it.wrap()
        for use in (it.__next__, it.peek, it.wrap):
            with pytest.raises(RuntimeError, match="this iterator is wrapped"):
                use()


@every_running
@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_next_goes_the_same_way_where_more_is_asked_than_the_next_element(running, policy):
    """A run that ends after a number of steps is looked at before each of them; here it never gets there."""

    def odd(x: int) -> int:
        if policy == "skip" and x % 7 == 3:
            raise ValueError(x)
        return x

    loaders = [
        lk.DataLoader(
            data_source=range(40),
            sampler=lk.IndexSampler(40, seed=1),
            operations=[odd, lk.Batch(2)],
            num_steps=num_steps,
            on_record_error=policy,
            worker_count=running.workers,
            worker_kind=running.kind,
        )
        for num_steps in (None, 10**6)
    ]
    with loaders[0], loaders[1]:
        one, other = map(iter, loaders)
        for step in range(60):
            assert_same([next(one)], [next(other)])
            assert (one.step, one.index, one.bad_records) == (other.step, other.index, other.bad_records)
            if step % 20 == 10:
                assert_same([one.peek()], [other.peek()])
            if step == 30 and policy == "raise":
                one.seek(7)
                other.seek(7)
