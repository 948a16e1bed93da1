"""The position of an iterator as a small, readable JSON document; it holds indices, never data.

format, format_version  kind and version of the document; a newer version is refused
stream_version          version of the algorithms that make the stream
step                    number of elements handed out so far
cursors                 where to go on: [[index]]; where the number of rows changes, {stream: [index, k1, ...]}
                        for this process's streams (k: ordinal of a child of a FlatMap)
segments                [[first_step, first_index, G], ...]; first_index is null where the number of rows changes
sampler, source, operations, global_batch, streams, epoch
                        identity of the stream; compared before the position is used
mixture                 stages of a mixture's weights (_order/mixture/stages.py), from format_version 4 on, only of a
                        sampler that has some; the written weights at the position are compared
parameters              all operations by name and parameters (transforms/parameters.py), from format_version 3 on;
                        differences are reported and not refused
numerics                digests of the last bits that each library computes (_base/system/numerics.py), from
                        format_version 5 on; differences of a library that both have are reported
exclusions              stages in which records are left out (_order/exclusions.py), from format_version 6 on, only of
                        a run that leaves some out; the lists that hold at the position or behind it are needed
bad_records             the bad records so far, if any, from format_version 2 on: see _plan/bad_records.py; not compared
versions                of loaderkit, numpy and Python when it was written
digest                  of all other fields; a document without a digest was edited by hand
"""

from typing import Any

from loaderkit._base.canonical_json import digest
from loaderkit._order.exclusions import stages_from_json, stages_to_json
from loaderkit._order.facts import Cursor
from loaderkit._order.metadata import MOST_INT64
from loaderkit._order.mixture.stages import MixtureStages
from loaderkit._plan.bad_records import NO_BAD_RECORDS, BadRecords
from loaderkit._plan.ledger import Ledger
from loaderkit._plan.segments import Segments
from loaderkit.errors import StateError

from .state import SavedStreams, State, check_sound
from .strict_json import find_problem, parse, render

FORMAT = "loaderkit"
# Version 6 has exclusions, and is written for them only; version 5 has numerics; version 4 has a mixture, and was
# written for one only; version 3 has parameters. A state that was read without them is written as it was: version 2
# with bad records, else 1.
FORMAT_VERSION = 6
STREAM_VERSION = 1

_FIELDS = (
    "format",
    "format_version",
    "stream_version",
    "step",
    "cursors",
    "segments",
    "sampler",
    "source",
    "operations",
    "global_batch",
    "streams",
    "epoch",
    "versions",
)
_STEADY = ("sampler", "source", "operations", "streams", "parameters")  # equal in all states of an iterator
_VERSIONED = ("loaderkit", "numpy", "python")
# Bounds that a damaged document can't exceed, far above any real pipeline.
_MAX_CURSOR = 64  # integers of a cursor
_MAX_OPERATIONS = 1000
_MAX_LIBRARIES = 100  # of numerics
_MAX_DIGEST = 100  # characters


def dumps(state: State) -> bytes:
    """The document of a state, which `loads` reads.

    Raises TypeError where a fingerprint holds a value that isn't JSON, and StateError for a state that `loads` would
    refuse.

    >>> document = dumps(
    ...     State(
    ...         0,
    ...         {0: (0,)},
    ...         Segments(((0, 0, 4),)),
    ...         {},
    ...         {},
    ...         [],
    ...         4,
    ...         4,
    ...         None,
    ...         None,
    ...         {"loaderkit": "1", "numpy": "2.0", "python": "3.11"},
    ...     )
    ... )
    >>> document.splitlines()[4]
    b'  "step": 0,'
    >>> loads(document).cursors
    {0: (0,)}
    """
    for name in ("sampler", "source", "operations"):
        problem = find_problem(getattr(state, name), name)
        if problem:
            raise TypeError(problem)
    streams = state.streams
    document: dict[str, Any] = {
        "format": FORMAT,
        "format_version": _version_for(state),
        "stream_version": STREAM_VERSION,
        "step": state.step,
        "cursors": (
            [list(cursor) for cursor in state.cursors.values()]
            if streams is None
            else {str(stream): list(cursor) for stream, cursor in sorted(state.cursors.items())}
        ),
        "segments": state.segments.to_json(),
        "sampler": dict(state.sampler),
        "source": dict(state.source),
        "operations": list(state.operations),
        "global_batch": {"N": state.rows, "G": state.stride},
        "streams": streams and {"count": streams.count, "q": streams.q, "writers": list(streams.writers)},
        "epoch": state.epoch,
        "versions": dict(state.versions),
    }
    if state.parameters is not None:
        document["parameters"] = list(state.parameters)
    if state.mixture is not None:
        document["mixture"] = state.mixture.to_json()
    if state.numerics:
        document["numerics"] = dict(sorted(state.numerics.items()))
    if state.exclusions:
        document["exclusions"] = stages_to_json(state.exclusions)
    if state.losses.count:
        document["bad_records"] = {
            "ledger": [list(entry) for entry in sorted(state.losses.ledger.items())],
            "skipped": {str(stream): count for stream, count in sorted(state.losses.skipped.items())},
        }
    _read(document, digest_missing=False)
    return render({**document, "digest": digest(document)}, steady=_STEADY)


def loads(data: bytes | bytearray | memoryview) -> State:
    """The state in a document that `dumps` wrote, in this version or an earlier one.

    Raises TypeError where `data` isn't bytes, and StateError, naming the field, for every other problem. A document
    without a digest, which was edited by hand, is accepted with `digest_missing` set.

    >>> loads(b"{}")
    Traceback (most recent call last):
        ...
    loaderkit.errors.StateError: format: expected 'loaderkit', got nothing; is it a state of loaderkit?
    """
    document = parse(data)
    _check_header(document)
    needed, optional = _fields_of(document["format_version"])
    unknown = sorted(document.keys() - {*needed, *optional, "digest"})
    missing = [name for name in needed if name not in document]
    if unknown or missing:
        raise StateError(
            f"state: expected the fields of format_version {document['format_version']}, "
            f"got unknown fields {unknown!r:.200}, missing fields {missing}"
        )
    if "digest" in document and document["digest"] != digest(document):
        raise StateError(
            f"digest: expected {digest(document)}, got {document['digest']!r:.80}; the document was altered; to use "
            "it all the same, remove its digest"
        )
    return _read(document, digest_missing="digest" not in document)


# Reading: each function takes one part of a document and returns its value, or raises a StateError that names it.


def _check_header(document: dict[str, Any]) -> None:
    if document.get("format") != FORMAT:
        got = repr(document["format"])[:80] if "format" in document else "nothing"
        raise StateError(f"format: expected {FORMAT!r}, got {got}; is it a state of loaderkit?")
    for name, newest in (("format_version", FORMAT_VERSION), ("stream_version", STREAM_VERSION)):
        if name not in document:
            raise StateError(f"{name}: expected 1 to {newest}, got nothing")
        if _integer(document[name], name, least=1) > newest:
            raise StateError(
                f"{name}: expected at most {newest}, got {document[name]}; "
                "a newer loaderkit wrote this state: upgrade"
            )


def _version_for(state: State) -> int:
    if state.exclusions:
        return 6
    if state.numerics:
        return 5
    if state.mixture is not None:
        return 4
    return 3 if state.parameters is not None else 2 if state.losses.count else 1


def _fields_of(format_version: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that a document of this version must have, and those that it may have."""
    match format_version:
        case 1:
            return _FIELDS, ()
        case 2:
            return (*_FIELDS, "bad_records"), ()
        case 3:
            return (*_FIELDS, "parameters"), ("bad_records",)
        case 4:
            return (*_FIELDS, "parameters", "mixture"), ("bad_records",)
        case 5:
            return (*_FIELDS, "parameters", "numerics"), ("mixture", "bad_records")
    return (*_FIELDS, "parameters", "exclusions"), ("numerics", "mixture", "bad_records")


def _read(document: dict[str, Any], *, digest_missing: bool) -> State:
    batch = _object(document["global_batch"], "global_batch", ("N", "G"))
    state = State(
        step=_integer(document["step"], "step"),
        segments=Segments.from_json(document["segments"]),
        streams=None if document["streams"] is None else _read_streams(document["streams"]),
        cursors=_read_cursors(document["cursors"], document["streams"] is not None),
        sampler=_object(document["sampler"], "sampler"),
        source=_object(document["source"], "source"),
        operations=_read_operations(document["operations"]),
        parameters=_read_parameters(document["parameters"]) if "parameters" in document else None,
        mixture=MixtureStages.from_json(document["mixture"]) if "mixture" in document else None,
        rows=_integer(batch["N"], "global_batch.N", least=1),
        stride=_integer(batch["G"], "global_batch.G", least=1),
        epoch=None if document["epoch"] is None else _integer(document["epoch"], "epoch"),
        versions=_read_versions(document["versions"]),
        numerics=_read_numerics(document["numerics"]) if "numerics" in document else {},
        exclusions=stages_from_json(document["exclusions"]) if "exclusions" in document else (),
        losses=_read_losses(document["bad_records"]) if "bad_records" in document else NO_BAD_RECORDS,
        digest_missing=digest_missing,
    )
    check_sound(state)
    return state


def _integer(value: Any, name: str, *, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_INT64:
        raise StateError(f"{name}: expected an integer from {least} to 2**63 - 1, got {value!r:.80}")
    return value


def _object(value: Any, name: str, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise StateError(f"{name}: expected an object, got {value!r:.80}")
    if keys and set(value) != set(keys):
        raise StateError(f"{name}: expected the keys {', '.join(keys)}, got {', '.join(value):.80}")
    return value


def _integers(value: Any, name: str, most: int = _MAX_CURSOR) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise StateError(f"{name}: expected a list of 1 to {most} integers, got {value!r:.80}")
    return tuple(_integer(item, f"{name}[{place}]") for place, item in enumerate(value))


def _read_cursors(value: Any, row_changing: bool) -> dict[int, Cursor]:
    if not row_changing:
        if not isinstance(value, list) or len(value) != 1:
            raise StateError(f"cursors: expected [[index]], got {value!r:.80}")
        return {0: _integers(value[0], "cursors[0]", most=1)}
    cursors = _by_stream(value, "cursors")
    if not cursors:
        raise StateError("cursors: expected one stream or more, got none")
    return {stream: _integers(cursor, f"cursors.{stream}") for stream, cursor in cursors.items()}


def _by_stream(value: Any, name: str) -> dict[int, Any]:
    for key in _object(value, name):
        if not (key.isascii() and key.isdigit() and len(key) < 19 and str(int(key)) == key):
            raise StateError(f"{name}: expected numbers of streams as keys, got {key!r:.80}")
    return {int(key): item for key, item in value.items()}


def _read_losses(value: Any) -> BadRecords:
    fields = _object(value, "bad_records", ("ledger", "skipped"))
    if not isinstance(fields["ledger"], list):
        raise StateError(f"bad_records.ledger: expected a list, got {fields['ledger']!r:.80}")
    ledger: dict[int, int] = {}
    for place, item in enumerate(fields["ledger"]):
        entry = _integers(item, f"bad_records.ledger[{place}]", most=2)
        if len(entry) != 2 or entry[0] in ledger:
            raise StateError(
                f"bad_records.ledger[{place}]: expected [index, index read instead], each index once, got {item!r:.80}"
            )
        ledger[entry[0]] = entry[1]
    skipped = _by_stream(fields["skipped"], "bad_records.skipped")
    return BadRecords(
        Ledger(ledger),
        {s: _integer(count, f"bad_records.skipped.{s}", least=1) for s, count in skipped.items()},
    )


def _read_streams(value: Any) -> SavedStreams:
    fields = _object(value, "streams", ("count", "q", "writers"))
    count = _integer(fields["count"], "streams.count", least=1)
    q = _integer(fields["q"], "streams.q", least=1)
    writers = _integers(fields["writers"], "streams.writers", most=count)
    if len(writers) != count:
        raise StateError(f"streams.writers: expected {count} (streams.count) processes, got {len(writers)}")
    return SavedStreams(count, q, writers)


def _read_operations(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise StateError(f"operations: expected a list, got {value!r:.80}")
    for place, operation in enumerate(value):
        named = isinstance(operation, dict) and isinstance(operation.get("op"), str)
        if not named and not isinstance(operation, str):
            raise StateError(
                f"operations[{place}]: expected a string or an object with 'op', got {operation!r:.80}"
            )
    return value


def _read_parameters(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MAX_OPERATIONS:
        raise StateError(
            f"parameters: expected a list of at most {_MAX_OPERATIONS} objects, got {value!r:.80}"
        )
    kinds = {"op": str, "name": str, "parameters": dict}
    for place, entry in enumerate(value):
        named = isinstance(entry, dict) and "op" in entry and not entry.keys() - kinds.keys()
        if not named or not all(isinstance(part, kinds[key]) for key, part in entry.items()):
            raise StateError(
                f"parameters[{place}]: expected an object with 'op', and 'name' and 'parameters' where there are any, "
                f"got {entry!r:.80}"
            )
    return value


def _read_versions(value: Any) -> dict[str, str]:
    versions = _object(value, "versions", _VERSIONED)
    for name, version in versions.items():
        if not isinstance(version, str):
            raise StateError(f"versions.{name}: expected a string, got {version!r:.80}")
    return versions


def _read_numerics(value: Any) -> dict[str, str]:
    digests = _object(value, "numerics")
    if not 1 <= len(digests) <= _MAX_LIBRARIES:
        raise StateError(f"numerics: expected 1 to {_MAX_LIBRARIES} libraries, got {len(digests)}")
    for library, bits in digests.items():
        if not isinstance(bits, str) or len(bits) > _MAX_DIGEST or len(library) > _MAX_DIGEST:
            raise StateError(f"numerics.{library:.80}: expected a short text, got {bits!r:.80}")
    return digests
