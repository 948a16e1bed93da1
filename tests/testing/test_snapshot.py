"""Arrays of other libraries are compared by what they hold."""

from typing import Any

import numpy as np
import pytest

from loaderkit.testing.snapshot import difference, snapshot_of


class Tensor:
    """As PyTorch's: pickles of equal ones differ, == gives truths. Numpy has no dtype for an `unknown` one."""

    made = 0

    def __init__(self, values: Any, dtype: str = "float32", *, unknown: bool = False) -> None:
        Tensor.made += 1
        self.number = Tensor.made
        self.values, self.unknown = np.array(values, dtype), unknown
        self.dtype, self.shape = self.values.dtype, self.values.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.unknown:
            raise TypeError("no such dtype in numpy")
        return self.values

    def __eq__(self, other: Any) -> Any:
        return self.values == other.values

    __hash__ = None  # type: ignore[assignment]


def alike(one: Any, other: Any) -> bool:
    return difference(snapshot_of({"x": one}), snapshot_of({"x": other})) is None


@pytest.mark.parametrize("unknown", [False, True])
def test_arrays_of_other_libraries_are_compared_by_value(unknown):
    """With their dtype and shape."""
    first = Tensor([1, 2], unknown=unknown)
    assert alike(first, Tensor([1, 2], unknown=unknown))
    assert not alike(first, Tensor([1, 3], unknown=unknown))
    assert not alike(first, Tensor([1, 2], "float64", unknown=unknown))
    assert not alike(first, Tensor([[1, 2]], unknown=unknown))


@pytest.mark.torch
def test_torch_tensors_are_compared_by_value():
    """Those that numpy takes, and others."""
    torch = pytest.importorskip("torch")
    for options in ({}, {"dtype": torch.bfloat16}, {"requires_grad": True}):
        assert alike(torch.ones(3, **options), torch.ones(3, **options))
        assert not alike(torch.ones(3, **options), torch.zeros(3, **options))


def test_numbers_are_compared_bit_by_bit():
    """Zero has a sign, and a NaN is equal to itself."""
    assert alike(0.0, 0.0)
    assert not alike(0.0, -0.0)
    assert not alike(complex(0.0, 0.0), complex(0.0, -0.0))
    assert alike(float("nan"), float("nan"))


class Plain:
    """Compares by identity."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def test_plain_objects_are_compared_by_what_they_hold():
    """Arrays of other libraries and sets within them too, and an object that holds itself."""
    assert alike(Plain(x=Tensor([1, 2])), Plain(x=Tensor([1, 2])))
    assert not alike(Plain(x=Tensor([1, 2])), Plain(x=Tensor([1, 3])))
    assert not alike(Plain(x=1), Plain(y=1))
    assert alike(Plain(a=Plain(b=[float("nan")])), Plain(a=Plain(b=[float("nan")])))
    one, other = Plain(), Plain()
    one.own, other.own = one, other  # type: ignore[attr-defined]
    assert alike(one, other)


def test_functions_are_compared_by_their_pickles():
    """They hold no attributes that could be compared."""
    assert alike(len, len)
    assert not alike(lambda: 1, lambda: 2)


def test_nans_of_a_dtype_that_numpy_lacks_are_equal():
    """A tensor in bfloat16, or with a gradient."""
    assert alike(Tensor([1, np.nan], unknown=True), Tensor([1, np.nan], unknown=True))
    assert not alike(Tensor([1, np.nan], unknown=True), Tensor([2, np.nan], unknown=True))


class Table:
    """As a DataFrame: == gives a table, and pickles of equal ones differ."""

    made = 0

    def __init__(self, values: list[int]) -> None:
        Table.made += 1
        self.number, self.values = Table.made, values

    def equals(self, other: Any) -> bool:
        return bool(self.values == other.values)


def test_tables_are_compared_by_their_equals():
    """Whatever else they hold."""
    assert alike(Table([1, 2]), Table([1, 2]))
    assert not alike(Table([1, 2]), Table([1, 3]))


def test_a_memmap_is_equal_to_its_copy(tmp_path):
    """A pickled copy is an array."""
    np.save(tmp_path / "x.npy", np.arange(4))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert alike(mapped, np.arange(4))
    assert not alike(mapped, np.arange(4) + 1)
