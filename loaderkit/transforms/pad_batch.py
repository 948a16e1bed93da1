"""A Batch of rows of different lengths, padded to one of a few boundaries."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import chain
from reprlib import repr as _short
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.numbers import at_least
from loaderkit._order.array_digest import digest_of
from loaderkit.errors import BatchError

from .base import Batch
from .leaf import Place, array_at, leaf_key, with_new, with_value
from .pad_to import padded_to
from .stack import Block, stack

LONGEST = "longest"


class PadBatch(Batch):
    """A Batch that pads leaves along their first axis, to one of a few boundaries: batches have few shapes.

    Args:
        batch_size, global_batch_size, remainder, drop_remainder: as in Batch.
        boundaries: for each leaf that is padded, an array (n, ...), by its place: ascending lengths, as many for each
            leaf. The b-th ones are those of bucket b. A place is a dict's key, a position, the name of a field, or a
            path of these as a tuple. "longest" for all leaves: the longest row of a batch is the boundary.
        padding_values: what is put behind, for leaves where that isn't 0.
        mask: for leaves that have one the place of a new leaf, bool (rows, length): which are the record's own. A tuple
            or list gets the position behind its last.
        lengths: (records,) ints for "longest", of each record of the loader's source: its length here, of several
            leaves that of the longest. Batches are padded to the longest row of all shards; a row that is longer than
            said is an error. It is of whole records: no operation before may change their number.
        multiple_of: of "longest", the boundary is rounded up to its next multiple: batches have fewer shapes.

    With a LengthBucketSampler the plan says the bucket of each batch, so that all processes pad alike. Without, it is
    the smallest that holds all rows of a batch: with several boundaries on one shard only. A row that is longer than
    its boundary is an error that names it.

    >>> batch = PadBatch(2, boundaries={"x": [2, 4]}, mask={"x": "mask"})
    >>> import numpy as np
    >>> made = batch.stacked([[{"x": np.ones(3)}, {"x": np.ones(1)}]], "row {}".format)
    >>> made["x"].tolist(), made["mask"].sum(axis=1).tolist()
    ([[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]], [3, 1])
    """

    pads = True

    def __init__(
        self,
        batch_size: int | None = None,
        *,
        global_batch_size: int | None = None,
        boundaries: Mapping[Any, Sequence[int] | Literal["longest"]],
        padding_values: Mapping[Any, Any] | None = None,
        mask: Mapping[Any, Place] | None = None,
        lengths: ArrayLike | None = None,
        multiple_of: int = 1,
        remainder: str = "keep",
        drop_remainder: bool = False,
    ) -> None:
        super().__init__(
            batch_size,
            global_batch_size=global_batch_size,
            remainder=remainder,
            drop_remainder=drop_remainder,
        )
        given: Any = boundaries
        self.longest = isinstance(given, Mapping) and any(map(_is_longest, given.values()))
        self.known, self._lengths_digest = None, ""
        multiple_of = at_least("multiple_of", multiple_of, 1, below=1 << 31)
        self.boundaries: Mapping[Any, Sequence[int]]
        if self.longest:
            self.boundaries, self.known, self._lengths_digest = _to_longest(given, lengths, multiple_of)
        elif lengths is None and multiple_of == 1:
            self.boundaries = _checked_boundaries(given)
        else:
            raise ValueError(
                "lengths, multiple_of: expected none with boundaries that are lengths, got some; write 'longest'"
            )
        self.padding_values = dict(_of_leaves("padding_values", padding_values, self.boundaries))
        self.mask = dict(_of_leaves("mask", mask, self.boundaries))
        for key, place in self.mask.items():
            leaf_key(f"mask[{key!r}]", place)

    @property
    def buckets(self) -> int:
        """The number of buckets: boundaries of each leaf. Of "longest" the multiples up to the longest that there is.

        >>> PadBatch(2, boundaries={"x": [2, 4]}).buckets
        2
        """
        return len(next(iter(self.boundaries.values())))

    def of_padded_rows(self) -> Self:
        """The same Batch, for rows that `pad` made.

        >>> PadBatch(2, boundaries={"x": [2, 4]}).of_padded_rows().rows_padded
        True
        """
        other = copy(self)
        other.rows_padded, other.known = True, self.known
        return other

    def __getstate__(self) -> dict[str, Any]:
        # A worker gets the bucket of a step with its task.
        return self.__dict__ | ({"known": None} if self.rows_padded else {})

    def pad(self, row: Any, bucket: int) -> Any:
        """A row with its leaves padded to the boundaries of a bucket.

        Args:
            row: an element.
            bucket: the place of its boundary in each list of them.

        >>> import numpy as np
        >>> PadBatch(2, boundaries={"x": [2, 4]}).pad({"x": np.array([7])}, 1)
        {'x': array([7, 0, 0, 0])}
        """
        masks = []  # behind all leaves: one moves the positions that are counted from the end
        for key, bounds in self.boundaries.items():
            leaf, length = array_at(row, key), bounds[bucket]
            if len(leaf) > length:
                of, fix = (
                    f"the boundary of bucket {bucket}",
                    "give the sampler the lengths that rows have here, or ",
                )
                if self.longest:
                    of, fix = (
                        "the longest of its step",
                        "give the lengths that rows have here to PadBatch, or ",
                    )
                raise ValueError(
                    f"leaf {key!r}: expected a length of at most {length}, {of}, got {len(leaf)}; {fix}greater "
                    "boundaries"
                )
            padded, own = padded_to(length, leaf, self.padding_values.get(key, 0))
            row = with_value(row, key, padded)
            if key in self.mask:
                masks.append((self.mask[key], own))
        for place, own in masks:
            row = with_new("mask", row, place, own)
        return row

    def stacked(self, parts: Sequence[Block | Sequence[Any]], describe: Callable[[int], str]) -> Any:
        """The rows stacked; if they aren't padded, after padding to the smallest bucket that holds all.

        Args:
            parts: the rows, as elements or as blocks of them.
            describe: what errors call the row of a place.
        """
        if self.rows_padded:
            return stack(parts, describe)
        rows = [*chain.from_iterable(_rows(part) for part in parts)]
        bucket = max(self._bucket_of(row, number, describe) for number, row in enumerate(rows))
        return stack([[self.pad(row, bucket) for row in rows]], describe)

    def _bucket_of(self, row: Any, number: int, describe: Callable[[int], str]) -> int:
        found = 0
        for key, bounds in self.boundaries.items():
            length = len(array_at(row, key))
            bucket = bisect_left(bounds, length)
            if bucket == len(bounds):
                raise BatchError(
                    f"{describe(number)} can't be padded: leaf {key!r}: expected a length of at most {bounds[-1]}, the "
                    f"last boundary, got {length}; give a greater one, or truncate by lk.PadTo before"
                )
            found = max(found, bucket)
        return found

    def __repr__(self) -> str:
        said = [f"boundaries={self.boundaries}"]
        if self.longest:
            bounds = next(iter(self.boundaries.values()))
            said = [f"boundaries={dict.fromkeys(self.boundaries, LONGEST)}"]
            said += [f"lengths={self._lengths_digest}"] * bool(self._lengths_digest)
            said += [f"multiple_of={bounds[1]}"] * (bounds[1] > 1)
        others = {"padding_values": self.padding_values, "mask": self.mask}
        said += [f"{name}={value}" for name, value in others.items() if value]
        return f"Pad{super().__repr__()[:-1]}, {', '.join(said)})"


def _rows(part: Block | Sequence[Any]) -> Sequence[Any]:
    return part.rows(0, part.size) if isinstance(part, Block) else part


def _is_longest(bounds: Any) -> bool:
    return isinstance(bounds, str) and bounds == LONGEST


def _to_longest(
    boundaries: Mapping[Any, Any], lengths: Any, multiple_of: int
) -> tuple[dict[Any, range], NDArray[np.int32] | None, str]:
    """All multiples as boundaries, of each record the place of its own among them, and a digest of its length."""
    if not all(map(_is_longest, boundaries.values())):
        raise ValueError(
            f"boundaries: expected 'longest' for all leaves or for none, got {_short(dict(boundaries))}; lk.PadTo pads "
            "a leaf to one length"
        )
    for key in boundaries:
        leaf_key("boundaries", key)
    if lengths is None:
        return dict.fromkeys(boundaries, range(0, multiple_of << 31, multiple_of)), None, ""
    from loaderkit.samplers.buckets import checked_lengths

    given = checked_lengths(lengths).astype(np.int64, copy=False)
    known = -(-given // multiple_of)
    if known.max() >= 1 << 31:
        raise ValueError(f"lengths: expected at most {(multiple_of << 31) - 1}, got {given.max()}")
    multiples = range(0, max(int(known.max()) + 1, 2) * multiple_of, multiple_of)
    return dict.fromkeys(boundaries, multiples), known.astype(np.int32), digest_of(given)


def _checked_boundaries(given: Any) -> dict[Any, tuple[int, ...]]:
    if not isinstance(given, Mapping) or not given:
        raise TypeError(
            f"boundaries: expected lengths by leaf, such as {{'tokens': [128, 512]}}, got {_short(given)}"
        )
    checked: dict[Any, tuple[int, ...]] = {}
    for key, bounds in given.items():
        name = f"boundaries[{key!r}]"
        try:
            lengths = tuple(at_least(f"{name}[{place}]", bound, 0) for place, bound in enumerate([*bounds]))
        except TypeError:
            raise TypeError(f"{name}: expected a list of ints, got {_short(bounds)}") from None
        if not lengths or sorted(lengths) != [*lengths]:
            raise ValueError(
                f"{name}: expected ascending lengths, one or more, got {_short(lengths)}; sort them"
            )
        checked[key] = lengths
    if len({len(lengths) for lengths in checked.values()}) > 1:
        raise ValueError(
            "boundaries: expected as many for each leaf, the b-th ones of bucket b, got "
            f"{', '.join(f'{len(lengths)} of {key!r}' for key, lengths in checked.items())}; repeat a length "
            "where a leaf has fewer"
        )
    return checked


def _of_leaves(name: str, given: Any, boundaries: Mapping[Any, Any]) -> Mapping[Any, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not given.keys() <= boundaries.keys():
        raise ValueError(
            f"{name}: expected a dict by leaf, of some that boundaries has, {_short([*boundaries])}, got "
            f"{_short(given)}"
        )
    return given
