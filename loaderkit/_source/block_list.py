"""The file of a block list: records of a source that are left out. It is never changed, and named by its sha256.

magic      20 bytes
header     a line of JSON: the fields of `BlockList`, but for the keys
keys       8 bytes each, little-endian, ascending
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.canonical_json import canonical
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.whole_file import whole_file
from loaderkit.errors import ChecksumError, DataFormatError

_MAGIC = b"loaderkit blocks 1\n\n"
_FIELDS = {"source": dict, "ids": list, "reason": str, "time": str}
NAME = re.compile(r"(?P<digest>[0-9a-f]{64})\.blocks")


@dataclass(frozen=True, slots=True, eq=False)
class BlockList:
    """Records of a source that are left out.

    keys: (n,) int64, ascending. source: its fingerprint. ids: that were asked for, [] where none were. reason: in the
    user's words. time: when it was made, as ISO 8601 says it, in UTC.
    """

    keys: NDArray[np.int64]
    source: Mapping[str, Any]
    ids: list[Any]
    reason: str
    time: str


def write_block_list(folder: str, made: BlockList) -> str:
    """Writes a list into a folder, which is there, and returns the path of its file."""
    header = {name: getattr(made, name) for name in _FIELDS}
    data = b"".join([_MAGIC, canonical(header).encode(), b"\n", made.keys.astype("<i8").tobytes()])
    path = path_of(folder, hashlib.sha256(data).hexdigest())
    with whole_file(path) as file:
        file.write(data)
    return path


def lists_in(folder: str) -> list[str]:
    """The digests of the lists in a folder, ascending. OSError where it isn't there, DataFormatError for a file of
    another name with the ending of lists.
    """
    names = [name for name in os.listdir(folder) if name.endswith(".blocks")]
    for name in names:
        if not NAME.fullmatch(name):
            raise DataFormatError(
                f"{os.path.join(folder, name)}: expected the sha256 of a block list as its name; rename it back, or "
                "move it out of the folder"
            )
    return sorted(name.removesuffix(".blocks") for name in names)


def path_of(folder: str, digest: str) -> str:
    """The path of a list.

    >>> path_of("blocked", "ab")
    'blocked/ab.blocks'
    """
    return os.path.join(folder, f"{digest}.blocks")


def read_block_list(path: str) -> BlockList:
    """A list. ChecksumError where the file isn't what it was when it got its name, OSError where it isn't there."""
    with open(path, "rb") as file:
        data = file.read()
    digest = os.path.basename(path).removesuffix(".blocks")
    if hashlib.sha256(data).hexdigest() != digest:
        raise ChecksumError(
            f"{path}: expected the bytes of the sha256 that is its name; the file was changed: fetch it again"
        )
    head, _, rest = data.removeprefix(_MAGIC).partition(b"\n")
    try:
        header = json.loads(head)
        good = {name: type(value) for name, value in header.items()} == _FIELDS and len(rest) % 8 == 0
    except (ValueError, AttributeError):
        header, good = {}, False
    if not good or not data.startswith(_MAGIC):
        raise DataFormatError(f"{path}: expected a block list; make it again with lk.offline.block_list")
    return BlockList(np.frombuffer(rest, "<i8").astype(np.int64), **header)
