"""What tests of other rooms see of a DataLoader: its executor and its plan, by one name each.

Only these functions know where a loader keeps them. Settings have functions of the package: `settings_of` and
`variant_of` in loaderkit/_loader/loader.py.
"""

from typing import Any

import loaderkit as lk


def executor_of(loader: lk.DataLoader) -> Any:
    """The executor that a loader and its iterators use now; None where none was needed yet."""
    return loader._shared_executor._executor


def was_iterated(loader: lk.DataLoader) -> bool:
    """Whether iter() was called on this loader, and not on a variant of it."""
    return loader._iterated


def plan_of(loader: lk.DataLoader) -> Any:
    """The plan that an iterator of the loader has."""
    return loader._plan()
