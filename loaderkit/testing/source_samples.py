"""Some records of a source, as they were when each was first read."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.protocol import read_record
from loaderkit._source.record_key import short_repr
from loaderkit.transforms.stack import stack

from .conformance import Mismatch, Skip, expect, expect_same
from .snapshot import Snapshot, snapshot_of
from .workers import pickled_copy, without_function_names


class SourceSamples:
    """What the checks of a source compare with.

    Args:
        source: any data source.
        records: how many to look at, at least 2: the first, the last and others.
        make: makes the source again; None where that isn't known.

    >>> samples = SourceSamples("abc", 2)
    >>> samples.keys, samples.expected[2].leaves
    ([0, 2], ('c',))
    """

    def __init__(self, source: Any, records: int, make: Callable[[], Any] | None = None) -> None:
        self.source = source
        self.make = make
        self._records = records
        self.pickled_bytes: int | None = None
        self.fingerprint: Any = None

    @property
    def subject(self) -> str:
        """The source in a few words of one line, without an address."""
        try:
            if getattr(type(self.source), "__repr__", None) is object.__repr__:
                return f"a {type(self.source).__name__} of {self.length} records"
            return " ".join(short_repr(self.source).split())
        except Exception:  # noqa: BLE001 - a user's repr or len may raise anything; the checks say it
            return f"a {type(self.source).__name__}"

    @cached_property
    def length(self) -> int:
        """As it was when it was first asked for."""
        return len(self.source)

    @cached_property
    def keys(self) -> list[int]:
        """The first, the last, and others in no order; the same ones each time. Skip where there are none."""
        if not self.length:
            raise Skip("the source has no records")
        if self.length <= self._records:
            others = np.arange(self.length)
        else:
            others = np.random.Generator(np.random.Philox(key=0)).integers(self.length, size=self._records)
        return list(dict.fromkeys([0, self.length - 1, *others.tolist()]))[: self._records]

    @property
    def key_lists(self) -> list[list[int]]:
        """The keys in order, in no order, some twice, and one alone."""
        keys = self.keys
        return [sorted(keys), keys[::-1], [*keys[:2], *keys[:2]], keys[-1:]]

    @cached_property
    def expected(self) -> dict[int, Snapshot]:
        """The records by key."""
        return {key: self.read(key) for key in self.keys}

    @cached_property
    def copy(self) -> Any:
        """A pickled copy. Skip where there can be none."""
        try:
            return self.pickled()
        except Exception as error:
            raise Skip(f"the source can't be pickled ({text_of(error)})") from error

    def pickled(self) -> Any:
        """A pickled copy; raises what pickle does."""
        copy, self.pickled_bytes = pickled_copy(self.source)
        return copy

    def read(self, key: Any) -> Snapshot:
        """The record of a key now."""
        return snapshot_of(read_record(self.source, key))

    def stacked(self, keys: Sequence[int]) -> Snapshot:
        """Records as a batch."""
        rows = [read_record(self.source, key) for key in keys]
        return snapshot_of(stack([rows], lambda row: f"record_key {keys[row]}"))

    def compare(self, key: int, got: Snapshot, when: str) -> None:
        """Mismatch where a record isn't what it was."""
        expect_same(self.expected[key], got, f"record_key {key}", when)

    def compare_fingerprint(self, got: Any, when: str, *, of_copy: bool = False) -> None:
        """Mismatch where a fingerprint isn't what it was; nothing where it wasn't asked for before.

        of_copy: of a pickled copy. Its class has no name of a function around it, and that of a memmap is an array.
        """
        if self.fingerprint is None or (of_copy and isinstance(self.source, np.memmap)):
            return
        before, after = (_of_any_class(each) if of_copy else each for each in (self.fingerprint, got))
        expect(after == before, f"the fingerprint {self.fingerprint!r} {when}", repr(got))

    def fingerprint_again(self, source: Any, when: str) -> None:
        """The same for a source: this one or a copy."""
        if self.fingerprint is not None:
            self.compare_fingerprint(fingerprint_of(source), when, of_copy=source is not self.source)


def expect_error(key: int, read: Callable[[], Any]) -> None:
    """Mismatch where a read of a key that there isn't gives something; any error is right."""
    try:
        got = read()
    except Exception:  # noqa: BLE001 - other libraries raise ValueError, which a loader takes as well
        return
    raise Mismatch(f"an error for record_key {key}", f"{got!r:.80}")


def as_python(record: Snapshot) -> Snapshot:
    """With Python's numbers for numpy's: a record that holds its key has the type of the key.

    >>> as_python(snapshot_of(np.int64(3))).leaves
    (3,)
    """
    leaves = (leaf.item() if isinstance(leaf, np.generic) else leaf for leaf in record.leaves)
    return Snapshot(record.structure, tuple(leaves))


def _of_any_class(fingerprint: Any) -> Any:
    """Without the class: the pickle of one that a function defines has not the function's name."""
    match fingerprint:
        case dict():
            said = {name: _of_any_class(value) for name, value in fingerprint.items()}
            return {**said, "type": None} if fingerprint.get("kind") == "foreign" else said
        case list():
            return [_of_any_class(value) for value in fingerprint]
        case str():
            return without_function_names(fingerprint)
    return fingerprint
