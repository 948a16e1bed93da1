"""What tests of other rooms see of a DataLoader and of an index, by one name each.

Only these functions know where they are kept. Settings have functions of the package, which are imported where they are
called: a worker process imports a test's file, and needs no DataLoader, which was half of the rest of its start.
"""

from typing import Any

import loaderkit as lk


def settings_of(loader: "lk.DataLoader") -> Any:
    """The settings of a loader."""
    from loaderkit._loader import loader as package

    return package.settings_of(loader)


def variant_of(loader: "lk.DataLoader", **changed: Any) -> "lk.DataLoader":
    """A loader with other settings."""
    from loaderkit._loader import loader as package

    return package.variant_of(loader, **changed)


def executor_of(loader: "lk.DataLoader") -> Any:
    """The executor that a loader and its iterators use now; None where none was needed yet."""
    return loader._shared_executor._executor


def forget_executor(loader: "lk.DataLoader") -> None:
    """The next iterator gets another one, as where operations have changed; others keep theirs."""
    loader._shared_executor._executor = None


def worker_pids(loader: "lk.DataLoader") -> list[int]:
    """The pids of a loader's worker processes."""
    workers = executor_of(loader)._supervisor.workers.values()
    return [worker.process.pid for worker in workers if hasattr(worker, "process")]


def was_iterated(loader: "lk.DataLoader") -> bool:
    """Whether iter() was called on this loader, and not on a variant of it."""
    return loader._iterated


def plan_of(loader: "lk.DataLoader") -> Any:
    """The plan that an iterator of the loader has."""
    return loader._plan()


def change_section(source: Any, name: str) -> Any:
    """A section of the index of a source over files, put there as an array that can be written to. No file changes."""
    index = source._index
    index._file.sections[name] = index._file.sections[name].copy()
    index._starts = index._file.sections["starts"]
    return index._file.sections[name]
