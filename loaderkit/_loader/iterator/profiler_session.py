"""What jax.profiler records, with the loaders' timelines in it.

While a session of `jax.profiler.trace` is on, all loaders of the process record on one timeline. When the session has
written its files, a thread adds the timeline to them: a plane to the .xplane.pb that XProf reads, and events to the
.json.gz files that Perfetto opens. Their times are those of the session's own clock.

JAX has no public way to ask where a session writes: its module is looked at, and where it doesn't have what is
expected here, or writes to a server, nothing is added.
"""

import atexit
import glob
import gzip
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from loaderkit._base.system.whole_file import whole_file
from loaderkit._codecs.example_encoding import message_field, varint
from loaderkit._engine.stats.timeline import Timeline, TraceEvent, events_of

_log = logging.getLogger("loaderkit")
_lock = threading.Lock()
_present: list[Timeline] = []  # of the session that is on: one or none
_LOOK_SECONDS = 0.02  # from one look whether the session has ended to the next
_END_SECONDS = 10.0  # at the end of the program, for what is added to the files of a session that has ended
_ORIGIN = "profile_start_time"  # of a session, in nanoseconds since 1970: the zero of its files
_PLANE = "/custom:loaderkit"  # XProf shows planes with this beginning beside those of the host and of devices
_PROCESS = 1 << 20  # in the .json.gz files: a number that JAX gives to no host and no device


def session_timeline() -> Timeline | None:
    """The timeline of the session that is on; None without one."""
    state = getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None)
    session = getattr(state, "profile_session", None)
    if session is None:
        return None
    with _lock:
        if not _present:
            _present.append(Timeline(epoch=time.time_ns() - time.perf_counter_ns()))
            adding = threading.Thread(
                target=_add_at_end,
                args=(state, session, getattr(state, "log_dir", None), _present[0]),
                name="loaderkit-trace",
                daemon=True,
            )
            atexit.register(_end, state, session, adding)
            adding.start()
        return _present[0]


def _end(state: Any, session: Any, adding: threading.Thread) -> None:
    if state.profile_session is not session:
        adding.join(_END_SECONDS)


def _add_at_end(state: Any, session: Any, folder: Any, timeline: Timeline) -> None:
    while state.profile_session is session:
        time.sleep(_LOOK_SECONDS)
    with _lock:
        _present.clear()
    try:
        runs = glob.glob(os.path.join(glob.escape(str(folder)), "plugins", "profile", "*"))
        if runs:
            _add(timeline, max(runs, key=os.path.getmtime))
    except Exception as error:  # noqa: BLE001 - the session's files are complete without it
        _log.warning("the timeline wasn't added to the files of jax.profiler in %s: %r", folder, error)


def _add(timeline: Timeline, folder: str) -> None:
    """Adds a timeline to the files of a session."""
    spans = sorted(timeline.spans(), key=attrgetter("track"))
    for path in glob.glob(os.path.join(glob.escape(folder), "*.xplane.pb")):
        zero = _origin_of(path) - timeline.epoch
        inside = [span for span in spans if span.begin >= zero]
        with open(path, "ab") as file:  # a message behind another one adds to its lists
            file.write(message_field(1, _plane(inside, zero)))
        for other in glob.glob(os.path.join(glob.escape(folder), "*.json.gz")):
            _add_to_json(other, inside, zero)


def _origin_of(path: str) -> int:
    for plane in sys.modules["jax.profiler"].ProfileData.from_file(path).planes:
        for name, value in plane.stats:
            if name == _ORIGIN:
                return int(value)
    raise LookupError(f"{path} has no {_ORIGIN}")


def _add_to_json(path: str, spans: Sequence[TraceEvent], zero: int) -> None:
    with gzip.open(path) as packed:
        begin, found, rest = packed.read().partition(b'"traceEvents":[')
    if not found:
        begin, found, rest = begin.partition(b'"traceEvents": [')
    events = ",".join(map(json.dumps, events_of(spans, _PROCESS, zero)))
    with whole_file(path) as file:
        file.write(gzip.compress(begin + found + events.encode() + b"," + rest, 1))


def _plane(spans: Sequence[TraceEvent], zero: int) -> bytes:
    """Spans as an XPlane, sorted by track: a line for each track, with times from `zero` on."""
    names = {name: number for number, name in enumerate(dict.fromkeys(span.name for span in spans), 1)}
    kinds = {
        kind: number
        for number, kind in enumerate(dict.fromkeys(key for span in spans for key in span.details), 1)
    }
    parts = [_number(1, _PROCESS), message_field(2, _PLANE.encode())]
    for number, (track, events) in enumerate(groupby(spans, attrgetter("track")), 1):
        line = [_number(1, number), message_field(2, track.encode())]
        line += [message_field(4, _event(span, zero, names, kinds)) for span in events]
        parts.append(message_field(3, b"".join(line)))
    for place, table in ((4, names), (5, kinds)):
        for name, number in table.items():
            about = _number(1, number) + message_field(2, name.encode())
            parts.append(message_field(place, _number(1, number) + message_field(2, about)))
    return b"".join(parts)


def _event(span: TraceEvent, zero: int, names: Mapping[str, int], kinds: Mapping[str, int]) -> bytes:
    taken = 0 if span.end is None else span.end - span.begin
    parts = [_number(1, names[span.name]), _number(2, 1000 * (span.begin - zero)), _number(3, 1000 * taken)]
    for kind, value in span.details.items():
        parts.append(message_field(4, _number(1, kinds[kind]) + message_field(5, str(value).encode())))
    return b"".join(parts)


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)
