"""Many records of tf.train.Example by column: those with one frame are a matrix of bytes."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.structure import structure_of
from loaderkit._codecs.example import integers_of_rows
from loaderkit._codecs.example_frame import ExampleFrame
from loaderkit.transforms.stack import Block

from .feature_spec import FeatureSpec, values_of

# Of fewer records numpy's calls, some 15 for a feature, take longer than `map` of each record.
_FEWEST_RECORDS = 16
# Longer records are copied once more, into the matrix, than they are by `map`.
_MOST_BYTES = 4096


def rows_by_column(
    records: list[Any],
    specs: Mapping[str, FeatureSpec],
    frame_of: Callable[[bytes], ExampleFrame | None],
    one: Callable[[Any], dict[str, Any]],
) -> Block | None:
    """What `one` makes of each record, by column; None where `one` is to make them, or to say what is wrong.

    Args:
        records: that a task has read.
        specs: of the features.
        frame_of: gives the frame of a record, if it is known.
        one: decodes a record; it is used for the few that have no frame.
    """
    if not specs or not all(map(_has_column, specs.values())) or set(map(type, records)) != {bytes}:
        return None
    groups, others = _groups(records, frame_of)
    count = len(records)
    if 2 * len(others) > count:  # what `one` makes is put in columns no faster than by `collect`
        return None
    columns: dict[str, Any] = {
        name: [None] * count if _is_text(spec) else np.empty((count, *spec.shape), spec.dtype)
        for name, spec in specs.items()
    }
    try:
        for frame, places, matrix in groups:
            _check_unread(frame, matrix)
            for name, spec in specs.items():
                _fill(columns[name], places, _values(name, spec, frame, matrix, records, places))
        for place in others:
            for name, value in one(records[place]).items():
                columns[name][place] = value
    except (ValueError, Warning):  # of a record, which `one` finds again
        return None
    return Block(structure_of(dict.fromkeys(specs, 0)), tuple(columns.values()), count)


def _is_text(spec: FeatureSpec) -> bool:
    return spec.dtype in ("bytes", "str")


def _has_column(spec: FeatureSpec) -> bool:
    return not spec.shape if _is_text(spec) else None not in spec.shape


_Group = tuple[ExampleFrame, NDArray[np.intp], NDArray[np.uint8]]


def _groups(
    records: list[bytes], frame_of: Callable[[bytes], ExampleFrame | None]
) -> tuple[list[_Group], list[int]]:
    """Records with one frame: it, their places and their bytes (n, length); and the places of all others."""
    groups: list[_Group] = []
    others: list[int] = []
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for place, length in enumerate(map(len, records)):
        by_length[length].append(place)
    for length, same_length in by_length.items():
        left = same_length
        while len(left) >= _FEWEST_RECORDS and length <= _MOST_BYTES:
            frame = frame_of(records[left[0]])
            if frame is None:
                break
            places = np.array(left)  # (n,) intp
            joined = b"".join([records[place] for place in left])
            matrix = np.frombuffer(joined, np.uint8).reshape(-1, length)
            alike = frame.alike(matrix)
            groups.append((frame, places[alike], matrix if alike.all() else matrix[alike]))
            left = places[~alike].tolist()
        others += left
    return groups, others


def _check_unread(frame: ExampleFrame, matrix: NDArray[np.uint8]) -> None:
    for place in frame.unread:
        begin, end = frame.spans[place]
        integers_of_rows(matrix[:, begin:end])


def _values(
    name: str,
    spec: FeatureSpec,
    frame: ExampleFrame,
    matrix: NDArray[np.uint8],
    records: list[bytes],
    places: NDArray[np.intp],
) -> Any:
    """A feature of the records of a group: a list of texts, or numbers (n, *shape)."""
    if name not in frame.kinds:
        missing = spec.of(name, {})
        return [missing] * len(places) if _is_text(spec) else missing
    begin, end = frame.spans[frame.places[name].start]
    if _is_text(spec):
        found = [records[place][begin:end] for place in places.tolist()]
        return found if spec.dtype == "bytes" else [text.decode() for text in found]
    packed = matrix[:, begin:end]
    if frame.kinds[name] == 2:
        return spec.numbers(name, packed.view("<f4")).reshape(-1, *spec.shape)
    integers = integers_of_rows(packed)
    if ((packed < 0x80).sum(axis=1) != values_of(spec.shape)).any():
        raise ValueError("expected as many integers in each record, got others")
    return spec.numbers(name, integers).reshape(-1, *spec.shape)


def _fill(column: Any, places: NDArray[np.intp], values: Any) -> None:
    if isinstance(column, np.ndarray):
        column[places] = values
        return
    for place, value in zip(places.tolist(), values):
        column[place] = value
