"""Orbax saves Grain's state beside the model: the handler and its arguments, and files that either of both reads.

Process i of n writes `process_i-of-n.json`, the document of `get_state`.
"""

import json
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loaderkit._base.system.limits import above_standard
from loaderkit._loader.state_files import document_name, this_process, write_document

__all__ = ["CheckpointHandler"]


class CheckpointHandler:
    """Orbax's handler; most programs name only CheckpointSave and CheckpointRestore.

    >>> CheckpointHandler.typestr().rpartition(".")[2]
    'CheckpointHandler'
    """

    def __init__(self) -> None:
        # Orbax asks which arguments a handler takes as soon as it has the handler. Without Orbax nothing asks.
        with suppress(ImportError):
            arguments_of_orbax()

    def save(self, directory: Path, item: Any = None, args: Any = None) -> None:
        """Writes the state of an iterator into a directory that exists.

        Args:
            directory: of the checkpoint.
            item: the iterator, or
            args: a CheckpointSave that has it.
        """
        write_document(directory, document_of(args.item if item is None else item))

    def restore(self, directory: Path, item: Any = None, args: Any = None) -> Any:
        """Sets an iterator to the state in a directory, begins its prefetch and returns it.

        Args:
            directory: of the checkpoint.
            item: the iterator, or
            args: a CheckpointRestore that has it.

        Raises ValueError where this process's document isn't there.
        """
        iterator = args.item if item is None else item
        restore(iterator, directory)
        iterator.start_prefetch()
        return iterator

    def structure(self, directory: Path) -> None:
        """None: a state has no structure that Orbax knows."""

    def metadata(self, directory: Path) -> None:
        """None: a state says itself what it is."""

    def finalize(self, directory: Path) -> None:
        """Nothing is left to be done."""

    def close(self) -> None:
        """Nothing is held."""

    @classmethod
    def typestr(cls) -> str:
        """The handler's name in a checkpoint."""
        return f"{cls.__module__}.{cls.__qualname__}"


def document_of(iterator: Any) -> bytes:
    """The state of an iterator as it is saved: that of a data set is a dict, that of a DataLoader its JSON.

    >>> import loaderkit.interop.grain as grain
    >>> document_of(iter(grain.MapDataset.range(3)))
    b'{\\n    "next_index": 0\\n}'
    """
    state: Any = iterator.get_state()
    return state if isinstance(state, bytes) else json.dumps(state, indent=4).encode()


def restore(iterator: Any, directory: Any) -> None:
    """Sets an iterator to the state that this process wrote into a directory; ValueError where there is none."""
    document = read_document(directory)
    of_data_set = isinstance(iterator.get_state(), dict)
    iterator.set_state(json.loads(document) if of_data_set else document)


async def save_async(iterator: Any, directory: Any) -> Coroutine[Any, Any, None]:
    """Takes the state now, and writes it in what is returned."""
    document = document_of(iterator)

    async def commit() -> None:
        write_document(await directory.await_creation(), document)

    return commit()


async def load_saved(iterator: Any, directory: Any) -> None:
    """Restores an iterator from a directory."""
    restore(iterator, directory)


def read_document(directory: Any) -> bytes:
    """The state that this process wrote into a directory; ValueError where there is none.

    >>> read_document(Path("nowhere"))
    Traceback (most recent call last):
    ValueError: File nowhere/process_0-of-1.json does not exist.
    """
    document: Path = directory / document_name(*this_process())
    if not document.exists():
        raise ValueError(f"File {document} does not exist.")
    with above_standard():
        return document.read_bytes()


@cache
def arguments_of_orbax() -> tuple[type, type]:
    """CheckpointSave and CheckpointRestore, made when they are first asked for; ImportError without Orbax."""
    import orbax.checkpoint as ocp

    @ocp.args.register_with_handler(CheckpointHandler, for_save=True)
    @dataclass
    class CheckpointSave(ocp.args.CheckpointArgs):  # type: ignore[misc]  # orbax ships no types
        """Save the position of `item`, what iter(loader) gave."""

        item: Any

    @ocp.args.register_with_handler(CheckpointHandler, for_restore=True)
    @dataclass
    class CheckpointRestore(ocp.args.CheckpointArgs):  # type: ignore[misc]  # orbax ships no types
        """Set `item`, what iter(loader) gave, to the saved position."""

        item: Any

    return CheckpointSave, CheckpointRestore


if TYPE_CHECKING:
    CheckpointSave: Any
    CheckpointRestore: Any
else:

    def __getattr__(name: str) -> Any:
        if name in ("CheckpointSave", "CheckpointRestore"):
            return arguments_of_orbax()[name == "CheckpointRestore"]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
