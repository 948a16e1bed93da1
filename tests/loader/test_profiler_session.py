"""A session of jax.profiler gets the timelines of the loaders that run in it."""

import glob
import gzip
import json
import operator
import threading
from pathlib import Path

import jax

import loaderkit as lk


def test_under_jax_profiler_the_timeline_is_in_its_files(tmp_path: Path) -> None:
    """On its clock: each next() lies within an annotation of the session's that surrounds it, in both files."""
    loader = lk.load(range(4000), batch_size=8, operations=[operator.neg], worker_count=1)
    with jax.profiler.trace(str(tmp_path)), iter(loader) as it:
        for _ in range(30):
            with jax.profiler.TraceAnnotation("around"):
                next(it)
    for thread in threading.enumerate():
        if thread.name == "loaderkit-trace":
            thread.join()
    (path,) = glob.glob(f"{tmp_path}/plugins/profile/*/*.xplane.pb")
    found: dict[str, list[tuple[float, float]]] = {}
    for plane in jax.profiler.ProfileData.from_file(path).planes:
        for line in plane.lines:
            for e in line.events:
                found.setdefault(e.name, []).append((e.start_ns, e.start_ns + e.duration_ns))
    (path,) = glob.glob(f"{tmp_path}/plugins/profile/*/*.trace.json.gz")
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    of_json: dict[str, list[tuple[float, float]]] = {}
    for e in events:
        if e.get("ph") == "X":
            of_json.setdefault(e["name"], []).append((1e3 * e["ts"], 1e3 * (e["ts"] + e["dur"])))
    for times in (found, of_json):
        assert times["task"]
        assert times["operations[0] Map(neg)"]
        assert times["next()"]
        slack = 50_000  # nanoseconds: the two clocks are read one after the other
        for begin, end in times["next()"]:
            assert any(low - slack <= begin and end <= high + slack for low, high in times["around"])
