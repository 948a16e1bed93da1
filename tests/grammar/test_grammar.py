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
from range_server import RangeServer
from reference import Failed, Reference
from refusals_of import has_unlike_parts, refusals, used
from samplers_of import MIXED, OTHER_WEIGHTS
from sources_of import FOLDER, SERVER

import loaderkit as lk
from loaderkit._base.former import FORMER

pytestmark = [
    pytest.mark.filterwarnings("ignore:the last step has too few rows"),
    pytest.mark.filterwarnings("ignore:shards read the same lanes"),
    pytest.mark.usefixtures("folder"),
]
MOST = 12  # steps that are looked at of an endless stream

Outcome = tuple[list[Any], str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, object_runtime):
    """Where the files of sources are, and a server of them."""
    path = tmp_path_factory.mktemp("sources")
    with pytest.MonkeyPatch.context() as patch, RangeServer(path) as server:
        patch.setenv("XDG_CACHE_HOME", str(path / "home"))
        FOLDER.append(path)
        SERVER.append(server)
        yield
        FOLDER.clear()
        SERVER.clear()


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


def hosts_of(p: Pipeline, running: Running, *, agree: bool = False) -> "list[lk.DataLoader]":
    stores = MemoryStore.of(p.hosts, timeout=60)
    shards = [
        lk.ShardOptions(h, p.hosts, drop_remainder=p.drop_remainder, store=stores[h]) for h in range(p.hosts)
    ]
    return [running.loader(p, shard, agree=agree) for shard in shards]


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

    return tuple(zip(*at_once(work, p), strict=True))


def at_once(work: Any, p: Pipeline) -> list[Any]:
    """What all hosts do, at the same time; in turn where they would share the global generators."""
    return [*map(work, range(p.hosts))] if p.seeds_globals else together(work, p.hosts)


def again(states: Any) -> list[bytes]:
    """States that went through somebody's JSON."""
    return [json.dumps(json.loads(state)).encode() for state in states]


def run_of(p: Pipeline, data: st.DataObject, kind: str = "thread") -> Running:
    """Any way to run a pipeline that is allowed."""
    running = data.draw(runnings(kind))
    return replace(running, workers=0) if p.seeds_globals and running.kind == "thread" else running


def check_refused(p: Pipeline, running: Running, excluded: list[tuple[str, str]]) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        [*map(iter, hosts_of(p, running))]
    said = str(raised.value)
    assert any(all(re.search(part, said) for part in parts) for parts in excluded), f"{excluded}: {said}"


def check_unlike(p: Pipeline, running: Running) -> None:
    """Refused before the first step, on each host."""
    for loader in hosts_of(p, running):
        with (
            loader,
            iter(loader) as it,
            pytest.raises(lk.errors.BatchError, match=r"parts '\w+' and '\w+'.* dtype"),
        ):
            next(it)


def check(p: Pipeline, data: st.DataObject, kind: str = "thread") -> None:
    try:
        check_all(p, data, kind)
    except Endless:
        reject()


def check_all(p: Pipeline, data: st.DataObject, kind: str) -> None:
    running = data.draw(runnings(kind))
    threads = running.workers and running.kind == "thread"
    if excluded := [*refusals(p), *[("seeds generators", "threads")] * bool(p.seeds_globals and threads)]:
        check_refused(p, replace(running, chain=False), excluded)  # a chain says it at the line of a step
        return
    if has_unlike_parts(p):
        check_unlike(p, running)
        return
    expected, lost = expected_of(p)
    others = others_of(p, data)
    resumed, _ = expected_of(others) if others is not p else (expected, lost)
    if ends_by_error(p, expected):
        return
    if ends_by_error(others, resumed):
        others, resumed = p, expected
    found, bad, _ = run(p, running)
    for one, other in zip(found, expected, strict=True):
        same(one, other)
    ended = all(not error and len(values) < MOST for values, error in expected)
    plain = p.last is None or p.last.remainder in ("keep", "drop")
    if ended and plain and p.num_steps is None and p.policy != "raise":
        assert bad == tuple(counts[-1] for counts in lost)
    step = data.draw(st.integers(0, min(len(values) for values, _ in [*expected, *resumed])))
    _, so_far, states = run(p, run_of(p, data), steps=step)
    if plain and p.policy != "raise" and not p.changes:
        assert so_far == tuple(counts[step] for counts in lost)
    saved = again(states)
    of_hosts = [saved if p.changes else [saved[host if others is p else 0]] for host in range(others.hosts)]
    found, again_bad, _ = run(others, run_of(p, data, kind), of_hosts, steps=MOST - step)
    for one, (values, error) in zip(found, resumed, strict=True):
        same(one, (values[step:], error))
    if others is p and (p.hosts == 1 or not p.changes):
        assert again_bad == bad
    if not p.changes:
        check_places(p, running, expected, data)
    if p.sampled.word in MIXED and p.stop is None and len(p.records) > 2:
        check_other_weights(p, running, step, expected, saved)


def ends_by_error(p: Pipeline, expected: list[Outcome]) -> bool:
    """Whether one host of some that agree on the last step fails: the others are told, each after steps of its own."""
    padded = p.last is not None and p.last.remainder == "pad"
    agree = p.changes and padded and p.stop is not None and p.hosts > 1
    return agree and any(error for _, error in expected)


def check_other_weights(
    p: Pipeline, running: Running, step: int, expected: list[Outcome], states: list[bytes]
) -> None:
    """Weights that change at a step, live or over a restart, are those of a mixture that was planned so; on all hosts.

    Where rows change their number the state says from which index on, and `reweigh` is for one host.
    """
    loaders = hosts_of(p, running, agree=not p.changes and not p.seeds_globals)
    written = replace(p, sampled=replace(p.sampled, changed=0))
    try:
        if p.hosts == 1 or not p.changes:
            found = at_once(lambda host: live(loaders[host], step), p)
            compare(p, found, step)
            compare(
                p,
                [gone_on(p, running, host, again([state])[0], step) for host, (_, state) in enumerate(found)],
                step,
            )
        else:
            with loaders[0] as loader, iter(loader) as it, pytest.raises(ValueError, match=r"rows.*shards"):
                it.reweigh(OTHER_WEIGHTS)
        if p.sampled.word != "staged":
            of_hosts = [states if p.changes else states[host] for host in range(p.hosts)]
            compare(
                p, [gone_on(written, running, host, state, step) for host, state in enumerate(of_hosts)], step
            )
    except Exception as error:
        # What is begun is made to its end, which may fail, or not be there.
        errors = {name for _, name in expected}
        if not p.changes or (type(error).__name__ not in errors and "that end together" not in str(error)):
            raise


def live(loader: "lk.DataLoader", step: int) -> tuple[Outcome, bytes]:
    """What follows other weights, and the state with them."""
    with loader, iter(loader) as it:
        [*islice(it, step)]
        it.reweigh(OTHER_WEIGHTS)
        state = it.get_state()
        return outcome(islice(it, MOST - step)), state


def gone_on(p: Pipeline, running: Running, host: int, state: Any, step: int) -> tuple[Outcome, bytes]:
    """What follows a state, and how this loader says it."""
    with hosts_of(p, running)[host] as loader, iter(loader) as it:
        it.set_state(state, allow={"mixture"})
        state = it.get_state()
        return outcome(islice(it, MOST - step)), state


def compare(p: Pipeline, found: list[tuple[Outcome, bytes]], step: int) -> None:
    """All hosts have other weights from one index on, which their states say."""
    stages = [json.loads(state)["mixture"]["stages"] for _, state in found]
    of_args = p.sampled.word == "staged"
    begun = {max(index for index, how, _ in each if how == "live" or not of_args) for each in stages}
    assert begun == {step * p.rows * p.group} or (p.changes and len(begun) == 1)
    later = replace(p, sampled=replace(p.sampled, changed=begun.pop()))
    for (one, _), (values, error) in zip(found, expected_of(later)[0], strict=True):
        same(one, (values[step:], error))


def expected_of(p: Pipeline) -> tuple[list[Outcome], list[list[int]]]:
    """What each host is given, and how many records it loses until each step, and in all."""
    expected, lost = [], []
    for host in range(p.hosts):
        p.losses.clear()
        counts = [0]
        elements = Reference(p, host).elements()
        expected.append(outcome(value for value in elements if counts.append(len(p.losses)) is None))
        if p.policy == "skip" and in_a_row(p) + 1 >= p.patience:
            raise Endless
        lost.append([*counts, len(p.losses)])
    return expected, lost


def in_a_row(p: Pipeline) -> int:
    """How many records were lost in a row, or more."""
    runs = [
        key - place for place, key in enumerate(sorted(p.losses))
    ]  # consecutive keys have the same number
    return len(runs) if p.streams > 1 else max(map(runs.count, runs), default=0)


def others_of(p: Pipeline, data: st.DataObject) -> Pipeline:
    """The same stream on any number of hosts that can go on with it."""
    others = p.on_hosts(data.draw(st.integers(1, 4)))
    fits = others.hosts != p.hosts and not any(refusals(others)) and p.last is not None
    fits = fits and not (p.seeds_globals and p.changes)  # hosts that may agree can't run in turn
    return others if fits else p


def check_places(p: Pipeline, running: Running, expected: list[Outcome], data: st.DataObject) -> None:
    """Steps that are gone to by number, and what they are said to read; on the last host."""
    group = p.group
    values, error = expected[-1]
    with hosts_of(p, running)[-1] as loader, iter(loader) as it:
        for step in (
            data.draw(st.lists(st.integers(0, max(0, len(values) - 1)), max_size=3)) if values else ()
        ):
            it.seek(step)
            assert shape(next(it)) == shape(values[step])
            places = [p.start + place * group for place, real in Reference(p, 0).step_rows(step) if real]
            said = [(record.index, record.record_key) for record in it.records(step)]
            stop = math.inf if p.stop is None else p.start + used(p)  # an inner Batch may drop some
            indices = [index for first in places for index in range(first, first + group) if index < stop]
            assert said == [(index, p.key(index)) for index in indices]
            assert said == [(record.index, record.record_key) for record in loader.records(step)]
        if (p.stop is not None or p.num_steps) and not error and len(values) < MOST:
            assert len(loader) == len(values)
            for step in {0, len(values) // 2, len(values)}:
                it.seek(step)
                assert it.remaining == len(values) - step
            it.seek(len(values))
            assert next(it, None) is None
        if p.num_steps is None:
            check_skips(it, values, error, data)


def check_skips(it: Any, values: list[Any], error: str, data: st.DataObject) -> None:
    """Steps that are left out, at once and where the stream is gone through again."""
    step = data.draw(st.integers(0, len(values)))
    left_out = data.draw(st.integers(0, len(values) - step))
    it.seek(step)
    it.skip(left_out)
    saved = it.get_state()
    same(outcome(islice(it, MOST - step - left_out)), (values[step + left_out :], error))
    it.set_state(again([saved])[0])
    it.seek(0)
    same(outcome(islice(it, MOST - left_out)), ([*values[:step], *values[step + left_out :]], error))


def examples(of_ten: int, at_night: int) -> settings:
    """So many where other properties have ten, and at night what an hour is enough for, over all tests here."""
    asked = settings().max_examples
    return settings(max_examples=at_night if asked > 10 else max(1, of_ten * asked // 10))


@examples(30, at_night=18_000)
@given(pipelines(changing=False), st.data())
def test_rows_that_keep_their_number(p, data):
    """Steps are arithmetic: they are found by number, and say what they read."""
    check(p, data)


@examples(30, at_night=18_000)
@given(pipelines(changing=True), st.data())
def test_rows_that_change_their_number(p, data):
    """Filter, FlatMap and Windows among the operations, in logical streams."""
    check(p, data)


@pytest.mark.slow
@examples(2, at_night=600)
@given(st.booleans().flatmap(lambda changing: pipelines(changing=changing)), st.data())
def test_processes(p, data):
    """The same with worker processes."""
    check(p, data, "process")


# name -> why no pipeline has it
NOT_DRAWN = {
    **dict.fromkeys(("ArraySpec", "DataLoaderIterator", "PackPlan"), "what drawn parts give"),
    **dict.fromkeys(
        ("Sampler", "RandomAccessDataSource", "Transformation"), "contracts: Own, Damaged and Op keep them"
    ),
    **dict.fromkeys(
        ("AsDict", "AsTuple", "decode", "features"), "each is a Map, of records with certain fields"
    ),
    **dict.fromkeys(
        ("column_stats", "filtered", "measure", "read_array", "read_labels"), "run before a pipeline"
    ),
    **dict.fromkeys(
        ("map_shards", "open", "write_dataset"), "sets of files; `write` makes those that are read here"
    ),
    **dict.fromkeys(
        ("PrometheusCollector", "progress", "grid", "show"), "they look at a loader from outside"
    ),
    **dict.fromkeys(("k_fold", "random_split"), "each gives SubsetDataSources"),
    "TfdsDataSource": "it reads the files of other sources, with the library's decoding",
    "InterleavedSampler": "`interleave` makes it",
    "NoSharding": "ShardOptions(0, 1) by another name",
    "load": "a DataLoader with other defaults",
}


def test_each_public_name_is_drawn_or_said_not_to_be():
    """A new part of a loader comes into the grammar, or into the table with the reason."""
    here = [path for path in Path(__file__).parent.glob("*.py") if path != Path(__file__)]
    text = "".join(path.read_text() for path in here)
    moved = {path.rpartition(".")[2] for path in FORMER.values()}  # to modules of lk
    names = {*lk.__all__, *moved, "open", "load", "decode", "features"}
    drawn = {name for name in names if re.search(rf'(\blk\.(\w+\.)*|"){name}\b', text)}
    errors = {name for name in names if name.endswith("Error")}
    assert names - drawn - errors == {*NOT_DRAWN}


def test_the_reference_is_short_and_shares_no_code():
    """At most 200 lines, and no import of loaderkit, or of a file here."""
    lines = Path(reference.__file__).read_text().splitlines()
    assert len(lines) <= 200
    assert not any("import" in line and "loaderkit" in line for line in lines)
