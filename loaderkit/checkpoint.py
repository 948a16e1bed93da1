"""Saves a loader's position beside the model: arguments and a handler for `orbax.checkpoint`.

`manager.save(step, args=ocp.args.Composite(model=..., dataset=CheckpointSave(iterator)))`. The state is a few
integers; it is taken before `save` returns and written while training continues. Orbax's newer API takes the
iterator itself and doesn't need this file.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp

from loaderkit._loader.state_files import StatefulIterator, read_state, restore_from, write_document

# How long to wait for this process's own directory once another process's exists. Longer than file systems take, so
# that the write raises a plain error instead of waiting for ever. Not measured.
_CREATION_SECONDS = 60.0


class CheckpointHandler(ocp.AsyncCheckpointHandler):  # type: ignore[misc]  # orbax ships no types
    """Writes and reads a loader's position for Orbax; pass it as one of `item_handlers` or to a `handler_registry`.

    Most programs don't need to name it: `CheckpointSave` and `CheckpointRestore` register it.

    >>> CheckpointHandler.typestr()
    'loaderkit.checkpoint.CheckpointHandler'
    """

    async def async_save(
        self, directory: Path, item: StatefulIterator | None = None, args: CheckpointSave | None = None
    ) -> list[ocp.future.Future]:
        """Takes the state now; the returned future writes it.

        Args:
            directory: where it is written; it is being created.
            item: the iterator; or
            args: what has it.
        """
        state = _saved(item, args).item.get_state()

        async def commit() -> None:
            await _created(directory)
            write_document(directory, state)

        # Orbax may create the directory in the background: its signals say when it exists.
        return [ocp.future.CommitFutureAwaitingContractedSignals(commit(), name="loaderkit_save")]

    def save(
        self, directory: Path, item: StatefulIterator | None = None, args: CheckpointSave | None = None
    ) -> None:
        """Writes the state before returning.

        Args:
            directory: where it is written; it exists.
            item: the iterator; or
            args: what has it.
        """
        write_document(directory, _saved(item, args).item.get_state())

    def restore(
        self, directory: Path, item: StatefulIterator | None = None, args: CheckpointRestore | None = None
    ) -> Any:
        """Sets the iterator to the saved state and returns it; without an iterator returns the state as bytes.

        Args:
            directory: where the state was written.
            item: the iterator; or
            args: what has it, and the fields that may differ.
        """
        restored = args if args is not None else CheckpointRestore(item)
        if restored.item is None:
            return read_state(directory)
        restore_from(restored.item, directory, restored.allow)
        return restored.item


@ocp.args.register_with_handler(CheckpointHandler, for_save=True)
@dataclasses.dataclass
class CheckpointSave(ocp.args.CheckpointArgs):  # type: ignore[misc]  # orbax ships no types
    """Saves the position of `item`, the iterator of a loader: `dataset=lk.CheckpointSave(iterator)`.

    Args:
        item: from `iter(loader)`. TypeError for an object without `get_state`, such as the loader itself.

    >>> import loaderkit as lk
    >>> it = iter(lk.load([1, 2]))
    >>> lk.CheckpointSave(it).item is it
    True
    """

    item: StatefulIterator

    def __post_init__(self) -> None:
        _check_iterator(self.item, "CheckpointSave", "get_state")


@ocp.args.register_with_handler(CheckpointHandler, for_restore=True)
@dataclasses.dataclass
class CheckpointRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]  # orbax ships no types
    """Sets `item`, the iterator of a loader, to the saved position and starts its prefetch.

    Args:
        item: from `iter(loader)`; None returns the saved state as bytes, for `iterator.set_state`.
        allow: names of state fields that may differ, as in `iterator.set_state`, such as {"global_batch_size"}.

    >>> import loaderkit as lk
    >>> lk.CheckpointRestore(iter(lk.load([1, 2])), allow={"source"}).allow
    {'source'}
    """

    item: StatefulIterator | None = None
    allow: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.item is not None:
            _check_iterator(self.item, "CheckpointRestore", "set_state")


async def _created(directory: Path) -> None:
    # With storage of each host's own (primary_host=None) the signal may come from another process, for its directory.
    deadline = time.monotonic() + _CREATION_SECONDS
    while "://" not in str(directory) and not directory.exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)


def _saved(item: StatefulIterator | None, args: CheckpointSave | None) -> CheckpointSave:
    if args is not None:
        return args
    if item is None:
        raise TypeError("args: expected CheckpointSave(iterator), got None")
    return CheckpointSave(item)


def _check_iterator(item: object, name: str, method: str) -> None:
    if not hasattr(item, method):
        raise TypeError(
            f"{name}: expected the iterator of a loader, got {type(item).__name__}, which has no {method}(). "
            f"Write `iterator = iter(loader)` once, loop over `iterator`, and pass {name}(iterator)."
        )
