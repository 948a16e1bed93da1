"""How large an output is, before it is pickled."""

from typing import Any

import numpy as np

from loaderkit._base.tree import flatten
from loaderkit.transforms.stack import Block


def weight_of(output: list[Any]) -> int:
    """About the bytes that an output holds; the elements of a list count as much as its first each."""
    nbytes = 0
    for part in output:
        if isinstance(part, Block):
            nbytes += sum(column.nbytes for column in part.columns if isinstance(column, np.ndarray))
        elif part:
            nbytes += len(part) * sum(map(_leaf_nbytes, flatten(part[0])[0]))
    return nbytes


def _leaf_nbytes(leaf: Any) -> int:
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.nbytes
    return len(leaf) if isinstance(leaf, bytes | str) else 0
