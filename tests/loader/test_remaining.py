"""How many steps are left: `it.remaining` and `len(it)`, wherever the iterator stands."""

import itertools
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk


def even(x: int) -> bool:
    return x % 2 == 0


def counted(loader: "lk.DataLoader", it: "lk.DataLoaderIterator") -> int:
    """What `remaining` has to be: the elements that another iterator gives from the same place on."""
    with iter(loader) as again:
        again.set_state(it.get_state())
        return sum(1 for _ in again)


MOVES = st.lists(
    st.sampled_from(("next", "skip", "seek")).flatmap(
        lambda move: st.tuples(st.just(move), st.integers(0, 4))
    ),
    max_size=5,
)


def go(it: "lk.DataLoaderIterator", move: str, number: int) -> None:
    """One move; one that leads behind the end isn't made."""
    try:
        match move:
            case "next":
                list(itertools.islice(it, number))
            case "skip":
                it.skip(number)
            case "seek":
                it.seek(number)
    except IndexError:
        pass


@pytest.mark.filterwarnings("ignore:the last step has too few rows")
@given(
    count=st.integers(1, 13),
    epochs=st.integers(1, 2),
    batch=st.sampled_from((None, "keep", "drop", "pad", "wrap")),
    rows=st.integers(1, 2),
    inner=st.sampled_from((None, "keep", "drop")),
    shard=st.sampled_from(((0, 1), (0, 2), (1, 2))),
    num_steps=st.none() | st.integers(1, 6),
    moves=MOVES,
)
def test_what_is_left_is_what_comes(count, epochs, batch, rows, inner, shard, num_steps, moves):
    """Of any finite stream that keeps its rows, on each shard, after any moves; a seek back meets later skips again."""
    operations: list[lk.transforms.Transformation] = []
    if batch is not None:
        if inner is not None:
            # A shorter last row can't be stacked with others.
            operations.append(lk.Batch(2, remainder=inner if rows == 1 and batch != "wrap" else "drop"))
        operations.append(lk.Batch(global_batch_size=rows * shard[1], remainder=batch))
    loader = lk.DataLoader(
        data_source=range(count),
        sampler=lk.IndexSampler(count, num_epochs=epochs),
        operations=operations,
        shard_options=lk.ShardOptions(*shard),
        num_steps=num_steps,
    )
    with iter(loader) as it:
        assert it.remaining == len(loader)
        for move, number in moves:
            go(it, move, number)
            assert it.remaining == len(it) == operator.length_hint(it) == counted(loader, it)
        assert bool(it)
        it.close()
        assert it.remaining == len(it)


def test_what_is_left_where_there_is_no_end():
    """None, and why as the error of len; a progress bar then counts without an end. num_steps is one."""
    endless = iter(lk.load(range(5), batch_size=2))
    changing = iter(lk.load(range(5), num_epochs=1, operations=[lk.Filter(even)], batch_size=2))
    skipping = iter(lk.load(range(5), num_epochs=1, on_record_error="skip"))
    for it, why in (
        (endless, r"len\(it\): expected a stream that ends, got an endless sampler"),
        (changing, r"len\(it\) isn't known: Filter\(even\) changes the number of rows"),
        (skipping, r"len\(it\) isn't known: on_record_error='skip' changes the number of rows"),
    ):
        assert it.remaining is None
        if it is not endless:  # which is an error, as list() would never end: test_epochs.py
            assert operator.length_hint(it, 7) == 7
        with pytest.raises(TypeError, match=why):
            len(it)
    assert [len(batch) for batch in changing] == [2, 1]
    ending = iter(lk.load(range(5), num_steps=3))
    assert [(len(ending), next(ending)) for _ in range(3)] == [(3, 0), (2, 1), (1, 2)]
    assert ending.remaining == 0 and bool(ending)
    filtered = iter(lk.load(range(5), num_steps=3, operations=[lk.Filter(even)], batch_size=2))
    assert [len(filtered), next(filtered).tolist(), len(filtered)] == [3, [0, 2], 2]


def test_what_is_left_before_steps_of_another_size():
    """Up to the step that was made with another global batch size, where next() raises."""
    small, large = (lk.load(range(40), num_epochs=1, batch_size=size) for size in (2, 4))
    it = iter(small)
    list(itertools.islice(it, 3))
    for loader, steps in ((large, 2), (small, 1)):
        state = it.get_state()
        it = iter(loader)
        it.set_state(state, allow={"global_batch_size"})
        assert it.remaining == counted(loader, it)
        list(itertools.islice(it, steps))
    it.seek(1)
    assert it.remaining == 2
    assert [next(it).tolist() for _ in range(2)] == [[2, 3], [4, 5]]
    with pytest.raises(ValueError, match="step 3 takes 4 indices, this loader's steps 2"):
        next(it)


def test_what_is_left_of_a_source_that_became_shorter():
    """The stream ends before a later skip is met."""
    it = iter(lk.load(range(40), num_epochs=1, batch_size=2))
    list(itertools.islice(it, 3))
    it.skip(2)
    shorter = lk.load(range(4), num_epochs=1, batch_size=2)
    again = iter(shorter)
    again.set_state(it.get_state(), allow={"source", "sampler"})
    assert again.remaining == 0
    again.seek(0)
    assert again.remaining == len(list(again)) == 2


def test_what_is_left_for_the_user_of_a_wrapper():
    """Elements that a wrapper took ahead are left until they are received."""
    it = iter(lk.load(range(3), num_epochs=1))
    ahead = it.wrap()
    taken = ahead.take()
    assert it.remaining == 3
    ahead.received(taken)
    assert it.remaining == 2
