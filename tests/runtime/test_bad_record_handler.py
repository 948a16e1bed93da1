"""Which records a worker reads instead of bad ones, what it remembers of them, and what is no record's fault."""

import errno

import numpy as np
import pytest

import loaderkit as lk
import loaderkit._runtime.worker.bad_record_handler as mending
from loaderkit._engine.task import ReadStream
from loaderkit._runtime.worker.bad_record_handler import BadRecordHandler
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions, RecordReader
from loaderkit.transforms.pipeline import Pipeline

CANDIDATES = 8


class Source:
    """Its records are their keys; those that are down can't be read, and every read is noted."""

    def __init__(self, *down):
        self.down = {*down}
        self.reads = []

    def __len__(self):
        return 100

    def __getitem__(self, key):
        self.reads.append(key)
        if key in self.down:
            raise OSError(f"{key} is down")
        return key


class Searching:
    """Says to try the index behind, one at a time, and notes what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, index, tried):
        self.asked.append((index, tried))
        assert len(self.asked) < 100, "it asks the same again and again"
        found = np.arange(index + tried + 1, min(index + tried + 2, index + CANDIDATES + 1))
        return found, found


def handler(source, *operations, policy="replace", seed=None):
    reader = RecordReader(source, ReadOptions(), copy=True)
    program = Program(source, operations, seed, ReadOptions(), row_changing=False, on_record_error=policy)
    return BadRecordHandler(Pipeline(operations, seed), reader, program, Searching())


def make(mending, *keys, on_record_start=None):
    """The values of a task of these records, and the failure behind them."""
    rows = np.array(keys)
    run = mending.make(ReadStream(0, rows, rows), 0, len(keys), on_record_start)
    return list(run.values), run.failure


def test_a_record_that_was_bad_once_is_not_tried_instead_of_another():
    """It still counts as tried, so that the search goes on behind it."""
    source = Source(4, 5, 6, 7)
    mends = handler(source)
    assert make(mends, 5) == ([8], None)
    source.reads.clear()
    assert make(mends, 4) == ([8], None)
    assert source.reads == [4, 5, 8] and mends._search.asked[-4:] == [(4, 0), (4, 1), (4, 2), (4, 3)]
    assert [(loss.index, loss.instead) for loss in mends.losses] == [(5, 8), (4, 8)]


@pytest.mark.parametrize(
    "on_record_start", [None, lambda index, instead=None: None], ids=["at once", "one by one"]
)
def test_a_record_that_can_be_read_again_is_tried_again(on_record_start):
    """Once it was read in a row of its own it is as good as any."""
    source = Source(5, 6)
    mends = handler(source)
    assert make(mends, 5) == ([7], None) and mends._bad == {6}
    source.down.discard(6)
    assert make(mends, 5) == ([7], None)
    assert make(mends, 6, on_record_start=on_record_start) == ([6], None)
    assert make(mends, 5) == ([6], None)


def test_where_an_operation_draws_a_record_that_it_fails_on_may_be_good_in_another_row():
    """So it is tried instead of others; one that can't be read isn't."""

    class Draws(lk.RandomMap):
        def random_map(self, element, rng):
            if len(drawn) < 1:
                drawn.append(element)
                raise ValueError("a crop that doesn't fit")
            return element

    drawn, source = [], Source(5)
    mends = handler(source, Draws(), seed=1)
    assert make(mends, 5) == ([7], None) and drawn == [6]
    assert make(mends, 5) == ([6], None)
    source.down.add(6)
    assert make(mends, 5) == ([7], None) and mends._bad == {6}


def test_what_is_remembered_of_bad_records_is_bounded(monkeypatch):
    """Beyond that they are found anew."""
    monkeypatch.setattr(mending, "_MOST_KNOWN", 2)
    mends = handler(Source(*range(10, 20)), policy="skip")
    assert make(mends, *range(10, 20)) == ([], None)
    assert len(mends._bad) == 2 and len(mends.losses) == 10


def test_where_all_that_can_be_tried_is_bad_the_error_says_how_many():
    """Those that needn't be tried again are among them."""
    mends = handler(Source(*range(100)))
    for index in (10, 11):
        values, failure = make(mends, index)
        assert values == [] and f"the {CANDIDATES} tried instead are bad" in str(failure.error)
        assert isinstance(failure.error.__cause__, OSError)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), *(OSError(code, "none left") for code in (errno.ENOMEM, errno.EMFILE, errno.ENFILE))],
    ids=repr,
)
@pytest.mark.parametrize(
    "policy", ["replace", "skip", lambda error, metadata: 0], ids=["replace", "skip", "call"]
)
def test_a_want_of_the_machine_is_raised(error, policy):
    """Also where it is met in a record that is read instead of a bad one."""

    def fail(x):
        if x == 6:
            raise error
        return x

    mends = handler(Source(5), lk.Map(fail), policy=policy)
    assert make(mends, 4, 6) == ([4], make(mends, 6)[1])
    assert make(mends, 6)[1].error is error
    if policy == "replace":
        values, failure = make(mends, 5)
        assert values == [] and failure.error is error


def test_an_error_of_several_records_is_raised():
    """As that of a source that miscounts: which of them is bad is unknown."""

    class Miscounts(Source):
        def __getitems__(self, keys):
            return keys[1:]

    values, failure = make(handler(Miscounts(), policy="skip"), 1, 2, 3)
    assert values == [] and failure.indices == (1, 2, 3)


def test_who_raised_it_is_the_operation_unless_the_policys_function_raises_another():
    """So that the error that is handed on unchanged names the operation."""

    def decode(x):
        raise KeyError(x)

    def unchanged(error, metadata):
        raise error

    def another(error, metadata):
        raise LookupError(metadata.record_key) from error

    _, failure = make(handler(Source(), lk.Map(decode), policy=unchanged), 3)
    assert (type(failure.error), failure.label) == (KeyError, "operations[0] Map(decode)")
    _, failure = make(handler(Source(), lk.Map(decode), policy=another), 3)
    assert (type(failure.error), failure.label, failure.indices) == (LookupError, "on_record_error", (3,))


def test_records_lost_behind_an_error_of_a_row_are_no_losses_yet():
    """They come again with the rows behind it; those before it are told."""

    def element(x):
        return {"valid": x} if x == 3 else {"x": x}

    mends = handler(Source(1, 5), lk.Map(element), lk.Batch(8, remainder="pad"), policy="skip")
    values, failure = make(mends, *range(8))
    assert [value["x"] for value in values] == [0, 2] and failure.indices == (3,)
    assert [loss.index for loss in mends.losses] == [1]
