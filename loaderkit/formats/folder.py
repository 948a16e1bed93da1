"""Folders of classes: the files of each folder have its label."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments

from .loose_files import LooseFilesDataSource

IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class FolderDataSource(LooseFilesDataSource):
    """Files in folders of classes, ROOT/CLASS/.../FILE, each a record {"image": bytes, "label": int}.

    The order is that of the classes' labels, then of the names. Hidden files and folders are left out; a link to a
    folder is followed, and one that leads back to a folder above it is left out.

    Args:
        root: a local folder.
        classes: which folders are classes and their labels: a list of names, for the labels 0, 1, ..., or a dict of
            name -> label, in which several folders may have one label. None: all folders of `root`, sorted by name.
            ValueError naming the folders for a class that isn't there, and for one without a file.
        extensions: of the files that are records, as ".jpg", in any case; None for all files.
        key: the file's name in a record, such as "image", for `lk.transforms.image.Decode(key="image")`.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in ("dog/1.jpg", "cat/1.jpg"):
    ...     path = pathlib.Path(folder.name, name)
    ...     path.parent.mkdir()
    ...     _ = path.write_bytes(name.encode())
    >>> source = FolderDataSource(folder.name)
    >>> source.class_names, source.labels.tolist(), source[1]
    (['cat', 'dog'], [0, 1], {'image': b'dog/1.jpg', 'label': 1})
    >>> folder.cleanup()
    """

    @former_arguments(removed_in="0.3.0", by_place=["classes", "extensions"])
    @refusing_foreign_arguments
    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        classes: Sequence[str] | Mapping[str, int] | None = None,
        extensions: Sequence[str] | None = IMAGES,
        key: str = "image",
    ) -> None:
        self._key = _key(key)
        folder = os.path.abspath(os.path.expanduser(os.fspath(root)))
        if not os.path.isdir(folder):
            if os.path.exists(folder):
                raise NotADirectoryError(f"root: expected a folder of class folders, got the file {folder}")
            raise FileNotFoundError(
                f"root: expected a folder of class folders, got {folder}, which is missing"
            )
        endings = _endings(extensions)
        labels_of = _labels_of(folder, classes)
        found = sorted(
            (label, name, file)
            for name, label in labels_of.items()
            for file in _files_of(folder, name, endings)
        )
        filled = {name for _, name, _ in found}
        if empty := [name for name in labels_of if name not in filled]:
            kinds = "" if endings is None else f" with one of the extensions {', '.join(endings)}"
            raise ValueError(
                f"classes: expected a file or more in each class folder of {folder}{kinds}, got none in "
                f"{empty[:5]}; leave these out by classes=, or give extensions="
            )
        self.labels: NDArray[np.int64] = np.array([label for label, _, _ in found], np.int64)
        self.labels.flags.writeable = False
        first = {label: name for name, label in reversed(labels_of.items())}
        self.class_names = [first[label] for label in sorted(first)]
        self._labels_of = labels_of
        names = [file for _, _, file in found]
        super().__init__([os.path.join(folder, name) for name in names], names)

    def _record(self, key: int, data: bytes) -> dict[str, Any]:
        return {self._key: data, "label": int(self.labels[key])}

    def fingerprint(self) -> dict[str, Any]:
        """The names below the root, the sizes, the classes' labels."""
        return {**super().fingerprint(), "classes": self._labels_of, "key": self._key}


def _key(key: Any) -> str:
    if not isinstance(key, str) or key == "label":
        raise ValueError(f"key: expected a name other than 'label', got {key!r}")
    return key


def _endings(extensions: Any) -> tuple[str, ...] | None:
    if extensions is None:
        return None
    if isinstance(extensions, str):
        raise TypeError(f"extensions: expected a list such as ['.jpg'], got {extensions!r}")
    if wrong := [each for each in extensions if not isinstance(each, str) or not each.startswith(".")]:
        raise ValueError(f"extensions: expected texts such as '.jpg', got {wrong[0]!r}")
    return tuple(each.lower() for each in extensions)


def _labels_of(folder: str, classes: Any) -> dict[str, int]:
    there = sorted(
        each.name for each in os.scandir(folder) if each.is_dir() and not each.name.startswith(".")
    )
    if classes is None:
        if not there:
            raise FileNotFoundError(
                f"root: expected a folder for each class in {folder}, got none; for files without classes write "
                f"lk.formats.FilesDataSource({os.path.join(folder, '*')!r})"
            )
        return {name: label for label, name in enumerate(there)}
    if isinstance(classes, str):
        raise TypeError(f"classes: expected a list of names or a dict of name -> label, got {classes!r}")
    if isinstance(classes, Mapping):
        chosen = dict(classes)
    else:
        chosen = {}
        for label, name in enumerate(classes):
            if name in chosen:
                raise ValueError(f"classes: expected each class once, got {name!r} twice")
            chosen[name] = label
    for name, label in chosen.items():
        if isinstance(label, bool) or not isinstance(label, int | np.integer):
            raise TypeError(f"classes[{name!r}]: expected an int, got {label!r}")
    if not chosen:
        raise ValueError("classes: expected one class or more, got none")
    if missing := [name for name in chosen if name not in there]:
        raise ValueError(f"classes: expected folders of {folder}, {there[:20]}, got {missing[:5]}")
    return {name: int(label) for name, label in chosen.items()}


def _files_of(root: str, name: str, endings: tuple[str, ...] | None) -> Iterator[str]:
    """The files of a class, below the root."""
    folders: list[tuple[str, tuple[tuple[int, int], ...]]] = [(name, (_identity(root),))]
    while folders:
        folder, above = folders.pop()
        path = os.path.join(root, folder)
        me = _identity(path)
        if me in above:
            continue
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                below = f"{folder}/{entry.name}"
                if entry.is_dir():
                    folders.append((below, (*above, me)))
                elif entry.is_file() and (endings is None or entry.name.lower().endswith(endings)):
                    yield below


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino
