"""A timeline as spans and as Chrome's trace events."""

import json

from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.stats.counters import TaskTrace
from loaderkit._engine.stats.timeline import Timeline

TIMES = st.integers(0, 10**12)
TASKS = st.builds(
    TaskTrace,
    task=st.integers(0, 9),
    begin=TIMES,
    end=TIMES.map(lambda taken: taken + 10**12),
    records=st.integers(0, 9),
    rows=st.integers(0, 9),
    read=TIMES,
    batch=TIMES,
    operations=st.lists(TIMES, min_size=2, max_size=2).map(tuple),
)


@given(st.lists(TASKS, max_size=5))
def test_the_parts_of_a_task_lie_in_it_one_behind_the_other(tasks):
    """In the order read, operations, rows; none is longer than what was measured."""
    timeline = Timeline(epoch=0)
    for number, task in enumerate(tasks):
        timeline.add_task(f"worker {number}", task, ["first", "second"])
    for number, task in enumerate(tasks):
        whole, *parts = [span for span in timeline.spans() if span.track == f"worker {number}"]
        assert (whole.name, whole.begin, whole.end) == ("task", task.begin, task.end)
        measured = {"read": task.read, "rows": task.batch}
        measured |= dict(zip(("first", "second"), task.operations, strict=True))
        order, at = ["read", "first", "second", "rows"], task.begin
        assert [part.name for part in parts] == [name for name in order if name in {p.name for p in parts}]
        for part in parts:
            assert part.begin == at
            assert part.end is not None
            at = part.end
            assert part.end - part.begin <= measured[part.name]
        assert at <= task.end
        assert at == task.end or at - task.begin == sum(measured.values())


def test_the_json_is_what_perfetto_opens():
    """A thread for each track; spans with durations, instants without; microseconds from the first on."""
    timeline = Timeline(epoch=5_000)
    timeline.add("pump", "round", 3_500, 4_000)
    timeline.add("worker 1", "lost", 2_000, reason="SIGKILL")
    trace = json.loads(timeline.to_json())
    assert trace["otherData"] == {"begin_unix_ns": 7_000}
    named = [e for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert [e["args"]["name"] for e in named] == ["pump", "worker 1"]
    round_, lost = (e for e in trace["traceEvents"] if e["ph"] != "M")
    assert (round_["ph"], round_["ts"], round_["dur"], round_["tid"]) == ("X", 1.5, 0.5, 0)
    assert (lost["ph"], lost["ts"], lost["tid"], lost["args"]) == ("i", 0.0, 1, {"reason": "SIGKILL"})


def test_of_nothing_there_is_a_trace_too():
    assert json.loads(Timeline(epoch=0).to_json())["traceEvents"][0]["ph"] == "M"
