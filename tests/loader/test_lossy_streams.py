"""Bad records under every policy: what a loader gives, counts and saves equals a plain interpreter of the rules."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lossy_twin import Lossy, outcome
from pipelines import Pipeline, Running, Step, pipelines, runnings, some
from stream_twin import assert_same

import loaderkit as lk


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level("ERROR", logger="loaderkit")  # thousands of losses, each of which is told


@st.composite
def lossy(draw: st.DrawFn, policies: tuple[str, ...] = ("replace", "skip", "call")) -> Lossy:
    """Any pipeline, operations that fail among them, over a source in which any records are bad, often in a row."""
    pipeline = draw(pipelines())
    keys = st.integers(0, pipeline.count - 1)
    bad = draw(st.frozensets(keys, max_size=4))
    if draw(st.booleans()):
        first, last = draw(keys), draw(keys)
        bad |= frozenset(range(first, last + 1))
    policy = draw(st.sampled_from(policies))
    if policy == "call":  # its elements are numbers, and so must be those that it stands beside
        names = [step.name for step in pipeline.steps]
        first = names.index("batch") if "batch" in names else len(names)
        kept = [step for step in pipeline.steps[:first] if step.name not in ("wrap", "draw")]
        pipeline = replace(pipeline, records="numbers", steps=(*kept, *pipeline.steps[first:]))
    return Lossy(pipeline, bad, policy, batched=draw(st.booleans()))


def fresh(loader: "lk.DataLoader") -> "lk.DataLoaderIterator":
    loader._iterated = False  # or a shuffled single epoch would say, each time, that its order repeats
    return iter(loader)


def ledger_of(state: bytes) -> dict[int, int]:
    return dict(json.loads(state).get("bad_records", {"ledger": []})["ledger"])


def check(case: Lossy, running: Running) -> None:
    expected, lost, failed = outcome(case.elements())
    with case.loader(running) as loader:
        it = iter(loader)
        found, counts, error = outcome(it, lambda: it.bad_records)
        assert_same(found, expected)
        assert error is failed
        # What is lost behind a last batch that isn't full is told with the end.
        if case.policy == "skip" and case.pipeline.row_changing:
            # Of a window or batch they are told with its last child: a restore in the middle would meet them again.
            assert all(one <= other for one, other in zip(counts, lost, strict=True))
        else:
            assert counts[:-1] == lost[:-1]
        if error is None:
            assert it.bad_records == len(case.losses)
        if case.policy != "skip" and error is None and not case.row_changing:
            assert ledger_of(it.get_state()) == case.losses


@some
@given(lossy(), runnings())
def test_equals_the_twin(case, running):
    """Inline and with threads: elements, losses by each step, ledger and errors are those of the rules."""
    check(case, running)


@some
@given(lossy(policies=("replace",)), runnings(), runnings(), st.data())
def test_what_was_read_instead_stays_so_where_the_records_are_healed(case, saving, resuming, data):
    """With the ledger and a source that reads again, the rows handed out are made as they were; later ones anew."""
    expected, _, _ = outcome(case.elements())
    step = data.draw(st.integers(0, len(expected)))
    with case.loader(saving) as loader:
        it = iter(loader)
        for _ in range(step):
            next(it)
        state = it.get_state()
    ledger = ledger_of(state)
    healed = replace(case, bad=frozenset())
    anew, _, broken = outcome(healed.elements(ledger))
    with case.loader(resuming, bad=set()) as loader:
        it = iter(loader)
        it.set_state(state)
        found, _, error = outcome(it, lambda: 0)
        assert_same(found, anew[step:])
        assert error is broken
        if not case.row_changing:
            it.set_state(state)
            it.seek(0)
            found, _, error = outcome(it, lambda: 0)
            assert_same(found, anew)
            assert error is broken
            assert_same(found[:step], expected[:step])


FIXED = Pipeline("arrays", 24, True, 2, (Step("index", 3), Step("draw", 3), Step("batch", 4)))


BAD = frozenset({3, 4, 5, 17, 23})
KEYS = [FIXED.sampler[index].record_key for index in range(48)]


def test_no_other_row_or_step_changes():
    """Every row but the bad records' is what it is on a healthy source, and these keep their generators."""
    replaced = [value for value, _ in Lossy(FIXED, BAD, "replace").elements()]
    healthy = [value for value, _ in Lossy(FIXED, frozenset(), "replace").elements()]
    for step, (batch, clean) in enumerate(zip(replaced, healthy, strict=True)):
        for row in range(4):
            assert batch[1][row] == clean[1][row]  # what it drew
            assert (batch[0]["x"][row].tolist() == clean[0]["x"][row].tolist()) == (
                KEYS[4 * step + row] not in BAD
            )


@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.parametrize("batched", [False, True])
def test_no_other_host_changes(batched, shards):
    """The rows of all shards are those of one host, and each shard's ledger holds its own."""
    whole = [value for value, _ in Lossy(FIXED, BAD, "replace").elements()]
    steps = (*FIXED.steps[:-1], Step("batch", 4, (("whole", True),))) if batched else FIXED.steps[:-1]
    case = Lossy(replace(FIXED, steps=steps), BAD, "replace")
    for shard in range(shards):
        with case.loader(Running(2), shard_options=lk.ShardOptions(shard, shards)) as loader:
            it = iter(loader)
            rows = [float(row) for element in it for row in (element[1] if batched else [element[1]])]
            told = ledger_of(it.get_state())
        if batched:
            own = [i for i in range(48) if i % 4 * shards // 4 == shard]
        else:
            own = list(range(shard, 48, shards))
        assert rows == [float(whole[i // 4][1][i % 4]) for i in own]
        assert sorted(told) == [i for i in own if KEYS[i] in BAD]
