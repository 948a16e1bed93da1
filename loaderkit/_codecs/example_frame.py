"""Records of tf.train.Example that are equal but for their values: where one has them, all have.

The bytes between the values (tags, names and lengths) are the record's frame. Records with the same frame have the same
features at the same places, so that two calls of `struct` replace the walk through the bytes, and of many records the
values of a feature are the columns of a matrix.
"""

from collections.abc import Callable, Container
from struct import Struct
from typing import Self

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass

from .example_layout import feature_places

# A longer frame takes as long to compare as the record takes to read field by field.
_MOST_VALUES, _MOST_BYTES = 64, 4096
_INT64_LIST = 3


@dataclass(frozen=True, slots=True)
class ExampleFrame:
    """The frame of records of one length.

    kinds: of each feature that is read its name and the number of its kind of list, in the record's order. places: of
    each of them which of `values` it has. unread: places of integers that no name reads, and that must be whole too.
    spans: where each of `values` begins and ends.
    """

    kinds: dict[str, int]
    places: dict[str, slice]
    unread: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    _gaps: tuple[tuple[int, int], ...]  # where no byte is of the frame
    _frame: tuple[bytes, ...]
    _frame_of: Callable[[bytes], tuple[bytes, ...]]
    _values_of: Callable[[bytes], tuple[bytes, ...]]

    @classmethod
    def of(cls, data: bytes, names: Container[str] | None = None) -> Self | None:
        """The frame of a record; None where it isn't laid out as usual, or has too many parts.

        Args:
            data: a serialized tf.train.Example that `parse_example` reads.
            names: of the features that are read; None for all.
        """
        features = feature_places(data) or []
        last = {feature.name: place for place, feature in enumerate(features)}  # of a name that comes again
        kinds, places = {}, {}
        unread: list[int] = []
        between, within, at, count = [], [], 0, 0
        spans: list[tuple[int, int]] = []
        for place, feature in enumerate(features):
            name = feature.name.decode()
            read = last[feature.name] == place and (names is None or name in names)
            taken = read or feature.kind == _INT64_LIST
            for begin, end in feature.spans:
                between.append(f"{begin - at}s{end - begin}x")
                within.append(f"{begin - at}x{end - begin}{'s' if taken else 'x'}")
                at = end
            spans += feature.spans * taken
            after = count + len(feature.spans) * taken
            # A name that comes again keeps the place in the dict that it had first.
            if names is None or name in names:
                kinds[name], places[name] = feature.kind, slice(count, after)
            if not read:
                unread += range(count, after)
            count = after
        frame_of = Struct("".join((*between, f"{len(data) - at}s"))).unpack
        frame = frame_of(data) if features else ()
        if not 0 < len(between) <= _MOST_VALUES or sum(map(len, frame)) > _MOST_BYTES:
            return None
        values_of = Struct("".join((*within, f"{len(data) - at}x"))).unpack
        gaps = tuple(span for feature in features for span in feature.spans)
        return cls(kinds, places, tuple(unread), tuple(spans), gaps, frame, frame_of, values_of)

    def values(self, data: bytes) -> tuple[bytes, ...] | None:
        """The bytes of each value that is read, of integers all as they are packed; None for another frame.

        Args:
            data: of the length of the record that the frame is of.

        >>> one, two = (
        ...     b"\\n\\x0c\\n\\n\\n\\x01x\\x12\\x05\\x1a\\x03\\n\\x01" + bytes([value]) for value in (7, 8)
        ... )
        >>> frame = ExampleFrame.of(one)
        >>> frame.places, frame.values(two), frame.values(two.replace(b"x", b"y"))
        ({'x': slice(0, 1, None)}, (b'\\x08',), None)
        """
        return self._values_of(data) if self._frame_of(data) == self._frame else None

    def alike(self, records: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which records have the frame, (n,).

        Args:
            records: (n, length of the record that the frame is of), their bytes; the first has it.
        """
        frame = np.full(records.shape[1], 0xFF, np.uint8)
        for begin, end in self._gaps:
            frame[begin:end] = 0
        alike: NDArray[np.bool_] = ((records & frame) == (records[0] & frame)).all(axis=1)
        return alike
