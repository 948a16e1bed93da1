"""Any pipeline of the grammar gives what a plain loop gives, or says which two of its parts exclude each other.

A pipeline that is accepted is run whole, saved at any step, resumed from JSON on any hosts and gone through by `seek`,
each with workers, prefetch and tasks of its own. The reference is tests/grammar/reference.py.
"""

import json
import math
import re
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from grammar import Endless, Pipeline, Running, pipelines, runnings
from hosts import together
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from memory_store import MemoryStore
from reference import Failed, changes, elements, parts, sizes, step_rows
from refusals_of import refusals

import loaderkit as lk

pytestmark = pytest.mark.filterwarnings("ignore:the last step has too few rows")
MOST = 12  # steps that are looked at of an endless stream

Outcome = tuple[list[Any], str]


def outcome(stream: Any) -> Outcome:
    """The first elements, and the name of the error that ended them, "" without one."""
    values: list[Any] = []
    try:
        for value in islice(stream, MOST):
            values += [value]
    except Failed as error:
        return values, str(error)
    except Exception as error:  # noqa: BLE001 - which one it is, is what is compared
        return values, type(error).__name__
    return values, ""


def shape(tree: Any) -> Any:
    """A value that is equal for trees that are equal in type, dtype, shape and bytes."""
    if isinstance(tree, dict):
        return [(name, shape(child)) for name, child in tree.items()]
    if isinstance(tree, list | tuple):
        return type(tree).__name__, [shape(child) for child in tree]
    if isinstance(tree, np.ndarray):
        data = shape(tree.tolist()) if tree.dtype == object else tree.tobytes()
        return str(tree.dtype), tree.shape, tree.flags.c_contiguous, data
    return type(tree).__name__, tree


def same(found: Outcome, expected: Outcome) -> None:
    for place, (one, other) in enumerate(zip(found[0], expected[0], strict=False)):
        assert shape(one) == shape(other), f"element {place}: {one} instead of {other}"
    assert (len(found[0]), found[1]) == (len(expected[0]), expected[1]), found


def hosts_of(p: Pipeline, running: Running) -> list[lk.DataLoader]:
    stores = MemoryStore.of(p.hosts, timeout=60)
    shards = [
        lk.ShardOptions(h, p.hosts, drop_remainder=p.drop_remainder, store=stores[h]) for h in range(p.hosts)
    ]
    return [running.loader(p, shard) for shard in shards]


def run(
    p: Pipeline, running: Running, states: list[bytes] | None = None, steps: int = MOST
) -> tuple[Any, ...]:
    """What all hosts are given from states on, and their states after so many steps."""
    loaders = hosts_of(p, running)

    def work(host: int) -> tuple[Outcome, bytes]:
        with loaders[host] as loader, iter(loader) as it:
            if states is not None:
                it.set_state(states)
            found = outcome(islice(it, steps))
            return found, it.get_state()

    return tuple(zip(*together(work, p.hosts), strict=True))


def again(states: Any) -> list[bytes]:
    """States that went through somebody's JSON."""
    return [json.dumps(json.loads(state)).encode() for state in states]


def check_refused(p: Pipeline, running: Running, excluded: list[tuple[str, str]]) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        [*map(iter, hosts_of(p, running))]
    said = str(raised.value)
    assert any(all(re.search(part, said) for part in parts) for parts in excluded), f"{excluded}: {said}"


def check(p: Pipeline, data: st.DataObject, kind: str = "thread") -> None:
    running = data.draw(runnings(kind))
    if excluded := [*refusals(p)]:
        check_refused(p, running, excluded)
        return
    try:
        expected = [outcome(elements(p, host)) for host in range(p.hosts)]
    except Endless:
        reject()
    found, _ = run(p, running)
    for one, other in zip(found, expected, strict=True):
        same(one, other)
    step = data.draw(st.integers(0, min(len(values) for values, _ in expected)))
    _, states = run(p, data.draw(runnings()), steps=step)
    others = p.on_hosts(data.draw(st.integers(1, 4)))
    if others.hosts == p.hosts or any(refusals(others)) or parts(p)[1] is None:
        others = p  # without a Batch the hosts are the rows of a step
    resumed = expected if others is p else [outcome(elements(others, host)) for host in range(others.hosts)]
    if others is not p:
        states = states if changes(p) else states[:1]
    found, _ = run(others, data.draw(runnings()), again(states), steps=MOST - step)
    for one, (values, error) in zip(found, resumed, strict=True):
        same(one, (values[step:], error))
    if not changes(p):
        check_places(p, running, expected, data)


def check_places(p: Pipeline, running: Running, expected: list[Outcome], data: st.DataObject) -> None:
    """Steps that are gone to by number, and what they are said to read; on the last host."""
    group = sizes(p)[1]
    values, error = expected[-1]
    with hosts_of(p, running)[-1] as loader, iter(loader) as it:
        for step in (
            data.draw(st.lists(st.integers(0, max(0, len(values) - 1)), max_size=3)) if values else ()
        ):
            it.seek(step)
            assert shape(next(it)) == shape(values[step])
            places = [p.start + place * group for place, real in step_rows(p, step) if real]
            said = [(record.index, record.record_key) for record in it.records(step)]
            stop = math.inf if p.stop is None else p.stop
            indices = [index for first in places for index in range(first, first + group) if index < stop]
            assert said == [(index, p.key(index)) for index in indices]
            assert said == [(record.index, record.record_key) for record in loader.records(step)]
        if p.stop is not None and not error and len(values) < MOST:
            assert len(loader) == len(values)
            it.seek(len(values))
            assert it.remaining == 0 and next(it, None) is None


def examples(by_day: int) -> settings:
    """So many examples in the suite, and in the nightly run what an hour is enough for, over all tests here."""
    return settings(max_examples=by_day if settings().max_examples < 1000 else by_day * 40)


@examples(150)
@given(pipelines(changing=False), st.data())
def test_rows_that_keep_their_number(p, data):
    """Steps are arithmetic: they are found by number, and say what they read."""
    check(p, data)


@examples(150)
@given(pipelines(changing=True), st.data())
def test_rows_that_change_their_number(p, data):
    """Filter, FlatMap and Windows among the operations, in logical streams."""
    check(p, data)


@pytest.mark.slow
@examples(3)
@given(st.booleans().flatmap(lambda changing: pipelines(changing=changing)), st.data())
def test_processes(p, data):
    """The same with worker processes."""
    check(p, data, "process")


def test_the_reference_is_short_and_shares_no_code():
    """At most 200 lines with something on them, and no import of loaderkit."""
    lines = [line for line in Path(reference.__file__).read_text().splitlines() if line.strip()]
    assert len(lines) <= 200
    assert not any("import" in line and "loaderkit" in line for line in lines)
