"""Grain's checkpoint documents: JSON of version 2, and that of a pipeline with FlatMaps, as positions and back.

used                of layout worker w: records of its own that went into what was handed out
last_seen_indices   {"w": h - G + w*c + used*G}: the global index of the last of them; G = max(W, 1) * c for W
                    layout workers and shard h of c
last_worker_index   the layout worker that comes next, minus one
next_index          used, in a pipeline with FlatMaps; next_index_in_buffer the next child, for each FlatMap
"""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit.errors import CheckpointMismatchError, StateError

from ._layout_plan import LayoutPosition, Place
from ._version import OLDER

_VERSION = 2
_TURN, _STATES, _SEEN = "next_index_in_cycle", "iterators_in_use_states", "last_seen_indices"
_FIELDS = ("worker_count", _SEEN, "last_worker_index", "sampler", "data_source")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a document says of the loader it is from, and `records`, which it doesn't say.

    sampler, source: their reprs. flat_maps: how many FlatMaps. shard_index, shard_count: which part of the records, and
    records: how many these are, by the rules of a version of Grain.
    """

    sampler: str
    source: str
    flat_maps: int
    shard_index: int
    shard_count: int
    records: int
    version: str = OLDER


def written(position: LayoutPosition, layout: int, identity: Identity) -> bytes:
    """The document of a position.

    >>> identity = Identity("a sampler", "a source", flat_maps=0, shard_index=0, shard_count=1, records=10)
    >>> read(written(LayoutPosition(3, 1, ((4,), (2,))), 2, identity), identity)
    (2, LayoutPosition(step=0, turn=1, cursors=((4,), (2,))))
    """
    document = (_native if identity.flat_maps else _version_2)(position, layout, identity)
    if identity.version != OLDER:
        document["grain_version"] = identity.version  # which Grain doesn't write, and doesn't read
    return json.dumps(document, indent=4).encode()


def _version_2(position: LayoutPosition, layout: int, identity: Identity) -> dict[str, Any]:
    around = max(layout, 1) * identity.shard_count
    return {
        "version": _VERSION,
        _SEEN: {
            str(part): _before_first(part, layout, identity) + used * around
            for part, (used, *_) in enumerate(position.cursors)
        },
        "last_worker_index": position.turn - 1,
        "worker_count": layout,
        "sampler": identity.sampler,
        "data_source": identity.source,
    }


def _before_first(part: int, layout: int, identity: Identity) -> int:
    """What last_seen_indices says of a layout worker that has used nothing."""
    return identity.shard_index + (part - max(layout, 1)) * identity.shard_count


def _native(position: LayoutPosition, layout: int, identity: Identity) -> dict[str, Any]:
    states = [_nested(cursor, identity.flat_maps) for cursor in position.cursors]
    if layout == 0:
        return states[0]
    return {
        _TURN: position.turn,
        "next_index_in_datasets": layout,
        "iterators_in_use_indices": list(range(layout)),
        _STATES: states,
        "exhausted": [0] * layout,
        "future_states": {},
    }


def _nested(cursor: Place, flat_maps: int) -> dict[str, Any]:
    state: dict[str, Any] = {"next_index": cursor[0]}
    for ordinal in (*cursor[1:], *(0,) * flat_maps)[:flat_maps]:
        state = {"parent": state, "next_index_in_buffer": ordinal}
    return state


def read(state: bytes, identity: Identity, *, validate: bool = True) -> tuple[int, LayoutPosition]:
    """The layout of a document and the position in it, whose step a document doesn't say: 0.

    Args:
        state: the document.
        identity: of the loader that takes it over.
        validate: whether sampler and source must be the loader's. Addresses in a default repr don't count: they are
            others in each process.

    Raises json.JSONDecodeError; TypeError for what is no bytes; StateError for a field that is missing or wrong, or an
    index that isn't the shard's; CheckpointMismatchError for another sampler, source or number of FlatMaps; IndexError
    for a place after the last record.
    """
    if not isinstance(state, bytes | bytearray | str):
        raise TypeError(f"state: expected the bytes of get_state(), got {state!r:.80}")
    try:
        document = json.loads(state)
    except UnicodeDecodeError as error:
        raise StateError(f"state: expected JSON, got what is no text: {error}") from error
    fields = _object("state", document)
    if fields.get("format") == "loaderkit":
        raise StateError("state: expected one of Grain's DataLoader, got one of lk.DataLoader")
    if (saved := fields.get("grain_version", identity.version)) != identity.version:
        raise CheckpointMismatchError(
            f"grain_version: expected {saved!r} as the state has it, got {identity.version!r}"
        )
    flat_maps = _SEEN not in fields and ("parent" in fields or _STATES in fields)
    missing = [] if flat_maps else [name for name in _FIELDS if name not in fields]
    if missing:
        raise StateError(f"state: expected one of Grain's DataLoader, got no field {', '.join(missing)}")
    if flat_maps != bool(identity.flat_maps):
        saved, here = ("with", "without") if flat_maps else ("without", "with")
        raise CheckpointMismatchError(f"operations: expected a state {here} FlatMap, got one {saved}")
    if validate and not flat_maps:  # with FlatMaps neither is written
        _check_same("Sampler", fields["sampler"], identity.sampler)
        _check_same("DataSource", fields["data_source"], identity.source)
    layout, position = (_read_native if flat_maps else _read_version_2)(fields, identity)
    parts = len(position.cursors)
    for part, (used, *_) in enumerate(position.cursors):
        size = max(0, -(-(identity.records - part) // parts))
        if not 0 <= used <= size:
            raise IndexError(
                f"state: expected 0 to {size} used records of layout worker {part}, got {used}: the source, the "
                "sampler or the shards are others than when the state was saved"
            )
    return layout, position


def _check_same(what: str, saved: Any, here: str) -> None:
    if _ADDRESS.sub("", str(saved)) != _ADDRESS.sub("", here):
        raise CheckpointMismatchError(
            f"{what} in checkpoint does not match the one of this loader.\n  saved: {saved}\n  here:  {here}\n"
            "They are compared by repr(): give a class of your own a __repr__ that says what it reads."
        )


def _read_version_2(fields: Mapping[str, Any], identity: Identity) -> tuple[int, LayoutPosition]:
    if fields.get("version", _VERSION) != _VERSION:
        raise StateError(
            f"version: expected {_VERSION}, got {fields['version']!r}: only Grain's current one is known"
        )
    layout = _integer("worker_count", fields["worker_count"], 0)
    turn = (_integer("last_worker_index", fields["last_worker_index"], -1) + 1) % max(layout, 1)
    seen = _object(_SEEN, fields[_SEEN])
    cursors: list[Place] = []
    for part in range(max(layout, 1)):
        last = _integer(f"{_SEEN}[{part}]", seen.get(str(part)), -sys.maxsize)
        around = max(layout, 1) * identity.shard_count
        used, off = divmod(last - _before_first(part, layout, identity), around)
        if off:
            raise StateError(
                f"{_SEEN}[{part}]: expected an index of shard {identity.shard_index} of {identity.shard_count} with "
                f"worker_count={layout}, got {last}: the state is of another shard"
            )
        cursors.append((used,))
    return layout, LayoutPosition(0, turn, tuple(cursors))


def _read_native(fields: Mapping[str, Any], identity: Identity) -> tuple[int, LayoutPosition]:
    if _STATES not in fields:
        return 0, LayoutPosition(0, 0, (_cursor_of("", fields, identity.flat_maps),))
    states = fields[_STATES]
    if not isinstance(states, list) or not states:
        raise StateError(f"{_STATES}: expected a list of a state for each worker, got {states!r:.80}")
    turn = _integer(_TURN, fields.get(_TURN), 0) % len(states)
    cursors = (
        _cursor_of(f"{_STATES}[{part}]", state, identity.flat_maps) for part, state in enumerate(states)
    )
    return len(states), LayoutPosition(0, turn, tuple(cursors))


def _cursor_of(name: str, state: Any, flat_maps: int) -> Place:
    """Of one worker's state; name: what errors call it, "" for the whole document."""
    ordinals: list[int] = []
    within = f"{name}." if name else ""
    while "parent" in _object(name, state):
        ordinals.append(_integer(f"{within}next_index_in_buffer", state.get("next_index_in_buffer"), 0))
        name, state = f"{within}parent", state["parent"]
        within = f"{name}."
    if len(ordinals) != flat_maps:
        raise CheckpointMismatchError(
            f"operations: expected a state of {flat_maps} FlatMaps, got one of {len(ordinals)}"
        )
    return (_integer(f"{within}next_index", state.get("next_index"), -sys.maxsize), *reversed(ordinals))


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise StateError(f"{name}: expected an object, got {value!r:.80}")
    return value


def _integer(name: str, value: Any, least: int) -> int:
    try:
        return at_least(name, value, least)
    except (TypeError, ValueError) as error:
        raise StateError(str(error)) from None
