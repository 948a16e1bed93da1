"""How a state lies on disk: one JSON document for each process, named `process_{i}-of-{n}.json`.

Needs no Orbax, so that the iterator can offer `save` and `load` without importing it. Five rules:

1. A document appears whole or not at all. It is written under another name, flushed to the disk and renamed, and
   its directory is flushed, so that it is there after a loss of power, too;
   in an object store ("gs://...") an object is visible only once it is whole, so it is written directly.
2. Only names of exactly that pattern are read: Orbax adds files of its own, and a crash may leave half a
   document under the other name.
3. Process i of any number reads document i mod n, then, where rows change in number and each process wrote the places
   of its own logical streams only, those that hold streams of this process: never all of them in every process. It
   looks at the next document too, to see that both are of one step.
4. All n documents have to be there. Only where the one that process i reads is alone, and not because others were lost,
   each process has storage of its own, and that one is enough.
5. Who finds the document of a neighbour, process i - 1 or i + 1, beside the one that it wrote puts a file named
   `shared_storage` there: of two neighbours the later one does. Storage of each process's own never has it.
"""

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from loaderkit._system.descriptors import above_standard
from loaderkit.errors import StateError

_DOCUMENT = re.compile(r"process_(0|[1-9][0-9]*)-of-([1-9][0-9]*)\.json")
_SHARED = "shared_storage"
_SHOWN_NAMES = 8
_CANT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}  # of a directory, on some network file systems

SavedState = bytes | Sequence[bytes]


class StatefulIterator(Protocol):
    """What is saved and restored: a loader's iterator, or anything with these four methods."""

    allow: Collection[str]

    def get_state(self) -> bytes: ...

    def set_state(self, state: SavedState, allow: Collection[str] = ()) -> None: ...

    def writers_needed(self, writers: Sequence[int]) -> Collection[int]:
        """Which documents this process needs; writers: the one that each logical stream's place is in."""
        ...

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
    index, count = this_process()
    _write_whole(directory, document_name(index, count), state)
    neighbours = {(index - 1) % count, (index + 1) % count} - {index}
    if any((directory / document_name(other, count)).exists() for other in neighbours):
        _write(directory / _SHARED, b"The state is all the documents beside this file.\n")


def _write_whole(directory: Path, name: str, state: bytes) -> None:
    if "://" in str(directory):
        _write(directory / name, state)
        return
    partial = directory / f"{name}.partial"
    try:
        with above_standard():
            file = partial.open("wb")
        with file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(directory / name)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync(directory)


def _sync(directory: Path) -> None:
    """The name is on the disk, too."""
    try:
        with above_standard():
            descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:
        return  # a directory that may be written to and not be listed
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANT_SYNC:
            raise
    finally:
        os.close(descriptor)


def _write(document: Path, content: bytes) -> None:
    with above_standard():
        document.write_bytes(content)


def _read(document: Path) -> bytes:
    with above_standard():
        return document.read_bytes()


def read_state(directory: Path) -> SavedState:
    """Read the state in `directory`: this process's document, or a list of all where that names other writers.

    StateError where a document is missing.
    """
    documents = list(_documents(directory, set).values())
    return documents if len(documents) > 1 else documents[0]


def _documents(directory: Path, needed: Callable[[Sequence[int]], Collection[int]]) -> dict[str, bytes]:
    """This process's document first, then the others that it needs; by name."""
    names = sorted(entry.name for entry in directory.iterdir())
    documents = [match for name in names if (match := _DOCUMENT.fullmatch(name))]
    counts = sorted({int(match[2]) for match in documents})
    if not counts:
        raise StateError(
            f"no data loader state in {directory}: expected files named process_{{i}}-of-{{n}}.json, such as "
            f"{document_name(*this_process())}, found {_listed(names)}. Was this item saved with "
            "lk.CheckpointSave(iterator), and is its name right?"
        )
    if len(counts) > 1:
        raise StateError(
            f"{directory} holds data loader states of {' and of '.join(map(str, counts))} processes: two "
            f"saves were mixed in one directory. Keep the files of one of them. Found {_listed(names)}."
        )
    (count,) = counts
    own = this_process()[0] % count
    alone = [match[0] for match in documents] == [document_name(own, count)]
    apart = alone and _SHARED not in names  # storage of this process's own
    missing = [name for i in range(count) if (name := document_name(i, count)) not in names]
    if missing and not apart:
        _lacks(directory, missing, names)
    read = {document_name(own, count): _read(directory / document_name(own, count))}
    others = {*needed(_writers_named(*read.values()))} - {own}
    for writer in sorted(others):
        name = document_name(writer, count)
        if name not in names:
            _lacks(directory, [name], names)
        read[name] = _read(directory / name)
    following = document_name((own + 1) % count, count)
    if not apart and following not in read:  # of those that are read `set_state` says it
        first = document_name(own, count)
        _check_steps(directory, {first: read[first], following: _read(directory / following)})
    return read


def _lacks(directory: Path, missing: list[str], names: list[str]) -> NoReturn:
    raise StateError(
        f"{directory} lacks {_listed(missing)}, a part of the data loader's state: found {_listed(names)}."
    )


def _check_steps(directory: Path, documents: dict[str, bytes]) -> None:
    (first, step), (second, other) = ((name, _parsed(state).get("step")) for name, state in documents.items())
    if type(step) is int and type(other) is int and step != other:
        raise StateError(
            f"{directory}: {first} is of step {step} and {second} of step {other}: two saves were mixed in one "
            "directory. Restore another checkpoint, or keep the files of one step."
        )


def restore_from(iterator: StatefulIterator, directory: Path, allow: Collection[str]) -> None:
    """Set `iterator` to the state in `directory` and start its prefetch; `allow` as for `set_state`."""
    documents = _documents(directory, iterator.writers_needed)
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


def _parsed(state: bytes) -> dict[str, Any]:
    try:
        document = json.loads(state)
    except (ValueError, RecursionError):
        return {}  # `set_state` says what is wrong with it
    return document if isinstance(document, dict) else {}


def _writers_named(state: bytes) -> list[int]:
    streams = _parsed(state).get("streams")
    writers = streams.get("writers") if isinstance(streams, dict) else None
    sound = isinstance(writers, list) and all(type(writer) is int for writer in writers)
    return writers if sound and isinstance(writers, list) else []


def _listed(names: list[str]) -> str:
    if not names:
        return "nothing"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more
