"""The shards that an index is made of or used for: their names, and how they are read."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._storage.addresses import redacted
from loaderkit._storage.open_ranges import all_remote, open_ranges
from loaderkit._storage.range_reader import RangeReader

from .check import ShardCheck


@dataclass(frozen=True, slots=True)
class ShardSet:
    """Shards in order, each once.

    paths: absolute paths or addresses, which may hold secrets. storage_options: of the storage. refresh: gives the
    addresses again where they expire, as many and in the same order. shown: the names without userinfo and query.

    >>> ShardSet(["/data/train-000.tar", "/data/train-001.tar"]).index_name
    'train-2-1f48cd32.lkx'
    >>> ShardSet(["https://user:secret@host/a.tar?signature=x"])
    ShardSet(https://host/a.tar)
    """

    paths: Sequence[str]
    storage_options: Mapping[str, Any] | None = None
    refresh: Callable[[], Sequence[str]] | None = field(default=None, compare=False)
    shown: Sequence[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        all_remote(self.paths)  # a ValueError here, before an index is looked for
        object.__setattr__(self, "shown", [redacted(path) for path in self.paths])

    def __repr__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"ShardSet({self.shown[0]}{more})"

    @property
    def base_names(self) -> list[str]:
        """The names without folders."""
        return [base_name(name) for name in self.shown]

    @property
    def remote(self) -> bool:
        """Whether they are objects of servers."""
        return all_remote(self.paths)

    @property
    def index_name(self) -> str:
        """The file name of their index: NAME.lkx for one shard with a name of at most 180 bytes, else
        PREFIX-COUNT-HASH.lkx.

        PREFIX is what the base names begin with, up to the numbers; HASH are 8 digits of a sha256 of the names, by
        which another order is another set.
        """
        names = self.base_names
        if len(names) == 1 and shortened(names[0]) == names[0]:
            return f"{names[0]}.lkx"
        low, high = min(names), max(names)
        same = next((i for i, (a, b) in enumerate(zip(low, high)) if a != b), len(low))
        prefix = shortened(re.sub(r"[-_.0-9]+$", "", low[:same])) or "data"
        told = "\n".join(distinct_names(self.shown)).encode("utf-8", "surrogateescape")
        return f"{prefix}-{len(names)}-{hashlib.sha256(told).hexdigest()[:8]}.lkx"

    @property
    def folder(self) -> str:
        """The folder, or the address before the last "/", that holds them all; "" where there is none."""
        folders = {name.rpartition("/")[0] for name in self.shown}
        if len(folders) == 1:
            return folders.pop() or "/"
        return "" if self.remote else os.path.commonpath(folders)

    def open(self, check: ShardCheck | None = None) -> RangeReader:
        """Their reader.

        Args:
            check: says which versions were indexed, and is called where a shard has another tag.
        """
        return open_ranges(
            self.paths,
            storage_options=self.storage_options,
            refresh=self.refresh,
            expected=None if check is None else check.index.shard_versions,
            on_other_version=check,
        )


def base_name(shown: str) -> str:
    """The last part of a shown name.

    >>> base_name("https://host/a/train-0.tar"), base_name("/data/x.tar")
    ('train-0.tar', 'x.tar')
    """
    return shown.rstrip("/").rpartition("/")[2]


def distinct_names(shown: Sequence[str]) -> Sequence[str]:
    """The names without folders; where one comes twice, the names below the folder that holds all of them.

    They are the same for a set that was moved or copied as a whole.

    >>> distinct_names(["/data/a/0.tar", "/data/b/1.tar"]), distinct_names(["/data/a/0.tar", "/data/b/0.tar"])
    (['0.tar', '1.tar'], ['a/0.tar', 'b/0.tar'])
    """
    names = [base_name(name) for name in shown]
    if len(set(names)) == len(names):
        return names
    parts = [name.rstrip("/").split("/") for name in shown]
    different = (len(set(level)) > 1 for level in zip(*parts))
    same = next((place for place, differs in enumerate(different) if differs), 0)
    return ["/".join(each[same:]) for each in parts]


def shortened(name: str) -> str:
    """A file's name of at most 180 bytes, so that the 255 of most file systems hold what is appended to it, too.

    >>> shortened("a.tar"), len(shortened("\N{GREEK SMALL LETTER MU}" * 100))
    ('a.tar', 90)
    """
    content = name.encode("utf-8", "surrogateescape")
    return name if len(content) <= 180 else content[:180].decode("utf-8", "ignore")
