"""Steps of users in a chain: they run in order, once it is said what that loses, and are checked for it by name."""

import warnings
from itertools import pairwise

import numpy as np
import pytest

import loaderkit.interop.grain as grain
from loaderkit.errors import ConformanceError
from loaderkit.testing import check_iter_dataset

N = 12


class Pairs(grain.DatasetIterator):
    """Adds each element to the one before, which its state has."""

    def __init__(self, parent):
        super().__init__(parent)
        self.before = 0

    def __next__(self):
        element = int(next(self._parent))
        self.before, total = element, self.before + element
        return {"total": total}

    def get_state(self):
        return {"parent": self._parent.get_state(), "before": self.before}

    def set_state(self, state):
        self._parent.set_state(state["parent"])
        self.before = state["before"]


class Forgetful(Pairs):
    """Its state lacks what it holds."""

    def get_state(self):
        return self._parent.get_state()

    def set_state(self, state):
        self._parent.set_state(state)


class Sticky(Pairs):
    """It keeps what it held where it is set to a state."""

    def set_state(self, state):
        self._parent.set_state(state["parent"])
        self.before = self.before or state["before"]


class Arrays(Pairs):
    """Its state is no JSON."""

    def get_state(self):
        return {"parent": self._parent.get_state(), "before": np.int64(self.before)}


class Drifting(Pairs):
    """It counts all that any iterator has given."""

    given = 0

    def __next__(self):
        Drifting.given += 1
        return {"total": super().__next__()["total"] + Drifting.given}


def step_of(iterator):
    """A user's class of data sets with these iterators."""

    class Step(grain.IterDataset):
        def __init__(self, before):
            super().__init__(before)
            self.before = before

        def __iter__(self):
            return iterator(iter(self.before))

    Step.__name__ = f"{iterator.__name__}Step"
    return Step


def chain(iterator):
    ds = grain.MapDataset.range(N).to_iter_dataset().map(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        step = step_of(iterator)(ds)
    return step.map(lambda each: each["total"]).batch(5)


def test_a_users_step_runs_in_order_in_the_middle_of_a_chain():
    """What is before it and behind it is as without it; a state goes on exactly."""
    ds = chain(Pairs)
    batches = [batch.tolist() for batch in ds]
    totals = [2 * number + 1 for number in range(N)]
    assert batches == [totals[:5], totals[5:10], totals[10:]]
    iterator = iter(ds)
    next(iterator)
    again = iter(ds)
    again.set_state(iterator.get_state())
    assert [batch.tolist() for batch in again] == batches[1:]


def test_one_warning_says_what_a_users_step_loses():
    """At the first data set of a class, not at each."""
    before = grain.MapDataset.range(N).to_iter_dataset()
    step = step_of(Pairs)
    with pytest.warns(
        UserWarning, match=r"PairsStep: .*in order in this process.*check_iter_dataset"
    ) as said:
        [step(before) for _ in range(2)]
    assert len(said) == 1


def test_streams_have_a_users_step_each():
    """With W workers the step is made anew for each of the W streams, as in Grain's processes."""
    ds = chain(Pairs).mp_prefetch(grain.MultiprocessingOptions(2, worker_count=0))
    iterator = iter(ds)
    streams = [[0, *range(1, N + 1, 2)], [0, *range(2, N + 1, 2)]]
    sums = [[a + b for a, b in pairwise(each)] for each in streams]
    expected = [sums[0][:5], sums[1][:5], sums[0][5:], sums[1][5:]]
    assert [batch.tolist() for batch in iterator] == expected
    iterator.close()


class Counting:
    """A function that keeps state."""

    def __init__(self):
        self.calls = 0

    def __call__(self, element):
        self.calls += 1
        return self.calls


def test_streams_have_a_users_function_each():
    """One that counts its calls counts those of its stream, as in a process of Grain's."""
    shuffled = grain.experimental.WindowShuffleIterDataset(
        grain.MapDataset.range(N).to_iter_dataset(), window_size=2, seed=0
    )
    ds = shuffled.map(Counting()).mp_prefetch(grain.MultiprocessingOptions(3, worker_count=0))
    iterator = iter(ds)
    assert [*iterator] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    iterator.close()


@pytest.mark.parametrize(
    ("iterator", "check"),
    [(Forgetful, "restore"), (Sticky, "moved"), (Arrays, "json"), (Drifting, "again")],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_check_iter_dataset_names_the_step_that_isnt_exact(iterator, check):
    """The error has the class of the step, not of those before it or behind it, and the check that failed."""
    with pytest.raises(ConformanceError, match=f"check_iter_dataset: a {iterator.__name__}Step: ") as error:
        check_iter_dataset(chain(iterator))
    assert error.value.check == check


def test_check_iter_dataset_passes_what_is_exact():
    """A user's step that says all, and steps of ours; an empty data set has nothing to check."""
    report = check_iter_dataset(chain(Pairs), elements=5)
    assert [name for name, _ in report.passed] == ["again", "json", "restore", "moved"]
    documents = grain.MapDataset.source([{"a": np.arange(n)} for n in (3, 4, 2, 5)]).to_iter_dataset()
    packed = grain.experimental.FirstFitPackIterDataset(documents, length_struct={"a": 6}, num_packing_bins=2)
    assert not check_iter_dataset(grain.experimental.RepeatIterDataset(packed, 2)).skipped
    assert len(check_iter_dataset(packed.filter(lambda row: False), skip=["json"]).skipped) == 4
