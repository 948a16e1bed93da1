"""How a state lies on disk: one JSON document for each process, named `process_{i}-of-{n}.json`.

Needs no Orbax, so that the iterator can offer `save` and `load` without importing it. Three rules:

1. A document appears whole or not at all. It is written under another name, flushed to the disk and renamed;
   in an object store ("gs://...") an object is visible only once it is whole, so it is written directly.
2. Only names of exactly that pattern are read: Orbax adds files of its own, and a crash may leave half a
   document under the other name.
3. Process i of any number reads document i mod n, then those of the other writers that it names under
   "streams": where rows change in number, each process wrote the places of its own logical streams only.
"""

import json
import os
import re
import sys
from collections.abc import Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from loaderkit.errors import StateError

_DOCUMENT = re.compile(r"process_(0|[1-9][0-9]*)-of-([1-9][0-9]*)\.json")
_SHOWN_NAMES = 8

SavedState = bytes | Sequence[bytes]


class StatefulIterator(Protocol):
    """What is saved and restored: a loader's iterator, or anything with these three methods."""

    allow: Collection[str]

    def get_state(self) -> bytes: ...

    def set_state(self, state: SavedState, allow: Collection[str] = ()) -> None: ...

    def start_prefetch(self) -> None: ...


class DirectoryToCome(Protocol):
    """Orbax's path of a directory that is created in the background."""

    async def await_creation(self) -> Path: ...


def this_process() -> tuple[int, int]:
    """This process's index and the number of processes: JAX's, where the program uses JAX.

    >>> index, count = this_process()
    >>> 0 <= index < count
    True
    """
    jax = sys.modules.get("jax")
    return (0, 1) if jax is None else (jax.process_index(), jax.process_count())


def document_name(index: int, count: int) -> str:
    """The name of process `index`'s document among `count`.

    >>> document_name(0, 1)
    'process_0-of-1.json'
    """
    return f"process_{index}-of-{count}.json"


def write_document(directory: Path, state: bytes) -> None:
    """Write this process's document into `directory`, which exists: a pathlib path or its like."""
    name = document_name(*this_process())
    if "://" in str(directory):
        (directory / name).write_bytes(state)
        return
    partial = directory / f"{name}.partial"
    try:
        with partial.open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(directory / name)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read_state(directory: Path) -> SavedState:
    """Read what this process needs from `directory`: its document, or a list where that names other writers.

    StateError where a document is missing.
    """
    documents = list(_documents(directory).values())
    return documents if len(documents) > 1 else documents[0]


def _documents(directory: Path) -> dict[str, bytes]:
    """This process's document first, then those of the writers that it names; by name."""
    names = sorted(entry.name for entry in directory.iterdir())
    documents = [match for name in names if (match := _DOCUMENT.fullmatch(name))]
    counts = sorted({int(match[2]) for match in documents})
    if not counts:
        raise StateError(
            f"no data loader state in {directory}: expected files named process_{{i}}-of-{{n}}.json, found "
            f"{_listed(names)}. Was this item saved with lk.CheckpointSave(iterator), and is its name right?"
        )
    if len(counts) > 1:
        raise StateError(
            f"{directory} holds data loader states of {' and of '.join(map(str, counts))} processes: two "
            f"saves were mixed in one directory. Keep the files of one of them. Found {_listed(names)}."
        )
    (count,) = counts
    own = this_process()[0] % count
    state = _read(directory, own, count, names)
    writers = [own, *(writer for writer in _writers_named(state) if writer != own)]
    return {
        document_name(writer, count): state if writer == own else _read(directory, writer, count, names)
        for writer in writers
    }


def restore_from(iterator: StatefulIterator, directory: Path, allow: Collection[str]) -> None:
    """Set `iterator` to the state in `directory` and start its prefetch; `allow` as for `set_state`."""
    documents = _documents(directory)
    states = list(documents.values())
    try:
        iterator.set_state(states if len(states) > 1 else states[0], allow)
    except Exception as error:
        files = ", ".join(str(directory / name) for name in documents)
        error.add_note(f"while restoring the data loader from {files}")
        raise
    iterator.start_prefetch()


async def save_async(iterator: StatefulIterator, directory: DirectoryToCome) -> Coroutine[Any, Any, None]:
    """Take the state now, on the calling thread; the coroutine returned writes it in due time."""
    state = iterator.get_state()

    async def commit() -> None:
        write_document(await directory.await_creation(), state)

    return commit()


async def load_async(iterator: StatefulIterator, directory: Path) -> Coroutine[Any, Any, None]:
    """Restore `iterator` from `directory` now, allowing what `iterator.allow` names; nothing waits."""
    restore_from(iterator, directory, iterator.allow)

    # Orbax hides what the coroutine raises behind an error about handlers; a mismatch is for people to read.
    async def nothing_left() -> None:
        return None

    return nothing_left()


def _read(directory: Path, index: int, count: int, names: list[str]) -> bytes:
    name = document_name(index, count)
    if name not in names:
        raise StateError(
            f"{directory} lacks {name}, a part of the data loader's state: found {_listed(names)}."
        )
    return (directory / name).read_bytes()


def _writers_named(state: bytes) -> list[int]:
    try:
        document = json.loads(state)
    except (ValueError, RecursionError):
        return []  # `set_state` says what is wrong with it
    streams = document.get("streams") if isinstance(document, dict) else None
    writers = streams.get("writers") if isinstance(streams, dict) else None
    return (
        sorted({writer for writer in writers if isinstance(writer, int)}) if isinstance(writers, list) else []
    )


def _listed(names: list[str]) -> str:
    if not names:
        return "nothing"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more
