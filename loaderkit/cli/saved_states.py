"""The documents of a saved position: in a file, in an item of a checkpoint, or in the newest of several."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from loaderkit._plan.state.document import loads
from loaderkit._plan.state.state import State, merge
from loaderkit.errors import StateError

from .exit_status import UsageError

_DOCUMENT = re.compile(r"process_(\d+)-of-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class SavedState:
    """What one save left.

    files: of the documents, in the order of the processes. missing: names of those that aren't there.
    """

    files: tuple[Path, ...]
    missing: tuple[str, ...] = ()

    def documents(self) -> list[bytes]:
        """The contents of the files."""
        return [file.read_bytes() for file in self.files]

    def state(self) -> State:
        """All documents as one state; StateError that names the file where one isn't valid."""
        return merge([loaded(file) for file in self.files])


def loaded(file: Path) -> State:
    """The state in a file; StateError that names the file."""
    try:
        return loads(file.read_bytes())
    except StateError as error:
        raise StateError(f"{file}: {error}") from error


def find_saved(path: str) -> SavedState:
    """The save that a path names.

    Args:
        path: a document; the folder of an item with documents; a checkpoint with one such item; or a folder of
            checkpoints named by their steps, of which the newest is taken.

    Raises UsageError where there is no state, or more than one item has some.
    """
    place = Path(path)
    if place.is_file():
        return SavedState((place,))
    if not place.is_dir():
        raise UsageError(f"CKPT: expected a file or folder, got {path}, which isn't there")
    for folder in _candidates(place):
        found = [*_folders_with_documents(folder)]
        if len(found) > 1:
            names = ", ".join(str(each.relative_to(place)) for each in found)
            raise UsageError(f"CKPT: expected one item with states, got {names}; name one of them")
        if found:
            return _of_folder(found[0])
    raise UsageError(f"CKPT: expected states named process_0-of-1.json in {path} or below, got none")


def _candidates(place: Path) -> list[Path]:
    steps = [
        (int(match[1]), each)
        for each in place.iterdir()
        if (match := re.fullmatch(r"(?:\w+_)?(\d+)", each.name))
    ]
    newest = [each for _, each in sorted(steps, reverse=True) if each.is_dir()]
    direct = any(_DOCUMENT.fullmatch(name) for name in os.listdir(place))
    return [place] if direct or not newest else newest[:1]


def _folders_with_documents(folder: Path) -> list[Path]:
    found = []
    for base, folders, files in os.walk(folder):
        folders.sort()
        if any(_DOCUMENT.fullmatch(name) for name in files):
            found.append(Path(base))
    return found


def _of_folder(folder: Path) -> SavedState:
    matches = sorted(
        (int(match[2]), int(match[1]), each)
        for each in folder.iterdir()
        if (match := _DOCUMENT.fullmatch(each.name))
    )
    counts = {count for count, _, _ in matches}
    if len(counts) > 1:
        raise UsageError(
            f"CKPT: expected the states of one save in {folder}, got those of {sorted(counts)} processes"
        )
    (count,) = counts
    there = {number for _, number, _ in matches}
    missing = [f"process_{number}-of-{count}.json" for number in range(count) if number not in there]
    return SavedState(tuple(each for _, _, each in matches), tuple(missing))
