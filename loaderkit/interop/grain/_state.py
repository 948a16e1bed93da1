"""Grain's checkpoint documents: JSON of version 2, and that of a pipeline with FlatMaps, as positions and back.

used                of layout worker w: records of its own that went into what was handed out
last_seen_indices   {"w": h - G + w*c + used*G}: the global index of the last of them; G = max(W, 1) * c for W
                    layout workers and shard h of c
last_worker_index   the layout worker that comes next, minus one
next_index          used, in a pipeline with FlatMaps; next_index_in_buffer the next child, for each FlatMap
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loaderkit._order.cursor import Cursor
from loaderkit.errors import CheckpointMismatchError, StateError

from ._layout_plan import LayoutPosition

_VERSION = 2
_TURN, _STATES, _SEEN = "next_index_in_cycle", "iterators_in_use_states", "last_seen_indices"
_FIELDS = ("worker_count", _SEEN, "last_worker_index", "sampler", "data_source")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a document says of the loader it is from.

    sampler, source: their reprs. flat_maps: how many FlatMaps. shard_index, shard_count: which part of the records.
    """

    sampler: str
    source: str
    flat_maps: int
    shard_index: int
    shard_count: int


def written(position: LayoutPosition, layout: int, identity: Identity) -> bytes:
    """The document of a position.

    >>> identity = Identity("a sampler", "a source", flat_maps=0, shard_index=0, shard_count=1)
    >>> read(written(LayoutPosition(3, 1, ((4,), (2,))), 2, identity)).cursors(identity, 10)
    ((4,), (2,))
    """
    document = (
        _native(position, layout, identity) if identity.flat_maps else _version_2(position, layout, identity)
    )
    return json.dumps(document, indent=4).encode()


def _version_2(position: LayoutPosition, layout: int, identity: Identity) -> dict[str, Any]:
    return {
        "version": _VERSION,
        _SEEN: {
            str(part): _last_seen(part, cursor[0], layout, identity)
            for part, cursor in enumerate(position.cursors)
        },
        "last_worker_index": position.turn - 1,
        "worker_count": layout,
        "sampler": identity.sampler,
        "data_source": identity.source,
    }


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


def _nested(cursor: Cursor, flat_maps: int) -> dict[str, Any]:
    state: dict[str, Any] = {"next_index": cursor[0]}
    for ordinal in (*cursor[1:], *(0,) * flat_maps)[:flat_maps]:
        state = {"parent": state, "next_index_in_buffer": ordinal}
    return state


def _last_seen(part: int, used: int, layout: int, identity: Identity) -> int:
    around = max(layout, 1) * identity.shard_count
    return identity.shard_index - around + part * identity.shard_count + used * around


@dataclass(frozen=True, slots=True)
class Document:
    """A document that was read: the layout it is of, whose turn it is, and its fields."""

    layout: int
    turn: int
    fields: Mapping[str, Any]

    def cursors(self, identity: Identity, length: int) -> tuple[Cursor, ...]:
        """Where each layout worker goes on.

        Args:
            identity: of the loader that takes it over.
            length: records of its shard.

        Raises IndexError where that is behind the last record, StateError where it is no place of this shard.
        """
        parts = max(self.layout, 1)
        if _SEEN in self.fields:
            seen: Mapping[str, Any] = self.fields[_SEEN]
            cursors: list[Cursor] = [
                (_used(part, _whole(f"{_SEEN}[{part}]", seen.get(str(part))), self.layout, identity),)
                for part in range(parts)
            ]
        else:
            states = self.fields.get(_STATES)
            named: list[tuple[str, Any]] = [("", self.fields)]
            if states is not None:
                named = [(f"{_STATES}[{part}]", state) for part, state in enumerate(states)]
            cursors = [_cursor_of(name, state, identity.flat_maps) for name, state in named]
        for part, cursor in enumerate(cursors):
            size = max(0, -(-(length - part) // parts))
            if not 0 <= cursor[0] <= size:
                raise IndexError(
                    f"the state says that {cursor[0]} records of layout worker {part} were used; it has {size}: the "
                    "source, the sampler or the shards are others than when the state was saved"
                )
        return tuple(cursors)


def read(state: bytes) -> Document:
    """A document, read. Raises json.JSONDecodeError, StateError for a field that is missing or wrong.

    >>> import json
    >>> fields = dict(
    ...     version=2, last_seen_indices={}, last_worker_index=0, worker_count=2, sampler="", data_source=""
    ... )
    >>> document = read(json.dumps(fields).encode())
    >>> document.layout, document.turn
    (2, 1)
    """
    try:
        text = state.decode()
    except UnicodeDecodeError as error:
        raise StateError(f"expected JSON, got what is no text: {error}") from error
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise StateError(f"expected a JSON object, got {type(fields).__name__}")
    if fields.get("format") == "loaderkit":
        raise StateError(
            "this is a state of lk.DataLoader, another loader than the one of loaderkit.interop.grain"
        )
    if _SEEN not in fields and _STATES in fields:
        states = fields[_STATES]
        if not isinstance(states, list) or not states:
            raise StateError(f"{_STATES}: expected a list of a state for each worker, got {states!r:.80}")
        return Document(len(states), _count(_TURN, fields.get(_TURN)) % len(states), fields)
    if _SEEN not in fields and "parent" in fields:
        return Document(0, 0, fields)
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise StateError(f"this is no state of Grain's DataLoader: it has no field {', '.join(missing)}")
    layout = _count("worker_count", fields["worker_count"])
    if fields.get("version", _VERSION) != _VERSION:
        raise StateError(
            f"version: expected {_VERSION}, got {fields['version']!r}; only Grain's current one is known"
        )
    _object(_SEEN, fields[_SEEN])
    last = _count("last_worker_index", fields["last_worker_index"], least=-1)
    return Document(layout, (last + 1) % max(layout, 1), fields)


def check_same(document: Document, identity: Identity) -> None:
    """Raises CheckpointMismatchError where a document is of another sampler, source or pipeline.

    Addresses in a default repr don't count: they are others in each process.
    """
    fields = document.fields
    if (_SEEN in fields) == bool(identity.flat_maps):
        saved_has, this_has = ("no", "has one") if identity.flat_maps else ("a", "has none")
        raise CheckpointMismatchError(
            f"operations: the state is of a pipeline that has {saved_has} FlatMap, this loader {this_has}"
        )
    if identity.flat_maps:
        return  # nothing else is written
    for name, mine in (("sampler", identity.sampler), ("data_source", identity.source)):
        saved = fields[name]
        if _ADDRESS.sub("", str(saved)) != _ADDRESS.sub("", mine):
            what = {"sampler": "Sampler", "data_source": "DataSource"}[name]
            raise CheckpointMismatchError(
                f"{what} in checkpoint does not match the one of this loader.\n  saved: {saved}\n  here:  {mine}\n"
                "They are compared by repr(): give a class of your own a __repr__ that says what it reads."
            )


def _used(part: int, last_seen: int, layout: int, identity: Identity) -> int:
    around = max(layout, 1) * identity.shard_count
    used, off = divmod(last_seen + around - identity.shard_index - part * identity.shard_count, around)
    if off:
        raise StateError(
            f"{_SEEN}[{part}]: {last_seen} is no index of shard {identity.shard_index} of "
            f"{identity.shard_count} with worker_count={layout}: the state is of another shard"
        )
    return used


def _cursor_of(name: str, state: Any, flat_maps: int) -> Cursor:
    """Of one worker's state; name: what errors call it, "" for the whole document."""
    ordinals: list[int] = []
    within = f"{name}." if name else ""
    while "parent" in _object(name, state):
        field = f"{within}next_index_in_buffer"
        ordinals.append(_count(field, state.get("next_index_in_buffer")))
        name, state = f"{within}parent", state["parent"]
        within = f"{name}."
    if len(ordinals) != flat_maps:
        raise CheckpointMismatchError(
            f"operations: the state is of a pipeline with {len(ordinals)} FlatMaps, this loader has {flat_maps}"
        )
    return (_whole(f"{within}next_index", state.get("next_index")), *reversed(ordinals))


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise StateError(f"{name}: expected an object, got {value!r:.80}")
    return value


def _count(name: str, value: Any, least: int = 0) -> int:
    number = _whole(name, value)
    if number < least:
        raise StateError(f"{name}: expected {least} or more, got {number}")
    return number


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise StateError(f"{name}: expected an int, got {value!r:.80}")
    return value
