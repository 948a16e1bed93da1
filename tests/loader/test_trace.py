"""`loader.trace()`: which worker did what when."""

import json
import os
import signal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from internals import executor_of

import loaderkit as lk

KINDS: dict[str, dict[str, Any]] = {
    "inline": {},
    "threads": {"worker_count": 2, "worker_kind": "thread"},
    "processes": {"worker_count": 2},
}


def row(x: int) -> dict[str, Any]:
    return {"x": np.full(8, x)}


def negative(element: dict[str, Any]) -> dict[str, Any]:
    return {"x": -element["x"]}


def dies_once(path: Path, x: int) -> dict[str, Any]:
    if x == 40 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return row(x)


def fails_at_seven(x: int) -> int:
    if x == 7:
        raise ValueError(x)
    return x


def events_in(path: Path) -> list[dict[str, Any]]:
    """Each with the name of its track."""
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return [{**e, "track": tracks[e["tid"]]} for e in events if e["ph"] != "M"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_worker_is_on_the_timeline(kind: str, tmp_path: Path) -> None:
    """With reads, operations and rows of all records; and next() and the step, which don't overlap."""
    loader = lk.load(range(400), batch_size=8, num_epochs=1, operations=[row, negative], **KINDS[kind])
    loader.trace(tmp_path / "run.json", len)
    events = events_in(tmp_path / "run.json")
    tasks = [e for e in events if e["name"] == "task"]
    assert sum(e["args"]["records"] for e in tasks) == 400
    named = {e["name"] for e in events if e["track"] == tasks[0]["track"]}
    assert {"task", "read", "operations[0] Map(row)", "operations[1] Map(negative)", "rows"} <= named
    assert sum(e["name"] == "step" for e in events) == 50
    trainer = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["track"] == "trainer")
    assert all(end <= begin + 0.002 for (_, end), (begin, _) in pairwise(trainer))
    if kind != "inline":
        assert {"hired", "ready", "round"} <= {e["name"] for e in events}
        for track in {e["track"] for e in tasks}:
            mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in tasks if e["track"] == track)
            assert all(end <= begin + 0.002 for (_, end), (begin, _) in pairwise(mine))


def test_a_lost_worker_and_a_bad_record_are_on_the_timeline(tmp_path: Path) -> None:
    """A gap in the work has its reason beside it."""
    loader = lk.load(
        range(200),
        batch_size=8,
        num_epochs=1,
        operations=[partial(dies_once, tmp_path / "died")],
        worker_count=1,
    )
    loader.trace(tmp_path / "run.json")
    events = events_in(tmp_path / "run.json")
    assert [e["name"] for e in events if e["name"] in ("hired", "lost")] == ["hired", "lost", "hired"]
    assert "SIGKILL" in next(e["args"]["reason"] for e in events if e["name"] == "lost")
    lk.load(range(9), num_epochs=1, operations=[fails_at_seven], on_record_error="skip").trace(
        tmp_path / "bad.json"
    )
    (bad,) = (e for e in events_in(tmp_path / "bad.json") if e["name"] == "bad records")
    assert bad["args"]["indices"] == [7]


def test_the_loader_itself_is_not_moved_and_records_nothing(tmp_path: Path) -> None:
    loader = lk.load(range(100), batch_size=4, operations=[row], worker_count=1)
    with iter(loader) as it:
        next(it)
        loader.trace(tmp_path / "run.json", steps=3)
        assert it.step == 1
        assert executor_of(loader).timeline is None


@pytest.mark.parametrize(("step", "steps", "error"), [(3, 1, TypeError), (None, 0, ValueError)])
def test_arguments_that_mean_nothing_are_refused(step: Any, steps: int, error: type, tmp_path: Path) -> None:
    with pytest.raises(error):
        lk.load([5, 6]).trace(tmp_path / "run.json", step, steps=steps)
    assert not [*tmp_path.iterdir()]
