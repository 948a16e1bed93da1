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


def test_torch_tensors_are_compared_by_value():
    """Those that numpy takes, and others."""
    torch = pytest.importorskip("torch", reason="needs the torch package")
    for options in ({}, {"dtype": torch.bfloat16}, {"requires_grad": True}):
        assert alike(torch.ones(3, **options), torch.ones(3, **options))
        assert not alike(torch.ones(3, **options), torch.zeros(3, **options))
