"""Any pipeline of the grammar gives what a plain loop gives, or says which two of its parts exclude each other.

A pipeline that is accepted is run whole, saved at any step, resumed from JSON on any hosts and gone through by `seek`,
each with workers, prefetch and tasks of its own. The reference is tests/grammar/reference.py.
"""

import json
import math
import re
from dataclasses import replace
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
from samplers_of import OTHER_WEIGHTS
from sources_of import FOLDER

import loaderkit as lk

pytestmark = [
    pytest.mark.filterwarnings("ignore:the last step has too few rows"),
    pytest.mark.filterwarnings("ignore:shards read the same lanes"),
    pytest.mark.usefixtures("folder"),
]
MOST = 12  # steps that are looked at of an endless stream

Outcome = tuple[list[Any], str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the files of sources are."""
    FOLDER.append(tmp_path_factory.mktemp("sources"))
    yield
    FOLDER.clear()


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level("ERROR", logger="loaderkit")  # each loss is told


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
        return [(name, shape(tree[name])) for name in sorted(tree)]
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
    p: Pipeline, running: Running, states: list[list[bytes]] | None = None, steps: int = MOST
) -> tuple[Any, ...]:
    """What all hosts are given from states on, their bad records, and their states after so many steps."""
    loaders = hosts_of(p, running)

    def work(host: int) -> tuple[Outcome, int, bytes]:
        with loaders[host] as loader, iter(loader) as it:
            if states is not None:
                it.set_state(states[host])
            found = outcome(islice(it, steps))
            return found, it.bad_records, it.get_state()

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
        expected, lost = expected_of(p)
        others = others_of(p, data)
        resumed, _ = expected_of(others) if others is not p else (expected, lost)
    except Endless:
        reject()
    agree = (
        changes(p) and p.stop is not None and parts(p)[1] and parts(p)[1].remainder == "pad" and p.hosts > 1
    )
    if agree and any(error for _, error in expected):
        return  # one host fails, and the others are told
    found, bad, _ = run(p, running)
    for one, other in zip(found, expected, strict=True):
        same(one, other)
    ended = all(not error and len(values) < MOST for values, error in expected)
    plain = parts(p)[1] is None or parts(p)[1].remainder in ("keep", "drop")
    if ended and plain and p.num_steps is None and p.policy != "raise":
        assert bad == lost
    step = data.draw(st.integers(0, min(len(values) for values, _ in [*expected, *resumed])))
    _, _, states = run(p, data.draw(runnings()), steps=step)
    saved = again(states)
    of_hosts = [saved if changes(p) else [saved[host if others is p else 0]] for host in range(others.hosts)]
    found, again_bad, _ = run(others, data.draw(runnings(kind)), of_hosts, steps=MOST - step)
    for one, (values, error) in zip(found, resumed, strict=True):
        same(one, (values[step:], error))
    if others is p and (p.hosts == 1 or not changes(p)):
        assert again_bad == bad
    if changes(p):
        return
    check_places(p, running, expected, data)
    if p.sampled.word in ("mixed", "staged") and p.stop is None and len(p.records) > 2:
        check_other_weights(p, running, step)


def check_other_weights(p: Pipeline, running: Running, step: int) -> None:
    """Weights that are changed at a step are those of a mixture that was planned so, also for a resume; on one host."""
    index = step * math.prod(sizes(p))
    later = replace(p, sampled=replace(p.sampled, changed=index))
    values, error = outcome(elements(later, 0))
    with hosts_of(p, running)[0] as loader, iter(loader) as it:
        [*islice(it, step)]
        it.reweigh(OTHER_WEIGHTS)
        saved = it.get_state()
        same(outcome(islice(it, MOST - step)), (values[step:], error))
        it.set_state(saved)
        same(outcome(islice(it, MOST - step)), (values[step:], error))


def expected_of(p: Pipeline) -> tuple[list[Outcome], tuple[int, ...]]:
    """What each host is given, and how many records it loses."""
    expected, lost = [], []
    for host in range(p.hosts):
        p.losses.clear()
        expected.append(outcome(elements(p, host)))
        if p.policy == "skip" and len(p.losses) + 1 >= p.patience:
            raise Endless
        lost.append(len(p.losses))
    return expected, tuple(lost)


def others_of(p: Pipeline, data: st.DataObject) -> Pipeline:
    """The same stream on any number of hosts that can go on with it."""
    others = p.on_hosts(data.draw(st.integers(1, 4)))
    fits = others.hosts != p.hosts and not any(refusals(others)) and parts(p)[1] is not None
    return others if fits else p


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
    """So many in the suite, fewer for one room, and at night what an hour is enough for, over all tests here."""
    return settings(max_examples=by_day * settings().max_examples // 25)


@examples(125)
@given(pipelines(changing=False), st.data())
def test_rows_that_keep_their_number(p, data):
    """Steps are arithmetic: they are found by number, and say what they read."""
    check(p, data)


@examples(125)
@given(pipelines(changing=True), st.data())
def test_rows_that_change_their_number(p, data):
    """Filter, FlatMap and Windows among the operations, in logical streams."""
    check(p, data)


@pytest.mark.slow
@examples(5)
@given(st.booleans().flatmap(lambda changing: pipelines(changing=changing)), st.data())
def test_processes(p, data):
    """The same with worker processes."""
    check(p, data, "process")


def test_the_reference_is_short_and_shares_no_code():
    """At most 200 lines with something on them, and no import of loaderkit."""
    lines = [line for line in Path(reference.__file__).read_text().splitlines() if line.strip()]
    assert len(lines) <= 200
    assert not any("import" in line and "loaderkit" in line for line in lines)
