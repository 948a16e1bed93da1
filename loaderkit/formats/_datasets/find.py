"""Where a data set lies: its folder, by a name with a version, or by a path."""

import os

from loaderkit._base.system.dataclasses import dataclass

from .card import CARD, is_name
from .versions import Version, is_version, newest, parse_version

DATA_DIR_VARIABLE = "LOADERKIT_DATA_DIR"
TFDS_INFO = "dataset_info.json"
SAVED_SPLITS = "dataset_dict.json"  # in the folder of a DatasetDict, which has a folder for each split
SAVED = "state.json"  # lists the files of a data set that `save_to_disk` of Hugging Face wrote
_FORMS = (
    'write for example "digits", "digits:1.*", "digits:1.0.2", or the path of a folder with a dataset.json'
)


@dataclass(frozen=True, slots=True)
class DatasetFolder:
    """The folder of one version. is_tfds: whether TFDS prepared it; else it has a card."""

    path: str
    is_tfds: bool


def data_dir_of(data_dir: str | os.PathLike[str] | None) -> str:
    """The folder that has the data sets: the argument, else $LOADERKIT_DATA_DIR, else ~/loaderkit_datasets.

    Args:
        data_dir: a path, in which ~ is the user's home; None for the others. TypeError for other types.
    """
    given: object = data_dir  # of any type, whatever the annotation says
    if not isinstance(given, str | os.PathLike | None):
        raise TypeError(f"data_dir: expected a path or None, got a {type(given).__name__}")
    chosen = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE) or "~/loaderkit_datasets"
    path = os.fspath(chosen)
    if "://" in path:
        raise ValueError(f"data_dir: expected a local folder, got {path!r:.80}; copy the data set here")
    return os.path.abspath(os.path.expanduser(path))


def find_dataset(name: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None) -> DatasetFolder:
    """The folder of the newest version that a name allows.

    Args:
        name: NAME, NAME:VERSION or NAME:PATTERN; or a path of NAME, of NAME/VERSION or of its dataset.json.
        data_dir: see `data_dir_of`.

    TypeError for a name of another type, ValueError for one that isn't a name; FileNotFoundError that says which
    versions there are.
    """
    given: object = name
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"name: expected a text or a path, got a {type(given).__name__}; {_FORMS}")
    text = os.fspath(name)
    path = os.path.expanduser(text)
    if os.path.basename(path) in (CARD, TFDS_INFO) and os.path.isfile(path):
        path = os.path.dirname(path) or "."
    found = _as_version(path)
    if found is not None:
        return found
    base, _, pattern = split_pattern(text)
    by_path = os.path.isabs(os.path.expanduser(base)) or base.startswith((".", "~"))
    if not by_path and not is_name(base):
        raise ValueError(f"name: expected the name of a data set, got {base!r:.80}; {_FORMS}")
    folder = (
        os.path.abspath(os.path.expanduser(base)) if by_path else os.path.join(data_dir_of(data_dir), base)
    )
    return _newest_in(folder, text, pattern)


def is_dataset(folder: str) -> bool:
    """Whether a folder is a version of a data set, or has some, or configurations that have.

    Args:
        folder: its path.
    """
    if _as_version(folder) is not None:
        return True
    below = {entry: _listed(os.path.join(folder, entry)) for entry in _listed(folder)}
    return any(map(is_version, below)) or any(any(map(is_version, inner)) for inner in below.values())


def is_known_name(name: str, data_dir: str | os.PathLike[str] | None) -> bool:
    """Whether there is a data set of this name.

    Args:
        name: without a version.
        data_dir: see `data_dir_of`.
    """
    return is_name(name) and is_dataset(os.path.join(data_dir_of(data_dir), name))


def split_pattern(text: str) -> tuple[str, str, str | None]:
    """A name without its version, ":", and the version or its pattern; ("...", "", None) without one.

    >>> split_pattern("digits:1.*"), split_pattern("C:/digits")
    (('digits', ':', '1.*'), ('C:/digits', '', None))
    """
    base, colon, pattern = text.rpartition(":")
    return (base, colon, pattern) if colon and os.sep not in pattern else (text, "", None)


def _newest_in(folder: str, text: str, pattern: str | None) -> DatasetFolder:
    try:
        entries = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        here = os.path.join(os.curdir, text)
        remedy = f"write it with lk.write_dataset, or give data_dir=; no file or folder is {here!r}, either"
        if os.path.isdir(here):
            remedy = f"write {here!r} for the folder here"
        raise FileNotFoundError(
            f"{text}: expected a data set in {folder}, got no such folder; {remedy}"
        ) from None
    versions: dict[Version, DatasetFolder] = {}
    for entry in filter(is_version, entries):
        found = _as_version(os.path.join(folder, entry))
        if found is not None:
            versions[parse_version(entry)] = found
    chosen = newest(versions, pattern)
    if chosen is not None:
        return versions[chosen]
    if not versions:
        inner = sorted(
            entry for entry in entries if any(map(is_version, _listed(os.path.join(folder, entry))))
        )
        there = f"the configurations {', '.join(inner)}; add one to the name" if inner else "none"
        raise FileNotFoundError(f"{text}: expected a version in {folder}, got {there}")
    there = ", ".join(map(str, sorted(versions)))
    raise FileNotFoundError(f"{text}: expected one of the versions {there} in {folder}, got {pattern!r}")


def _as_version(folder: str) -> DatasetFolder | None:
    for name, is_tfds in ((CARD, False), (TFDS_INFO, True)):
        # Data sets of Hugging Face that were saved have a file of that name, too.
        saved = is_tfds and os.path.isfile(os.path.join(folder, SAVED))
        if os.path.isfile(os.path.join(folder, name)) and not saved:
            return DatasetFolder(os.path.abspath(folder), is_tfds)
    return None


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
