"""Records of tf.train.Example as dicts of arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any

from loaderkit._codecs.example import Values, parse_example
from loaderkit._codecs.scan import Malformed
from loaderkit.transforms.base import Map
from loaderkit.transforms.stack import Block

from .example_columns import rows_by_column
from .feature_spec import FeatureSpec, feature_spec
from .frame_memory import FrameMemory


@dataclass(frozen=True)
class Example(Map):
    """Decodes a serialized tf.train.Example, as lk.TFRecordDataSource gives it, to a dict of its features.

    Args:
        features: name -> dtype, (dtype, shape) or (dtype, shape, default), as tf.io.FixedLenFeature; other features are
            left out. dtype: bytes, str for text in UTF-8, or one of numpy's. shape: () unless given; its first number
            may be None, for any. default: used where a record lacks the feature, repeated to the shape. None for
            `features` gives what is in the record: arrays (n,) of float32 or int64, and lists of bytes.

    A number becomes an array, a text or bytes itself for the shape (), a list of them for (n,). Raises ValueError that
    names the feature for one that is missing, of another kind, or of another number of values.

    >>> record = b"\\n\\x0c\\n\\n\\n\\x01x\\x12\\x05\\x1a\\x03\\n\\x01\\x07"
    >>> Example().map(record)
    {'x': array([7])}
    >>> import numpy as np
    >>> decode = Example({"x": np.int64, "y": (np.float32, (2,), 0.5)})
    >>> decode.map(record)
    {'x': array(7), 'y': array([0.5, 0.5], dtype=float32)}
    >>> Example({"x": (np.int64, (3,))}).map(record)
    Traceback (most recent call last):
    ValueError: feature 'x': expected 3 integers for the shape (3,), got 1
    """

    features: Mapping[str, Any] | None = field(default=None, hash=False)
    _frames: FrameMemory = field(default_factory=FrameMemory, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.features is None:
            return
        object.__setattr__(self, "features", _specs(self.features))

    def map(self, element: Any) -> dict[str, Any]:
        """The features by name."""
        if not isinstance(element, bytes):
            if not isinstance(element, bytearray | memoryview):
                raise TypeError(
                    f"Example: expected the bytes of a tf.train.Example, got {type(element).__name__}"
                )
            element = bytes(element)
        known = self._frames.decoded(element)
        if known is not None:
            return known
        try:
            found: dict[str, Values] = parse_example(element)
        except Malformed as error:
            raise ValueError(
                f"Example: expected a serialized tf.train.Example, got {len(element)} bytes that aren't one: {error}"
            ) from error
        features: dict[str, Any] = (
            {**found}
            if self.features is None
            else {name: spec.of(name, found) for name, spec in self.features.items()}
        )
        self._frames.learn(element, self.features)
        return features

    def _by_column(self, elements: list[Any]) -> Block | None:
        # A subclass may have another `map`.
        if type(self) is not Example or self.features is None:
            return None
        return rows_by_column(elements, self.features, self._frames.like, self.map)


def _specs(features: Any) -> dict[str, FeatureSpec]:
    if not isinstance(features, Mapping) or not all(isinstance(name, str) for name in features):
        raise TypeError(
            "features: expected a dict of a feature's name -> dtype, (dtype, shape) or (dtype, shape, default), "
            f"got {_short(features)}"
        )
    return {name: feature_spec(name, spec) for name, spec in features.items()}
