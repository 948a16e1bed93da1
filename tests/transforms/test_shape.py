"""What the plan of a stream gets of its operations, and how errors show them."""

from dataclasses import dataclass

import pytest

import loaderkit as lk
from loaderkit.transforms.shape import shape_of


@dataclass
class AtLeast(lk.Filter):
    """Has a repr of its own, with its parameter."""

    least: int

    def filter(self, element: int) -> bool:
        """The function's name says it."""
        return element >= self.least


class Unspeakable(lk.Filter):
    """Has a repr that raises."""

    def filter(self, element: int) -> bool:
        """All."""
        return True

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def loader_of(operation: lk.transforms.Transformation) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, 9, 1),
        sampler=lk.SequentialSampler(9),
        operations=[operation, lk.Batch(2)],
    )


def test_an_operation_shows_itself_in_errors_as_its_class_says():
    """With its parameters, if rows can't be counted because of it."""
    with pytest.raises(TypeError, match=r"AtLeast\(least=3\) changes the number of rows"):
        len(loader_of(AtLeast(3)))


def test_a_repr_that_raises_is_no_error_of_the_loader():
    """The class's name is said instead."""
    loader = loader_of(Unspeakable())
    assert [batch.tolist() for batch in loader][:2] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="Unspeakable changes the number of rows"):
        len(loader)


def test_what_processes_compare_has_no_repr():
    """A repr may hold an address; two shapes with other reprs are the same."""
    one, other = shape_of([AtLeast(3)])[0], shape_of([AtLeast(4)])[0]
    assert one == other and (one.label, one.shown) == ("AtLeast", "AtLeast(least=3)")


def test_a_repr_is_asked_for_by_an_error_only():
    """The repr of an operation with a long list may take as long as an epoch."""

    class Counted(lk.Filter):
        asked = 0

        def filter(self, element: int) -> bool:
            return True

        def __repr__(self) -> str:
            Counted.asked += 1
            return "Counted"

    loader = loader_of(Counted())
    next(iter(loader))
    assert Counted.asked == 0
    with pytest.raises(TypeError, match="Counted changes"):
        len(loader)
    assert Counted.asked == 1
