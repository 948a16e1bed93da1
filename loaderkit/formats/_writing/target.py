"""Where a data set goes: its unfinished files lie in a folder beside it, which becomes the target by one rename."""

import contextlib
import dataclasses
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from loaderkit._base.system.made_folder import (
    MADE,
    Made,
    delete_rest,
    foreign_name,
    index_names,
    replace_folder,
    restore_folder,
    unfinished_folder,
)
from loaderkit._base.system.numerics import numerics, other_numerics
from loaderkit._base.system.waited_lock import locked_folder
from loaderkit.errors import ResumeMismatchError
from loaderkit.formats import registry

from .attempts import ATTEMPT_NAMES, remove_attempts
from .dropped import Dropped, list_path, write_list
from .shard_jobs import DONE, sync
from .written_index import drop_index, index_parts, write_index

_log = logging.getLogger("loaderkit")
_OF_A_SET = re.compile(r"\d{5,}-of-(\d{5,})\.([\w.]+)")


def shard_names(count: int, extension: str) -> list[str]:
    """The names of the files of a set.

    >>> shard_names(2, "tar")
    ['00000-of-00002.tar', '00001-of-00002.tar']
    """
    return [f"{shard:05d}-of-{count:05d}.{extension}" for shard in range(count)]


_NUMBER = re.compile(r"%0?\d*d")


def is_pattern(path: str) -> bool:
    """Whether the last part of a path has the place of a number, as webdataset's writers take it.

    >>> is_pattern("out/train-%06d.tar"), is_pattern("out/train.tar")
    (True, False)
    """
    return len(_NUMBER.findall(os.path.basename(path))) == 1


class WriteTarget:
    """A folder of files, one file, or numbered files in a folder with others, all there or none.

    Args:
        path: its path; of numbered files with the place of the number, see `is_pattern`.
        is_file: whether it is one file.
        overwrite: whether one that exists is replaced: a file, or a folder that has files of a written set only.
        allow: what may differ where a run goes on, as `goes_on_from` takes it.
        format_name, worker_count: of the index that is left beside the files, as `write_index` takes them.
        other_cpus: "refuse" where a run may not go on from another processor, on which libraries compute other bits;
            "warn" logs it.
    """

    def __init__(
        self,
        path: str,
        *,
        is_file: bool,
        overwrite: bool,
        allow: Collection[str] = (),
        format_name: str | None,
        worker_count: int | None,
        other_cpus: str = "warn",
    ) -> None:
        self._path, self.is_file, self._overwrite = os.path.abspath(path), is_file, overwrite
        self._allow, self._format, self._worker_count = allow, format_name, worker_count
        self._other_cpus = other_cpus
        self._second = ""  # the second file, of a format that has one
        if format_name is not None and (beside := registry.of_name(format_name).beside):
            if not is_file:
                raise ValueError(
                    f"path: expected a file's name for the format {format_name}, which is two files, got the folder "
                    f"{path!r}; write one such as all.{registry.of_name(format_name).extensions[0]}"
                )
            self._second = f"{os.path.splitext(self._path)[0]}.{beside}"
            self._unfinished_second = f"{os.path.basename(self._path)}.{beside}"
        self._numbered = not is_file and is_pattern(path)
        self.folder = self._path + ".partial"

    def names(self, count: int, extension: str) -> list[str]:
        """The names of so many files."""
        base = os.path.basename(self._path)
        if self.is_file:
            return [base]
        if self._numbered:
            return [
                base.replace(_NUMBER.findall(base)[0], _NUMBER.findall(base)[0] % shard)
                for shard in range(count)
            ]
        return shard_names(count, extension)

    def index_part(self, names: Sequence[str]) -> Callable[[int], Any] | None:
        """What workers call with the number of each file that is there, so that `finish` finds its part of the index.

        Args:
            names: of the files; None is given where they get no index.
        """
        parts = index_parts([os.path.join(self.folder, name) for name in names], self._format)
        self._worker_count = 0  # nothing is left for other workers
        return None if parts is None else parts.__getitem__

    @contextlib.contextmanager
    def unfinished(self, extension: str, asked: dict[str, Any] | None, *, goes_on: bool) -> Iterator[Made]:
        """The folder for the unfinished files, locked; gives what it is of.

        Args:
            extension: of the files.
            asked: what decides their bytes.
            goes_on: whether what an earlier run has finished stays.
        """
        ours = rf"spool|\d{{5,}}(-of-\d{{5,}})?\.{re.escape(extension)}({re.escape(DONE)})?"
        file = rf"\d{{5,}}-of-\d{{5,}}\.{re.escape(extension)}"
        if self.is_file or self._numbered:
            file = self._file_pattern()
            ours += f"|{file}(\\.\\w+)?" if self._second else f"|{file}({re.escape(DONE)})?"
        ours += f"|{index_names(file)}|{ATTEMPT_NAMES}"
        self._check()
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with locked_folder(self.folder):
            restore_folder(self._path, self._path)
            self._check()
            made = Made(asked, ours, numerics=numerics() if goes_on else None)
            with unfinished_folder(
                self.folder, made, goes_on=goes_on, overwrite=self._overwrite, allow=self._allow
            ) as found:
                remove_attempts(self.folder)
                self._compare_bits(found.numerics or {}, made.numerics or {})
                yield found

    def _file_pattern(self) -> str:
        """A regular expression of the names of the files."""
        return r"\d+".join(re.escape(part) for part in _NUMBER.split(os.path.basename(self._path)))

    def _check(self) -> None:
        if not self._numbered:
            check_target(self._path, self._overwrite, is_file=self.is_file)
            if self._second:
                check_target(self._second, self._overwrite, is_file=True)
            return
        folder = os.path.dirname(self._path)
        pattern = re.compile(self._file_pattern())
        there = sorted(filter(pattern.fullmatch, os.listdir(folder))) if os.path.isdir(folder) else []
        if there:
            raise FileExistsError(
                f"path: expected names that aren't there, got {os.path.join(folder, there[0])}; move or delete the "
                f"{len(there)} files of these names: they aren't overwritten, as a file may be another set's"
            )

    def _compare_bits(self, there: dict[str, str], here: dict[str, str]) -> None:
        if not (others := other_numerics(there, here)):
            return
        told = (
            f"{self.folder}: {', '.join(others)} of this process computes other last bits than where the run began, as "
            "on another kind of processor"
        )
        if self._other_cpus == "refuse":
            raise ResumeMismatchError(
                f"{told}; take them with other_cpus='warn', or begin again with overwrite=True"
            )
        _log.warning("%s; shards may differ in them from here on", told)

    def finish(self, made: Made, names: Sequence[str], dropped: Dropped = None) -> list[str]:
        """Gives the files their final place, with an index beside them, and deletes what else an earlier run left.

        Args:
            made: of the unfinished folder.
            names: of the files, all in the folder.
            dropped: the records that were left out, of which a list is written; None for none.

        Gives their paths.
        """
        if dropped is not None:
            write_list(list_path(self._path), dropped)
        paths = [os.path.join(self.folder, name) for name in names]
        index = os.path.basename(write_index(paths, self._format, self._worker_count))
        seconds = [self._unfinished_second] if self._second else []
        made.delete(self.folder, keep=[*names, *seconds, index])
        if self.is_file:
            for second in seconds:
                with contextlib.suppress(FileNotFoundError):
                    # The first file of another run never lies beside the second of this one.
                    os.unlink(self._path)
                sync(os.path.join(self.folder, second))
                os.replace(os.path.join(self.folder, second), self._second)
            beside = drop_index([self._path], self._format)
            os.replace(os.path.join(self.folder, names[0]), self._path)
            if index and beside:
                os.replace(os.path.join(self.folder, index), beside)
            sync(os.path.dirname(self._path))
            return [self._path]
        if self._numbered:
            final = [os.path.join(os.path.dirname(self._path), name) for name in names]
            # The first one last: where the process is killed the set has no beginning, and the rest is easily told.
            for path, name in zip(final[::-1], paths[::-1]):
                os.replace(name, path)
            if index and (beside := drop_index(final, self._format)):
                os.replace(os.path.join(self.folder, index), beside)
            sync(os.path.dirname(self._path))
            return final
        # The replaced folder may get the name of the folder of unfinished files: no other process takes it then.
        with locked_folder(self._path) if os.path.lexists(self._path) else contextlib.nullcontext():
            name_set(self.folder, made, self._path, self._path)
        return [os.path.join(self._path, name) for name in names]


def name_set(finished: str, made: Made, path: str, aside: str) -> None:
    """Gives a folder of finished files its name, in place of the written set that has it.

    Args:
        finished: the folder. FileExistsError where it has other files.
        made: of the unfinished work.
        path: the name.
        aside: as `replace_folder` takes it.
    """
    sizes = {
        name: os.path.getsize(os.path.join(finished, name))
        for name in os.listdir(finished)
        if name != MADE and not name.endswith(".lkx")  # an index is known by its name, and may be made again
    }
    if (foreign := foreign_name(finished, made)) is not None:
        raise FileExistsError(
            f"{finished}: expected the files of this run only, got {foreign!r}; move it away"
        )
    dataclasses.replace(made, names=None, files=sizes).write(finished)
    sync(finished)
    if os.path.lexists(path):
        # Files may have come since the beginning. What is marked is deleted by the next run if this one is killed.
        dataclasses.replace(replaceable_set(path), replaced=True).write(path)
        sync(path)
        replaced = replace_folder(finished, path, aside)
        sync(os.path.dirname(path))
        delete_rest(replaced)
    else:
        os.rename(finished, path)
    sync(os.path.dirname(path))


def check_target(path: str, overwrite: bool, *, is_file: bool) -> None:
    """Raises FileExistsError where a name is taken, or with `overwrite` by what isn't a file or a written set.

    path: the name. is_file: whether a file is about to get it, or a folder.
    """
    if not os.path.lexists(path):
        return
    kind = "file" if is_file else "folder"
    if not overwrite:
        raise FileExistsError(
            f"path: expected a new {kind}, a name that isn't there, got {path}; overwrite=True replaces "
            "what loaderkit wrote"
        )
    if os.path.islink(path) or os.path.isdir(path) == is_file:
        raise FileExistsError(f"path: expected a {kind} to overwrite, got {path!r}, which is something else")
    if not is_file:
        replaceable_set(path)


def replaceable_set(path: str) -> Made:
    """What a folder's set is of; FileExistsError where the folder has a file that isn't of a set that we have written.

    The files are those that made.json lists, with these sizes. A set of version 0.1 has none: then they are all of
    NNNNN-of-NNNNN.EXT with one count and format.
    """
    made = Made.read(path)
    if made is None or made.files is None:
        found = [each for name in sorted(os.listdir(path)) if (each := _OF_A_SET.fullmatch(name))]
        names = {each[0] for each in found if each.groups() == found[0].groups()}
        known = bool(found) and _is_written(found[0][2]) and int(found[0][1]) == len(names)
        whole = known and names == {*shard_names(len(names), found[0][2])}
        made = Made(files={name: os.path.getsize(os.path.join(path, name)) for name in names if whole})
    if (foreign := foreign_name(path, made)) is not None:
        raise FileExistsError(
            f"path: expected a folder that has files of a written set only, got {foreign!r} in {path!r}, which "
            f"{MADE} there doesn't list with its size; move it away (delete a .DS_Store, which a file manager makes), "
            "or choose another path"
        )
    return made


def _is_written(extension: str) -> bool:
    found = registry.of_extension(extension, ask_packages=False)
    return found is not None and found.writer is not None
