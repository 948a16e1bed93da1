"""Records of tf.train.Example like those that came before are decoded without another look at how they are laid out."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.example import integers_of
from loaderkit._codecs.example_frame import ExampleFrame

from .feature_spec import FeatureSpec

# Frames are kept by the record's length. Of images each has another length, and what is kept helps little; the limits
# keep that under a few MiB and, where nothing fits, the search under 2 us a record.
_MOST_LENGTHS, _MOST_OF_LENGTH = 512, 4
_BYTES_LIST, _FLOAT_LIST = 1, 2
_FLOAT32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)


class FrameMemory:
    """Decodes a record by the frame of an earlier one; gives what `parse_example` and the specs give.

    A frame is kept of the second record of a length, as one that comes once isn't worth it.
    """

    def __init__(self) -> None:
        self._known: dict[int, list[_Decoder | None]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def decoded(self, data: bytes) -> dict[str, Any] | None:
        """The features of a record, or None where its frame isn't known, or a value isn't as it should be."""
        for decoder in self._known.get(len(data), ()):
            if decoder is not None:
                values = decoder.frame.values(data)
                if values is not None:
                    try:
                        return decoder.features(values)
                    except ValueError:
                        return None
        return None

    def like(self, data: bytes) -> ExampleFrame | None:
        """The frame of a record, where it is known."""
        for decoder in self._known.get(len(data), ()):
            if decoder is not None and decoder.frame.values(data) is not None:
                return decoder.frame
        return None

    def learn(self, data: bytes, specs: Mapping[str, FeatureSpec] | None) -> None:
        """Keeps the frame of a record.

        Args:
            data: that was decoded without an error, but not by `decoded`.
            specs: as `lk.decode.Example` has them.
        """
        known = self._known.get(len(data))
        if known is None:
            if len(self._known) < _MOST_LENGTHS:
                self._known[len(data)] = []
        elif len(known) < _MOST_OF_LENGTH:
            frame = ExampleFrame.of(data, specs)
            known.append(None if frame is None else _Decoder(frame, specs))  # None counts as a try


class _Decoder:
    """Makes the features of the values of records with one frame.

    Args:
        frame: of a record that the specs fit.
        specs: of the features; None for all as they are.
    """

    def __init__(self, frame: ExampleFrame, specs: Mapping[str, FeatureSpec] | None) -> None:
        self.frame = frame
        self._made: list[tuple[str, int | slice, Callable[[Any], Any]]] = []
        for name in frame.kinds if specs is None else specs:
            spec = None if specs is None else specs[name]
            self._made.append((name, *_maker(name, spec, frame)))

    def features(self, values: tuple[bytes, ...]) -> dict[str, Any]:
        """The features; ValueError where one isn't as it should be."""
        for place in self.frame.unread:
            if not values[place].isascii():
                _integers(values[place])
        return {name: made(values[place]) for name, place, made in self._made}


def _maker(
    name: str, spec: FeatureSpec | None, frame: ExampleFrame
) -> tuple[int | slice, Callable[[Any], Any]]:
    """Which of the frame's values make a feature, and the function that makes it of them."""
    kind = frame.kinds.get(name)
    if kind is None:
        assert spec is not None
        return slice(0), lambda _: spec.of(name, {})
    places = frame.places[name]
    place = places.start
    if kind == _BYTES_LIST:
        if spec is None or spec.dtype == "bytes":
            return (places, list) if spec is None or spec.shape else (place, bytes)
        return (places, _texts) if spec.shape else (place, bytes.decode)
    if kind == _FLOAT_LIST:
        if spec is None or (spec.dtype == "float32" and len(spec.shape) == 1):
            return place, _floats
        return place, lambda packed: spec.of(name, {name: _floats(packed)})
    if spec is None:
        return place, _integers
    if spec.dtype == "int64" and not spec.shape:
        return place, partial(_one_integer, name, spec)
    return place, lambda packed: spec.of(name, {name: _integers(packed)})


def _texts(values: tuple[bytes, ...]) -> list[str]:
    return [value.decode() for value in values]


def _floats(packed: bytes) -> NDArray[np.float32]:
    return np.frombuffer(packed, "<f4").astype(_FLOAT32)


def _one_integer(name: str, spec: FeatureSpec, packed: bytes) -> NDArray[np.int64]:
    if len(packed) == 1 and packed[0] < 0x80:
        return np.array(packed[0], _INT64)
    found: NDArray[np.int64] = spec.of(name, {name: _integers(packed)})
    return found


def _integers(packed: bytes) -> NDArray[np.int64]:
    if packed[-1] >= 0x80:
        raise ValueError("expected a packed integer, got the end of the list within one")
    return integers_of(packed)
