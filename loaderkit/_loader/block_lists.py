"""The folders of block lists of a loader: which lists are there, and the record keys of each."""

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from loaderkit._base.hints import EXCLUDE
from loaderkit._order.exclusions import Listed
from loaderkit._order.permutation import Int64Array
from loaderkit._plan.exclusions import Lists
from loaderkit._plan.seekable_plan import is_staged
from loaderkit._source.block_list import lists_in, path_of, read_block_list
from loaderkit._source.fingerprint import fingerprint_of, same_where_known
from loaderkit.errors import CheckpointMismatchError
from loaderkit.samplers import Sampler
from loaderkit.samplers.excluding import check_excludable
from loaderkit.sources.exclusion import documents_of, rows_excluded
from loaderkit.sources.staged import StagedDataSource

from .parts import concatenated

_NONE: Int64Array = np.empty(0, np.int64)
_MOST_LOST = 0.01  # of the documents of packed rows, without a warning


class BlockFolders:
    """The lists of some folders. Each file is read once, and compared with its digest and the source.

    Args:
        folders: {name of a component: its folder}; the name is "" where there are no components.
        sources: {name: the source}.

    known: the lists that were there when this was made.
    """

    def __init__(self, folders: Mapping[str, str], sources: Mapping[str, Any]) -> None:
        self._folders, self._sources = dict(folders), dict(sources)
        self._keys: dict[tuple[str, str], tuple[Int64Array, bool]] = {}
        # {(name, digests): what they list}, of packed rows, the last one's number is the count of these
        self._packed: dict[tuple[str, tuple[str, ...]], Listed] = {}
        self._staged: tuple[int, Any] = (0, None)
        self.known = self.present()

    @property
    def shown(self) -> str | dict[str, str]:
        """The folders as `exclude=` takes them."""
        return self._folders.get("", self._folders)

    def present(self) -> Lists:
        """The lists that are there now, by name: their digests, ascending."""
        found: dict[str, tuple[str, ...]] = {}
        for name, folder in self._folders.items():
            digests = tuple(lists_in(folder))
            for digest in digests:
                if (name, digest) not in self._keys:
                    self._keys[name, digest] = self._checked(name, digest)
            if digests:
                found[name] = digests
        return found

    def listed(self, name: str, digests: tuple[str, ...]) -> Listed:
        """The record keys of some lists of a component.

        CheckpointMismatchError where a list isn't there any more, which steps before a restore had.
        """
        if (known := self._packed.get((name, digests))) is not None:
            return known
        documents, records = (self._union(name, digests, of_records=each) for each in (False, True))
        if not documents.size:
            return Listed(records, _NONE, 0)
        gone, touched = rows_excluded(self._sources[name], documents)
        gone = np.union1d(gone, records)
        made = Listed(gone, np.setdiff1d(touched, gone), len(self._packed) + 1)
        self._packed[name, digests] = made
        return made

    def expect(self, lists: Lists) -> None:
        """Has the numbers of rows that lose documents known before an executor is made."""
        for name, digests in lists.items():
            if all((name, digest) in self._keys for digest in digests):
                self.listed(name, digests)

    def staged(self, source: Any) -> Any:
        """The loader's source with the rows that lose documents; the same object until there are more of these."""
        if not self._packed:
            return source
        count, made = self._staged
        if count != len(self._packed):
            stages = {
                each.stage: {name: keys} if name else keys
                for (name, digests), each in self._packed.items()
                for keys in [self._union(name, digests, of_records=False)]
            }
            made = StagedDataSource(source, stages)
            self._staged = len(self._packed), made
        return made

    def _union(self, name: str, digests: tuple[str, ...], *, of_records: bool) -> Int64Array:
        """The keys of those of some lists that are of records, or else of documents, ascending."""
        lists = []
        for digest in digests:
            found = self._keys.get((name, digest))
            if found is None:
                raise CheckpointMismatchError(
                    f"exclude: expected the list {digest} in {self._folders.get(name)!r}, which steps before this one "
                    "leave out, got none; put its file back to go there"
                )
            if found[1] == of_records:
                lists.append(found[0])
        return lists[0] if len(lists) == 1 else np.unique(np.concatenate([_NONE, *lists]))

    def _checked(self, name: str, digest: str) -> tuple[Int64Array, bool]:
        """The keys of a list, and whether they are of records, not of the documents that records are made of."""
        path, source = path_of(self._folders[name], digest), self._sources[name]
        made, fingerprint = read_block_list(path), fingerprint_of(source)
        if same_where_known(dict(made.source), fingerprint):
            return made.keys, True
        documents = documents_of(source)
        if not same_where_known(dict(made.source), fingerprint_of(documents)):
            raise ValueError(
                f"exclude: expected lists of {_named(name)}, got {path} of another source: "
                f"{dict(made.source)!s:.200} instead of {fingerprint!s:.200}; make it for this one, with "
                "lk.offline.block_list"
            )
        if len(made.keys) > _MOST_LOST * len(documents):
            warnings.warn(
                f"exclude: {path} has {len(made.keys) / len(documents):.1%} of the documents of {_named(name)}: their "
                "places in packed rows are padding; a plan without them, plan_packing(..., exclude=), has full rows",
                stacklevel=4,
            )
        return made.keys, False

    def __getstate__(self) -> dict[str, Any]:
        # A process that fetches ahead needs the keys alone.
        return {**self.__dict__, "_sources": {}, "_staged": (0, None)}


def block_folders_of(given: Any, sampler: Sampler, source: Any) -> BlockFolders | None:
    """The folders that `exclude=` names, or None.

    Args:
        given: a path, or {name of a component: path}.
        sampler, source: of the loader, checked.

    Raises TypeError and ValueError for arguments that don't fit, and what is wrong with a list that is there.
    """
    if given is None:
        return None
    sources: dict[str, Any] = {"": source}
    if is_staged(sampler):
        whole = concatenated(source)
        if not isinstance(given, Mapping):
            raise TypeError(
                f"exclude: expected a folder for each component, such as {{{sampler.names[0]!r}: 'blocked'}}, got "
                f"{given!r:.80}"
            )
        if whole is None or sampler.placed or {*(whole.names or ())} != {*sampler.names}:
            raise TypeError("exclude: expected the source of a mixture that lk.mix made, got another one")
        sources = dict(zip(whole.names or (), whole._sources, strict=True))
        samplers = sampler.components
    else:
        given, samplers = given if isinstance(given, Mapping) else {"": given}, {"": sampler}
    for name, folder in given.items():
        if name not in samplers:
            names = f"names among {', '.join(map(repr, samplers))}"
            expected = "the path alone, as there is one source" if "" in samplers else names
            raise ValueError(f"exclude: expected {expected}, got {name!r:.80}")
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(
                f"exclude: expected the path of a folder of {_named(name)}, got {folder!r:.80}; write "
                + EXCLUDE
            )
        if not os.path.isdir(folder):
            raise ValueError(
                f"exclude: expected a folder that is there, got {os.fspath(folder)!r}; make it first, it may be empty"
            )
        check_excludable(name, samplers[name])
    return BlockFolders({name: os.path.abspath(folder) for name, folder in given.items()}, sources)


def _named(name: str) -> str:
    return f"component {name!r}" if name else "this loader's source"
