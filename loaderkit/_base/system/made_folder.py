"""Folders of ours say in a file, made.json, which of the files in them are ours; no other file in them is ever deleted.

In a folder of unfinished work it has a pattern of the names that the run gives; with a finished set the names and sizes
of all files.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import re
from collections.abc import Collection, Iterator
from typing import Any, Self

from loaderkit._base.canonical_json import check_seal, sealed
from loaderkit.errors import DataFormatError

from .resume import goes_on_from
from .waited_lock import locked_folder
from .whole_file import TEMPORARY, whole_file

MADE = "made.json"
_KIND = "loaderkit made"
_UNFINISHED = re.compile(re.escape(MADE) + TEMPORARY)
_INDEX_OF_A_SET = r"-\d+-[0-9a-f]{8}\.lkx"  # ends the name, as `ShardSet.index_name` gives it
_INDEX = b"LKINDEX"  # begins every version of them
_ADVICE = "delete the folder to begin again"


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """What a folder is of.

    asked: what decides the bytes, as JSON values. names: a regular expression of the names of unfinished files below
    the folder, None where it is finished. files: name -> bytes of the files of a finished set. replaced: whether
    another set has taken the name of this one, so that it is to be deleted. numerics: of the process that began the
    run, None where it isn't known.
    """

    asked: dict[str, Any] | None = None
    names: str | None = None
    files: dict[str, int] | None = None
    replaced: bool = False
    numerics: dict[str, str] | None = None

    @classmethod
    def read(cls, folder: str) -> Self | None:
        """What the folder's file says, None where there is none; DataFormatError for another file of this name."""
        path = os.path.join(folder, MADE)
        try:
            with open(path, "rb") as file:
                document = json.load(file)
        except FileNotFoundError:
            return None
        except ValueError:
            document = None
        if not isinstance(document, dict) or document.pop("kind", None) != _KIND:
            raise DataFormatError(
                f"{path}: expected what loaderkit has written there, got another file; {_ADVICE}"
            )
        document = check_seal(path, document, _ADVICE)
        # Fields that a later version adds are left out, and an earlier one had no numerics.
        document.setdefault("numerics", None)
        return cls(**{field.name: document[field.name] for field in dataclasses.fields(cls)})

    def write(self, folder: str) -> None:
        """Writes the file, whole or not at all."""
        with whole_file(os.path.join(folder, MADE)) as file:
            file.write(json.dumps({"kind": _KIND, **sealed(dataclasses.asdict(self))}, indent=1).encode())

    def owns(self, folder: str, name: str) -> bool:
        """Whether a name below the folder is that of one of our files; folders that are empty end with "/"."""
        path = os.path.join(folder, name)
        if os.path.islink(path):
            return False
        if self.names is not None:
            return bool(re.fullmatch(f"({self.names})({TEMPORARY})?", name))
        index, _, part = name.partition(".parts/")  # of a scan that failed
        if index.endswith(".lkx"):  # an index that a source has made since, under the name that it gives
            if index.removesuffix(".lkx").removeprefix(".") not in (self.files or ()) and not re.search(
                f"{_INDEX_OF_A_SET}$", index
            ):
                return False
            if name.endswith("/"):
                return not part
            return is_index(path)
        return name in (self.files or ()) and os.path.getsize(path) == (self.files or {})[name]

    def delete(self, folder: str, keep: Collection[str] = ()) -> None:
        """Deletes our files, and folders that are empty then; made.json stays.

        Args:
            folder: that has them.
            keep: names of those that stay.
        """
        for name in [*names_below(folder)]:
            if name not in keep and self.owns(folder, name) and not name.endswith("/"):
                os.unlink(os.path.join(folder, name))
        for parent, _, _ in os.walk(folder, topdown=False):
            if parent != folder and self.owns(folder, f"{os.path.relpath(parent, folder)}/"):
                with contextlib.suppress(OSError):
                    os.rmdir(parent)


def index_names(file: str) -> str:
    """A regular expression of the names of indexes of new files, and of what is in the folders of their parts.

    Args:
        file: a regular expression of the name of a single file.

    >>> (
    ...     bool(re.fullmatch(index_names("a.tar"), "a.tar.lkx")),
    ...     bool(re.fullmatch(index_names("a.tar"), "b.lkx")),
    ... )
    (True, False)
    """
    return rf"\.?({file}\.lkx|[^/]*{_INDEX_OF_A_SET})(\.parts/([^/]*\.(part|partial))?)?"


def is_index(path: str) -> bool:
    """Whether a file is an index of records, of any version of loaderkit.

    Args:
        path: of the file.
    """
    try:
        with open(path, "rb") as file:
            return file.read(len(_INDEX)) == _INDEX
    except (FileNotFoundError, IsADirectoryError):
        return False


def foreign_name(folder: str, made: Made | None) -> str | None:
    """The first name below a folder that isn't one of ours, None where there is none.

    Args:
        folder: its path.
        made: what it is of; None where nothing in it is known.
    """
    for name in sorted(names_below(folder)):
        own = _UNFINISHED.fullmatch(name) or (made is not None and (name == MADE or made.owns(folder, name)))
        if not own:
            return name
    return None


def delete_rest(folder: str) -> None:
    """Deletes our files in a folder, where there is one, of which the work is done or replaced; others stay."""
    made = Made.read(folder)
    if made is not None and (made.replaced or made.names is not None):
        made.delete(folder)
        os.unlink(os.path.join(folder, MADE))
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def delete_finished_work(folder: str) -> None:
    """`delete_rest` of what a process left that was killed when its result had its name; nothing where it left none."""
    if os.path.isdir(folder):
        with contextlib.suppress(OSError), locked_folder(folder):  # it may be read-only
            delete_rest(folder)


@contextlib.contextmanager
def unfinished_folder(
    folder: str,
    made: Made,
    *,
    goes_on: bool = True,
    overwrite: bool | None = None,
    allow: Collection[str] = (),
) -> Iterator[Made]:
    """The folder of unfinished work, locked by the caller; what it is of, which is what an earlier run said.

    Args:
        folder: its path. FileExistsError naming the first file in it that isn't of an earlier run.
        made: of this run.
        goes_on: whether an earlier run's files stay; else they are deleted, and this run's where the block raises.
        overwrite, allow: as `goes_on_from` takes them.
    """
    found = Made.read(folder)
    foreign = foreign_name(folder, found)
    if foreign is not None:
        raise FileExistsError(
            f"{folder}: expected unfinished files of an earlier run only, got {foreign!r}; move it away, or delete the "
            "folder"
        )
    for name in filter(_UNFINISHED.fullmatch, os.listdir(folder)):  # of a process that was killed
        os.unlink(os.path.join(folder, name))
    stays = found is not None and not found.replaced and goes_on
    if stays and found is not None:
        stays = goes_on_from(found.asked, made.asked, folder=folder, overwrite=overwrite, allow=allow)
    if found is not None:
        # The names are this version's, where no file of the earlier run has another.
        renamed = dataclasses.replace(found, names=made.names)
        if stays and foreign_name(folder, renamed) is None:
            made = renamed
        else:
            found.delete(folder)
    if made != found:
        made.write(folder)
    folder_itself = os.stat(folder)
    try:
        yield made
    except BaseException:
        # What there is serves no later run where this one doesn't go on, and may be what has filled the disk.
        _delete_work(folder, None if goes_on else made, folder_itself)
        raise
    _delete_work(folder, made, folder_itself)


def _delete_work(folder: str, made: Made | None, itself: os.stat_result) -> None:
    # Once it has another name, another process may have made one of this name.
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(folder), itself):
            if made is not None:
                made.delete(folder)
            if [*names_below(folder)] == [MADE]:
                os.unlink(os.path.join(folder, MADE))


def names_below(folder: str) -> Iterator[str]:
    """The names of all files below a folder, and of folders that are empty, which end with "/".

    Args:
        folder: its path.
    """
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in [*files, *links]:
            yield os.path.relpath(os.path.join(parent, name), folder)
        if parent != folder and not (files or folders):
            yield f"{os.path.relpath(parent, folder)}/"


_AT_FDCWD = -100  # paths count from the working folder
_RENAME_EXCHANGE = 2
_ASIDE = r"\.replaced-[0-9a-f]{8}"


def replace_folder(new: str, path: str, aside: str) -> str:
    """Gives a folder the name of another one; the path at which the replaced one is then.

    Where the system can exchange two names, this is one step. Elsewhere there are two, and what a kill between them
    leaves, `restore_folder` mends.

    Args:
        new: the folder.
        path: the name that it gets, of a folder that exists, on the same file system.
        aside: where the system can't exchange names the replaced folder gets this name and ".replaced-" with 8 digits.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     for name in ("new", "set"):
    ...         os.makedirs(f"{parent}/{name}/{name}")
    ...     replaced = replace_folder(f"{parent}/new", f"{parent}/set", f"{parent}/set")
    ...     os.listdir(replaced), os.listdir(f"{parent}/set")
    (['set'], ['new'])
    """
    if _exchanged(new, path):
        return new
    aside = f"{aside}.replaced-{os.urandom(4).hex()}"
    os.rename(path, aside)
    os.rename(new, path)
    return aside


def restore_folder(path: str, aside: str) -> None:
    """Gives a set its name back that `replace_folder` was killed over; removes a set that was replaced by then.

    Args:
        path: as `replace_folder` got it.
        aside: likewise.
    """
    parent, base = os.path.split(aside)
    pattern = re.compile(re.escape(base) + _ASIDE)
    try:
        found = [entry.path for entry in os.scandir(parent) if pattern.fullmatch(entry.name)]
    except FileNotFoundError:
        return
    found = [each for each in found if (made := Made.read(each)) is not None and made.replaced]
    if found and not os.path.lexists(path):
        # Of several the last that was renamed; the others are remains of removals.
        os.rename(max(found, key=lambda each: os.lstat(each).st_ctime_ns), path)
    for each in found:
        delete_rest(each)


def _exchanged(one: str, other: str) -> bool:
    """Exchanges two names in one step; False where it didn't: another system, an old kernel, NFS."""
    with contextlib.suppress(AttributeError):  # not Linux, or a C library older than the call
        rename = ctypes.CDLL(None).renameat2
        return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
    return False
