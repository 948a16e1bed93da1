"""Orbax saves Grain's state beside the model: the handler and its arguments, and files that either of both reads.

Process i of n writes `process_i-of-n.json`, the document of `get_state`.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loaderkit._system.descriptors import above_standard

from .sharding import process_index_and_count


class CheckpointHandler:
    """Orbax's handler; most programs name only CheckpointSave and CheckpointRestore.

    >>> CheckpointHandler.typestr().rpartition(".")[2]
    'CheckpointHandler'
    """

    def __init__(self) -> None:
        # Orbax asks whose arguments it was given as soon as it has a handler. Without Orbax nobody asks.
        with suppress(ImportError):
            arguments_of_orbax()

    def save(self, directory: Path, item: Any = None, args: Any = None) -> None:
        """Writes the state of an iterator into a directory that exists."""
        iterator = args.item if item is None else item
        _write(document_in(directory), _text_of(iterator))

    def restore(self, directory: Path, item: Any = None, args: Any = None) -> Any:
        """Sets an iterator to the state in a directory, begins its prefetch and returns it.

        Raises ValueError where this process's document isn't there.
        """
        iterator = args.item if item is None else item
        iterator.set_state(_read_in(directory).encode())
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


def document_in(directory: Any) -> Path:
    """This process's document in a directory.

    >>> document_in(Path("folder")).name
    'process_0-of-1.json'
    """
    index, count = process_index_and_count()
    document: Path = directory / f"process_{index}-of-{count}.json"
    return document


async def background_save(directory: Any, state: bytes) -> None:
    """Writes a state into a directory that is being made."""
    document = document_in(await directory.await_creation())
    await asyncio.to_thread(_write, document, state.decode())


async def background_load(directory: Any, set_state: Any) -> None:
    """Reads the state in a directory and sets it."""
    set_state((await asyncio.to_thread(_read_in, directory)).encode())


def _text_of(iterator: Any) -> str:
    text: str = iterator.get_state().decode()
    return text


def _read_in(directory: Path) -> str:
    document = document_in(directory)
    if not document.exists():
        raise ValueError(f"File {document} does not exist.")
    with above_standard():
        return document.read_text()


def _write(document: Path, text: str) -> None:
    with above_standard():
        document.write_text(text)


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
