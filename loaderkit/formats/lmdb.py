"""Values of an LMDB database."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from reprlib import repr as _short
from typing import Any, SupportsIndex
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike

from loaderkit._base.closing import Closing
from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import true_or_false
from loaderkit._base.system.file_identity import FileIdentity, file_changed
from loaderkit._base.system.optional_library import library
from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit._source.content import content_hash, digest_of, sampled_keys
from loaderkit._source.record_key import check_key, check_keys
from loaderkit.errors import DataFormatError
from loaderkit.sources.has_card import HasCard, file_sizes
from loaderkit.sources.sliced import sliced

from .decoded import decoded_records


class LmdbDataSource(HasCard, Closing):
    """The values of an LMDB database, in the order of its keys. It is opened read-only, once in each process.

    Args:
        path: the database's folder, or its file.
        keys: bytes or texts (UTF-8): those that are records, in this order; None for all, which are listed once, when
            the source is made. ValueError naming a key that the database lacks.
        decode: True gives the records that `lk.write` encodes as they were, and other values as bytes; False gives
            bytes always.

    FileChangedError where the database was written to since the source was made.

    >>> import lmdb, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with lmdb.open(folder.name) as env, env.begin(write=True) as transaction:
    ...     _ = transaction.put(b"b", b"two"), transaction.put(b"a", b"one")
    >>> with LmdbDataSource(folder.name) as source:
    ...     len(source), source[0], source.name(1)
    (2, b'one', 'b')
    >>> folder.cleanup()
    """

    @former_arguments(removed_in="0.3.0", by_place=["keys"])
    @refusing_foreign_arguments
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keys: Sequence[bytes | str] | None = None,
        decode: bool = True,
    ) -> None:
        self._decode = true_or_false("decode", decode)
        self._path = os.path.abspath(os.path.expanduser(os.fspath(path)))
        self._file = os.path.join(self._path, "data.mdb") if os.path.isdir(self._path) else self._path
        if not os.path.exists(self._file):
            raise FileNotFoundError(f"path: expected an LMDB database, got none at {self._file}")
        self._identity: FileIdentity | None = FileIdentity.of(self._file)
        self._prepare()
        chosen = None if keys is None else [_as_bytes(key, place) for place, key in enumerate(keys)]
        try:
            with self._naming():
                self._keys: list[bytes] = self._listed(chosen)
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self._opened: _Environment | None = None

    def _listed(self, chosen: list[bytes] | None) -> list[bytes]:
        """The chosen keys, which are all there, or all of the database's."""
        with self._environment().begin() as transaction:
            if chosen is None:
                chosen = [bytes(key) for key in transaction.cursor().iternext(values=False)]
            elif missing := [key for key in chosen if transaction.get(key) is None]:
                raise ValueError(f"keys: expected keys of {self._path}, got {missing[0]!r}, which it lacks")
        if not chosen:
            raise ValueError(f"path: expected one record or more, got {self._path} or keys without any")
        return chosen

    def _environment(self) -> Any:
        opened = self._opened  # another thread may close it
        if opened is None:
            opened = self._opened = _shared(self._path, self._file)
        return opened.environment

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """LMDB's own errors name neither the file nor what to do."""
        lmdb = _library()
        try:
            yield
        except lmdb.Error as error:
            raise _damaged(self._path, str(error)) from error

    def _check_unchanged(self) -> None:
        if self._identity is not None:
            self._identity.check(self._file, FileIdentity.of(self._file))

    def file_versions(self) -> Any:
        """What tells exactly these files from others, as JSON values: size and time."""
        return FileIdentity.of(self._file).told()

    def __len__(self) -> int:
        return len(self._keys)

    @sliced
    def __getitem__(self, key: int) -> Any:
        return self.__getitems__([key])[0]

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        keys = check_keys(record_keys, len(self), self)
        values: list[Any] = [b""] * len(keys)
        self._check_unchanged()
        environment = self._environment()
        with self._naming(), environment.begin() as transaction:
            for place in np.argsort(keys, kind="stable").tolist():
                key = self._keys[keys[place]]
                value = transaction.get(key)
                if value is None:
                    raise file_changed(self._file, f"the key {key!r} is missing now")
                values[place] = value
        if not self._decode:
            return values
        return decoded_records(
            values, lambda place, _: f"{self._file}: in the value of {self._keys[keys[place]]!r}"
        )

    def name(self, record_key: SupportsIndex) -> str:
        """The record's key as text.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        return self._keys[check_key(record_key, len(self), self)].decode("utf-8", "backslashreplace")

    def data_files(self) -> dict[str, int | None]:
        """The files, and the bytes of each."""
        return file_sizes([self._file])

    def fingerprint(self) -> dict[str, Any]:
        """A hash of the keys, and one of some values."""
        return {
            "type": "LmdbDataSource",
            "records": len(self),
            "keys": digest_of([key.hex() for key in self._keys]),
            "decode": self._decode,
            "content": content_hash(self.__getitems__(sampled_keys(len(self)))),
        }

    def close(self) -> None:
        """Closes the database, where no other source of this process has it open; a later read opens it again."""
        self._opened = None

    def __repr__(self) -> str:
        return f"LmdbDataSource({self._path!r}, records={len(self)})"

    def __getstate__(self) -> tuple[Any, ...]:
        # Inode numbers and times hold on this machine and for this run only.
        identity = self._identity if goes_to_a_worker() else None
        return self._path, self._file, self._keys, self._decode, identity

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._path, self._file, self._keys, self._decode, self._identity = state
        self._prepare()


class _Environment:
    """An open database, closed with its last reference.

    A process that is forked reads on through the map that it inherited, which is safe for a database that is opened for
    reading and without locks; LMDB opens a path once in a process, and takes the child for the same one.
    """

    def __init__(self, path: str, file: str) -> None:
        self.environment: Any = None
        self.environment = _open(path, file)

    def __del__(self) -> None:
        if self.environment is not None:
            self.environment.close()


_ENVIRONMENTS: WeakValueDictionary[tuple[str, FileIdentity], _Environment] = WeakValueDictionary()
_OPENING = threading.Lock()
# No child begins with a database that another thread has opened halfway.
os.register_at_fork(
    before=_OPENING.acquire, after_in_parent=_OPENING.release, after_in_child=_OPENING.release
)


def _shared(path: str, file: str) -> _Environment:
    """The database, open in this process for all its sources."""
    with _OPENING:
        place = os.path.realpath(path), FileIdentity.of(file)
        found = _ENVIRONMENTS.get(place)
        if found is None:
            found = _ENVIRONMENTS[place] = _Environment(path, file)
        return found


def _library() -> Any:
    return library("lmdb", "LMDB databases need", "lmdb")


def _open(path: str, file: str) -> Any:
    lmdb = _library()
    try:
        environment = lmdb.open(
            path, subdir=os.path.isdir(path), readonly=True, lock=False, readahead=False, meminit=False
        )
    except lmdb.Error as error:
        if "already open" in str(error):
            raise OSError(
                f"{path}: expected a database that this process has open in no other way, got one that lmdb.open has "
                "opened; close that one first"
            ) from error
        raise DataFormatError(
            f"{path}: expected an LMDB database, got a file that isn't one: {error}"
        ) from error
    # A page that the file doesn't have ends the process that reads it.
    expected = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if (size := os.path.getsize(file)) < expected:
        environment.close()
        raise _damaged(path, f"{size} bytes, and its head says {expected}")
    return environment


def _damaged(path: str, got: str) -> DataFormatError:
    return DataFormatError(
        f"{path}: expected a whole LMDB database, got {got}; it was truncated or damaged: write it again, or get a new "
        "copy"
    )


def _as_bytes(key: Any, place: int) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if not isinstance(key, bytes):
        raise TypeError(f"keys[{place}]: expected bytes or a text, got {_short(key)}")
    return key
