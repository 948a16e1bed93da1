"""None from an operation, as of a function without a `return`, is an error that names the operation and the record."""

from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.testing import check_operation, check_pipeline


def nothing_at_5(*arguments: Any) -> Any:
    element = next(value for value in arguments if isinstance(value, dict))
    if element["x"] != 5:
        return element
    return None


class Forgetful(lk.Filter):
    """Says nothing where it should say False."""

    def filter(self, element: Any) -> Any:
        """True below 5."""
        if element["x"] < 5:
            return True
        return None


OPERATIONS = {
    "Map": lk.Map(nothing_at_5),
    "Map that draws": lk.transforms.Seeded(nothing_at_5),
    "MapWithIndex": lk.MapWithIndex(nothing_at_5),
    "RandomMap": lk.RandomMap(nothing_at_5),
    "Filter": lk.Filter(nothing_at_5),
    "a class": Forgetful(),
    "a bare function": nothing_at_5,
}
SOURCE = [{"x": x} for x in range(8)]


@pytest.mark.parametrize("workers", [{}, {"worker_count": 1, "worker_kind": "thread"}])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_none_is_an_error_of_the_operation_and_the_record(operation, workers):
    """Elements before it arrive; the note names the record."""
    if workers and operation is OPERATIONS["Map that draws"]:
        pytest.skip("threads share the global generators")
    loader = lk.load(SOURCE, seed=0, num_epochs=1, operations=[operation], **workers)
    made = []
    with (
        loader,
        pytest.raises(
            lk.errors.NoResultError, match=r"^operations\[0\] .*got None; does the function lack"
        ) as caught,
    ):
        made.extend(loader)
    assert [element["x"] for element in made] == [0, 1, 2, 3, 4]
    assert "record_key 5" in "".join(caught.value.__notes__) and isinstance(caught.value, TypeError)


def test_it_comes_before_the_error_of_a_later_record():
    """In the order of the stream, whatever the tasks."""

    def fails_at_6(element: Any) -> Any:
        if element["x"] == 6:
            raise OSError("broken")
        return nothing_at_5(element)

    with lk.load(SOURCE, operations=[fails_at_6]) as loader, pytest.raises(lk.errors.NoResultError):
        list(zip(range(8), loader, strict=False))


def test_a_batch_fn_that_gives_none_is_named():
    """With all records of its batch."""
    loader = lk.load(SOURCE, num_epochs=1, operations=[lk.Batch(4, batch_fn=lambda rows: None)])
    with pytest.raises(
        lk.errors.NoResultError, match=r"operations\[0\] Batch.*expected a batch of its batch_fn, got None"
    ):
        next(iter(loader))


@pytest.mark.parametrize("answer", [1, "yes", [0], np.True_, np.array([True]), 0.5])
def test_a_filter_takes_whatever_bool_takes(answer):
    """And 0, an empty text, an empty list are false."""
    empty = type(answer)() if isinstance(answer, int | str | list | float) else np.False_
    loader = lk.load(range(4), num_epochs=1, operations=[lk.Filter(lambda x: answer if x % 2 else empty)])
    assert list(loader) == [1, 3]


def test_the_checks_say_it():
    """check_pipeline with the place, check_operation with the element."""
    with pytest.raises(lk.errors.NoResultError, match=r"operations\[0\] Map\(nothing_at_5\)"):
        check_pipeline(lk.load(SOURCE, operations=[nothing_at_5], batch_size=4))
    with pytest.raises(
        lk.errors.ConformanceError, match="a result for element 1, got None; does the function lack"
    ):
        check_operation(nothing_at_5, {"x": 4}, {"x": 5})


def test_none_within_an_element_and_from_a_source_stays():
    """Only the element itself can't be None, and only what an operation made."""
    assert list(lk.load([None, 1], num_epochs=1)) == [None, 1]
    assert list(lk.load([1], num_epochs=1, operations=[lambda x: {"x": None}])) == [{"x": None}]


class Childless(lk.FlatMap):
    max_fan_out = 2

    def flat_map(self, element):
        pass


class Windowless(lk.Window):
    size = 2

    def window(self, elements):
        pass


@pytest.mark.parametrize("operation", [Childless(), Windowless()])
def test_none_in_place_of_elements(operation):
    """A forgotten return was the bare error of list()."""
    with pytest.raises(
        lk.errors.NoResultError, match="expected an iterable of elements, got None; does the function lack"
    ):
        list(lk.load([1, 2, 3], operations=[operation], num_epochs=1))
