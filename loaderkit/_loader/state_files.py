"""Files of saved states: one JSON document for each process, named `process_{i}-of-{n}.json`.

Needs no Orbax, so that the iterator can offer `save` and `load` without importing it. Five rules:

1. A document is written whole or not at all: under a temporary name, flushed to the disk, renamed, and its directory
   flushed, so that it survives a loss of power. In an object store ("gs://...") an object becomes visible only when
   it is complete, so it is written directly.
2. Only names of exactly this pattern are read: Orbax adds files of its own, and a crash may leave a partial document
   under the temporary name.
3. Process i of any number of processes reads document i mod n. Where operations change the number of rows, each
   document has the cursors of its own process's logical streams only, and a process reads the documents that have
   its streams; only a mixture that gets other weights needs all of them. It also reads the next document, to check that
   both are of one step.
4. All n documents have to exist. The exception is storage of each process's own, where document i is the only one and
   there is no file `shared_storage`.
5. A process that finds the document of a neighbour, process i - 1 or i + 1, beside its own writes the file
   `shared_storage`: of two neighbours, the one that writes later. So storage of each process's own never has it.
"""

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from loaderkit._base.system.limits import above_standard, open_descriptor
from loaderkit.errors import StateError

_DOCUMENT = re.compile(r"process_(0|[1-9][0-9]*)-of-([1-9][0-9]*)\.json")
_SHARED = "shared_storage"
_SHOWN_NAMES = 8  # file names that an error shows
_CANT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}  # some network file systems can't flush a directory

SavedState = bytes | Sequence[bytes]


class StatefulIterator(Protocol):
    """An object with a state to save and restore: a loader's iterator, or another one with these members."""

    allow: Collection[str]

    def get_state(self) -> bytes: ...

    def set_state(self, state: SavedState, allow: Collection[str] = ()) -> None: ...

    def writers_needed(self, writers: Sequence[int], allow: Collection[str] = ()) -> Collection[int]:
        """The numbers of the documents that this process needs.

        writers: for each logical stream the number of the document that has its cursor. allow: as for `set_state`.
        """
        ...

    def start_prefetch(self) -> None: ...


class DirectoryToCome(Protocol):
    """Orbax's path of a directory that is being created in the background."""

    async def await_creation(self) -> Path: ...


def this_process() -> tuple[int, int]:
    """This process's index and the number of processes: JAX's if the program imported JAX, else 0 and 1.

    >>> index, count = this_process()
    >>> 0 <= index < count
    True
    """
    jax = sys.modules.get("jax")
    return (0, 1) if jax is None else (jax.process_index(), jax.process_count())


def document_name(index: int, count: int) -> str:
    """The file name of the document of process `index` of `count`.

    >>> document_name(0, 1)
    'process_0-of-1.json'
    """
    return f"process_{index}-of-{count}.json"


def write_document(directory: Path, state: bytes) -> None:
    """Writes this process's document into `directory`, an existing pathlib path or an object like one."""
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
    """Flushes a directory, so that the new name is on the disk too."""
    try:
        descriptor = open_descriptor(directory, os.O_RDONLY)
    except PermissionError:
        return  # a directory may be writable and not readable
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
    """Reads the state in `directory`: this process's document, or a list of all if that names other writers.

    Raises StateError where a document is missing.
    """
    documents = list(_documents(directory, set).values())
    return documents if len(documents) > 1 else documents[0]


def _documents(directory: Path, needed: Callable[[Sequence[int]], Collection[int]]) -> dict[str, bytes]:
    """{name: document} of this process's document, then of the others that it needs."""
    names = sorted(entry.name for entry in directory.iterdir())
    documents = [match for name in names if (match := _DOCUMENT.fullmatch(name))]
    counts = sorted({int(match[2]) for match in documents})
    if not counts:
        raise StateError(
            f"{directory}: expected data loader states named process_{{i}}-of-{{n}}.json, such as "
            f"{document_name(*this_process())}, got {_listed(names)}. Was this item saved with "
            "lk.CheckpointSave(iterator), and is its name right?"
        )
    if len(counts) > 1:
        raise StateError(
            f"{directory}: expected data loader states of one save, got those of {' and of '.join(map(str, counts))} "
            f"processes: {_listed(names)}. Keep the files of one save."
        )
    (count,) = counts
    own = this_process()[0] % count
    alone = [match[0] for match in documents] == [document_name(own, count)]
    own_storage = alone and _SHARED not in names
    missing = [name for i in range(count) if (name := document_name(i, count)) not in names]
    if missing and not own_storage:
        _lacks(directory, missing, names)
    read = {document_name(own, count): _read(directory / document_name(own, count))}
    others = {*needed(_writers_named(*read.values()))} - {own}
    for writer in sorted(others):
        name = document_name(writer, count)
        if name not in names:
            _lacks(directory, [name], names)
        read[name] = _read(directory / name)
    following = document_name((own + 1) % count, count)
    if not own_storage and following not in read:  # `set_state` compares the steps of the documents in `read`
        first = document_name(own, count)
        _check_steps(directory, {first: read[first], following: _read(directory / following)})
    return read


def _lacks(directory: Path, missing: list[str], names: list[str]) -> NoReturn:
    raise StateError(
        f"{directory}: expected {_listed(missing)}, a part of the data loader's state, got {_listed(names)}"
    )


def _check_steps(directory: Path, documents: dict[str, bytes]) -> None:
    (first, step), (second, other) = ((name, _parsed(state).get("step")) for name, state in documents.items())
    if type(step) is int and type(other) is int and step != other:
        raise StateError(
            f"{directory}: expected data loader states of one step, got {first} of step {step} and {second} of step "
            f"{other}. Restore another checkpoint, or keep the files of one step."
        )


def restore_from(iterator: StatefulIterator, directory: Path, allow: Collection[str]) -> None:
    """Sets `iterator` to the state in `directory` and starts its prefetch; `allow` as for `set_state`."""
    documents = _documents(directory, lambda writers: iterator.writers_needed(writers, allow))
    states = list(documents.values())
    try:
        iterator.set_state(states if len(states) > 1 else states[0], allow)
    except Exception as error:
        files = ", ".join(str(directory / name) for name in documents)
        error.add_note(f"while restoring the data loader from {files}")
        raise
    iterator.start_prefetch()


async def save_async(iterator: StatefulIterator, directory: DirectoryToCome) -> Coroutine[Any, Any, None]:
    """Takes the state now, on the calling thread, and returns a coroutine that writes it."""
    state = iterator.get_state()

    async def commit() -> None:
        write_document(await directory.await_creation(), state)

    return commit()


async def load_async(iterator: StatefulIterator, directory: Path) -> Coroutine[Any, Any, None]:
    """Restores `iterator` from `directory` now, with `iterator.allow`, and returns a coroutine that does nothing."""
    # Not in the coroutine: Orbax replaces an error of a coroutine by one about handlers, and the user has to see ours.
    restore_from(iterator, directory, iterator.allow)

    async def done() -> None:
        return None

    return done()


def _parsed(state: bytes) -> dict[str, Any]:
    try:
        document = json.loads(state)
    except (ValueError, RecursionError):
        return {}  # `set_state` raises the error
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
