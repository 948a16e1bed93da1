"""One stream: what a loader gives is a function of data, sampler and operations, however it is run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import settings_of
from pipelines import Pipeline, Running, Step, few, pipelines, runnings, some
from stream_twin import assert_same, outcomes

from loaderkit._loader.plan import repeats_order

# Every operation, nested Batches, functions for batches, operations behind the last Batch; with and without failures.
FIXED = Step("add", 2), Step("draw", 3), Step("index", 2), Step("draw_globally", 5)
DROP = (("drop", True),)
PIPELINES = {
    "in place": Pipeline("arrays", 25, True, 2, (Step("draw", 3), Step("batch", 4))),
    "elements": Pipeline("mixed", 25, True, 2, (*FIXED, Step("wrap", 1))),
    "nested": Pipeline("mixed", 25, False, 3, (*FIXED, Step("batch", 3), Step("draw", 4), Step("batch", 2))),
    "functions": Pipeline(
        "arrays", 20, True, 2, (Step("batch", 2, (("fn", True),)), *FIXED, Step("batch", 3), Step("wrap", 2))
    ),
    "changing": Pipeline(
        "arrays",
        25,
        True,
        2,
        (
            Step("fan", 2),
            Step("draw", 9),
            Step("filter", 2),
            Step("batch", 2, DROP),
            Step("fan", 3),
            Step("batch", 3),
        ),
    ),
    "changing elements": Pipeline(
        "mixed", 25, True, 1, (Step("filter", 1), *FIXED, Step("fan", 2), Step("fan", 1))
    ),
    "failing": Pipeline("numbers", 25, True, 2, (*FIXED, Step("fail", 3), Step("batch", 4))),
    "failing, changing": Pipeline(
        "numbers", 25, True, 2, (Step("fan", 3), Step("fail", 20), Step("batch", 3))
    ),
}


def check(pipeline: Pipeline, running: Running) -> None:
    expected, failed = outcomes(pipeline.twin())
    with running.loader(pipeline) as loader:
        found, error = outcomes(iter(loader))
    assert_same(found, expected)
    assert error is failed


@given(pipelines(), runnings())
def test_equals_the_twin(pipeline, running):
    """Inline and with threads, any pipeline gives what a plain interpreter of its operations gives, errors included."""
    check(pipeline, running)


@pytest.mark.slow
@few
@given(pipelines(), runnings("process"))
def test_equals_the_twin_in_processes(pipeline, running):
    """The same in processes."""
    check(pipeline, running)


@pytest.mark.slow
@pytest.mark.parametrize(("place", "name"), [(0, "in place"), (6, "failing")])
def test_processes_show_in_nothing(place, name):
    """One, two or three processes, with tasks of a few rows, give what the interpreter gives."""
    workers = 1 + place % 3
    check(PIPELINES[name], Running(workers, "process", prefetch=workers, task_rows=(None, 1, 3)[place // 3]))


@pytest.mark.parametrize("task_rows", [None, 1, 5, 100])
@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("name", PIPELINES)
def test_cuts_show_in_nothing(name, workers, task_rows):
    """Wherever tasks are cut, below a batch, at it, and over several, inline and in threads."""
    check(PIPELINES[name], Running(workers, "thread", prefetch=3, task_rows=task_rows))


def test_the_pipelines_are_what_they_say():
    """The table's own promise: some streams end well, some in an error, and none is empty."""
    ends = {name: outcomes(pipeline.twin()) for name, pipeline in PIPELINES.items()}
    assert all(values for values, _ in ends.values())
    assert {name for name, (_, error) in ends.items() if error} == {"failing", "failing, changing"}


@some
@given(pipelines(failing=False), st.data())
def test_any_shuffle_of_two_iterators(pipeline, data):
    """Two iterators of one loader, asked in any order, both give the whole stream."""
    expected, failed = outcomes(pipeline.twin())
    running = data.draw(runnings())
    found = [], []
    with running.loader(pipeline) as loader:
        iterators = [iter(loader), loader_again(loader)]
        while len(found[0]) < len(expected) or len(found[1]) < len(expected):
            who = data.draw(st.integers(0, 1)) if min(map(len, found)) < len(expected) else 0
            if len(found[who]) == len(expected):
                who = 1 - who
            found[who].append(next(iterators[who]))
        ends = [outcomes(it) for it in iterators]
    for one in found:
        assert_same(one, expected)
    assert ends == [([], failed)] * 2


def loader_again(loader):
    """A second iterator; of a shuffled single epoch a loader says, once more, that its order repeats."""
    if repeats_order(settings_of(loader)):
        with pytest.warns(UserWarning, match="repeats the same shuffled order"):
            return iter(loader)
    return iter(loader)
