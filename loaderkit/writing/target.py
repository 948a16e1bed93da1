"""Where a data set goes: its unfinished files lie in a folder beside it, which becomes the target by one rename."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence

from loaderkit._system.folder_replacement import replace_folder, restore_folder
from loaderkit._system.locked_folder import locked_folder

from .shard_jobs import DONE, sync

_OURS = re.compile(r"\d{5,}(-of-\d{5,})?\.\w+(\.done)?|.*\.partial|.*\.lkx|spool")


def shard_names(count: int, extension: str) -> list[str]:
    """The names of the files of a set.

    >>> shard_names(2, "tar")
    ['00000-of-00002.tar', '00001-of-00002.tar']
    """
    return [f"{shard:05d}-of-{count:05d}.{extension}" for shard in range(count)]


class WriteTarget:
    """A folder of files, or one file, that is there whole or not at all.

    Args:
        path: its path.
        is_file: whether it is one file.
        overwrite: whether one that exists is replaced: a file, or a folder that has files of a written set only.
    """

    def __init__(self, path: str, *, is_file: bool, overwrite: bool) -> None:
        self._path, self._is_file, self._overwrite = os.path.abspath(path), is_file, overwrite
        self.folder = self._path + ".partial"

    @contextlib.contextmanager
    def unfinished(self, *, goes_on: bool = False) -> Iterator[str]:
        """The folder for the unfinished files, locked; what an earlier run left is in it.

        Args:
            goes_on: whether `.done` files of an earlier run stay. They would vouch for other files of their names.
        """
        self._check()
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with locked_folder(self.folder):
            restore_folder(self._path, self._path)
            self._check()
            for name in os.listdir(self.folder):
                if not self._is_ours(name):
                    raise FileExistsError(
                        f"{self.folder}: expected unfinished files of an earlier run only, got {name!r}; move it away"
                    )
                if name.endswith(".partial") or (name.endswith(DONE) and not goes_on):
                    os.unlink(os.path.join(self.folder, name))
            try:
                yield self.folder
            except BaseException:
                if not goes_on:  # what there is serves no later run, and may be what has filled the disk
                    with contextlib.suppress(OSError):  # of a folder that has its name already
                        for name in filter(self._is_ours, os.listdir(self.folder)):
                            os.unlink(os.path.join(self.folder, name))
                raise

    def finish(self, names: Sequence[str]) -> list[str]:
        """Gives the files their final place and deletes what else an earlier run left.

        Args:
            names: of the files, all in the folder.

        Gives their paths.
        """
        for name in os.listdir(self.folder):
            if name not in names:
                os.unlink(os.path.join(self.folder, name))
        sync(self.folder)
        if self._is_file:
            os.replace(os.path.join(self.folder, names[0]), self._path)
        elif not os.path.lexists(self._path):
            os.rename(self.folder, self._path)
        else:
            # The replaced folder may get the name of the folder of unfinished files: no other process takes it then.
            with locked_folder(self._path):
                replaced = replace_folder(self.folder, self._path, self._path)
                sync(os.path.dirname(self._path))
                shutil.rmtree(replaced)
        sync(os.path.dirname(self._path))
        return [self._path] if self._is_file else [os.path.join(self._path, name) for name in names]

    def _is_ours(self, name: str) -> bool:
        base = name.removesuffix(DONE)
        return bool(_OURS.fullmatch(name)) or (self._is_file and base == os.path.basename(self._path))

    def _check(self) -> None:
        path = self._path
        if not os.path.lexists(path):
            return
        kind = "file" if self._is_file else "folder"
        if not self._overwrite:
            raise FileExistsError(
                f"path: expected a new {kind}, got {path!r}, which exists; give overwrite=True"
            )
        check_replaceable(path, is_file=self._is_file)


def check_replaceable(path: str, *, is_file: bool) -> None:
    """Raises FileExistsError where what has this name isn't a file, or isn't a folder of written files alone.

    path: of something that is there. is_file: which of the two is about to replace it.
    """
    kind = "file" if is_file else "folder"
    if os.path.islink(path) or os.path.isdir(path) == is_file:
        raise FileExistsError(f"path: expected a {kind} to overwrite, got {path!r}, which is something else")
    if is_file:
        return
    for name in os.listdir(path):
        if not _OURS.fullmatch(name):
            raise FileExistsError(
                f"path: expected a folder that has files of a written set only, got {name!r} in {path!r}; "
                "choose another path"
            )
