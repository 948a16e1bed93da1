"""Several real JAX processes: every device holds the rows of the one global batch, whatever the mesh."""

import json
from pathlib import Path

import pytest
from jax_run import run
from ports import free_port

pytestmark = pytest.mark.slow  # all ask the processes of one fixture

CASES = Path(__file__).parent / "jax_cases.py"


@pytest.fixture(scope="module", params=[2, 4], ids=["2 processes", "4 processes"])
def answers(request, tmp_path_factory, nightly):
    """What each process answered, by case: eight devices in all, started once for all tests."""
    if request.param == 4 and not nightly:
        pytest.skip("runs at night; by day two processes answer")
    port = free_port()
    told = run(
        lambda index: [CASES, index, request.param, port],
        processes=request.param,
        devices=8,
        folder=tmp_path_factory.mktemp("answers"),
    )
    for status, out, err in told:
        assert status == 0, f"{out}\n{err}"
    return [dict(answers_in(out)) for _, out, _ in told]


def answers_in(out):
    """The answers among what else a process says: libraries write to its output too, also within a line."""
    for line in out.splitlines():
        if '["' in line:
            yield json.JSONDecoder().raw_decode(line[line.index('["') :])[0]


def test_every_shard_is_the_global_batch_at_its_index(answers):
    """Random orders of devices, shapes of meshes and specs, with and without Filter: no row is elsewhere."""
    for told in answers:
        assert told["meshes"]["wrong"] == []
    # The draws had processes whose rows lie apart, and processes that share rows.
    assert sum(told["meshes"]["apart"] for told in answers) > 0
    assert sum(told["meshes"]["shared"] for told in answers) > 0


def test_rows_that_do_not_belong_on_a_device_never_reach_it(answers):
    """Any rows of a process, any sharding: on a device lies the slice that JAX names for it, or nothing is made.

    Also where the rows are as many as the devices hold.
    """
    for told in answers:
        found = told["placement"]
        assert found["wrong"] == []
        assert min(found["right"], found["refused"], found["as many"]) > 0


def test_a_second_sharding_never_puts_rows_elsewhere(answers):
    """The loader's rows by one mesh and the arrays by another, of as many rows: right or refused, on every process."""
    for told in answers:
        assert told["two shardings"]["wrong"] == []
    assert sum(told["two shardings"]["refused"] for told in answers) > 0


def test_without_a_sharding_each_process_has_its_own_rows_on_its_own_device(answers):
    """On the first device or a given one; the last step's too, which are more for some. Another process's device is
    refused. Leaves may differ between the processes, positions may not, if their loaders load together.
    """
    last = len(answers) - 1
    others = ", ".join(map(str, range(last)))
    for told in answers:
        found = told["own rows"]
        assert found["first"] is found["last"] is found["wide"] is True
        assert "belongs to another process" in found["other"] and "jax.local_devices()" in found["other"]
        assert f"step: 3 on process {others}; 7 on process {last}" in found["apart"]
        assert found["alone"] == [[16], True]


def test_shards_by_number_are_compared_before_a_global_array_is_made(answers):
    """`ShardOptions(h, H)` and `NoSharding()` say nothing of other processes; whose sharding spans them asks for it."""
    last = len(answers) - 1
    others = ", ".join(map(str, range(last)))
    for told in answers:
        for seeds, places, together in told["by number"].values():
            assert f"sampler.seed: 0 on process {others}; 1 on process {last}" in seeds
            assert f"step: 0 on process {others}; 2 on process {last}" in places
            assert together is True


def test_keys_are_those_of_the_records(answers):
    """A record's key depends on seed, index and child alone, on whichever device its row lies."""
    assert [told["keys"] for told in answers] == [0] * len(answers)


def test_a_filtered_epoch_ends_at_one_step_and_counts_each_record_once(answers):
    """Streams run dry at steps of their own; all processes make the same number, and masked rows are not counted."""
    assert len({told["ending"]["steps"] for told in answers}) == 1
    everywhere = {key for told in answers for key in told["ending"]["records"]}
    assert everywhere == {key for key in range(150) if key % 7 > 2}
    for told in answers:
        assert len(told["ending"]["records"]) == len({*told["ending"]["records"]})


def test_shards_in_process_order_are_refused_on_other_meshes(answers):
    """Every process sees it, before any array is made, and the error names the processes."""
    count = len(answers)
    for told in answers:
        found = told["orders"]
        assert found["in order"] == "no error"
        order = ", ".join(str(process) for process in reversed(range(count)))
        assert f"got the order {order}" in found["reversed"]
        assert f"got the same rows in processes 0 and {count // 2};" in found["same rows"]
        assert "lk.ShardBySharding(sharding)" in found["reversed"]


def test_processes_that_load_differently_are_told_at_the_start(answers):
    """Each process gets the same error, with what each of them has."""
    last = len(answers) - 1
    others = ", ".join(map(str, range(last)))
    for told in answers:
        found = told["agreement"]
        assert f"sampler.seed: 0 on process {others}; 1 on process {last}" in found["seed"]
        assert f"sampler.seed: 0 on process {others}; 1 on process {last}" in found["processes"]
        assert f"global batch size: 16 on process {others}; 32 on process {last}" in found["batch"]
        assert f"Batch(global_batch_size=16), Map(len) on process {last}" in found["operations"]
        assert f"640 on process {others}; 641 on process {last}" in found["data"]
        assert f"stream_version: 1 on process {others}; 99 on process {last}" in found["versions"]
        assert f"on process {others}; 1.99 on process {last}" in found["versions"]
        assert found["parameters"].startswith("UserWarning")
        assert f"operations[1] scale.by: 1 on process {others}; 2 on process {last}" in found["parameters"]
        assert found["same"] == found["same again"] == "no error"
    assert answers[last]["agreement"]["alone"] == "no error"


def test_a_process_that_does_not_come_is_named(answers):
    """No process waits forever at the start."""
    last = len(answers) - 1
    for told in answers[:last]:
        text = told["absence"]
        assert (
            text.startswith("TimeoutError")
            and f"process {last} didn't answer" in text
            and "agree=False" in text
        )


def test_all_processes_end_at_the_same_step(answers):
    """With Filter and pad the processes run dry at different steps and agree on the last: each row counts once, and
    no collective waits for a process that stopped.
    """
    for told in answers:
        assert told["ends"] == answers[0]["ends"]
    for records, steps in zip((40, 97), answers[0]["ends"], strict=True):
        left = [key for key in range(records) if key % 16 < 3 or key == 39]
        assert [sum(numbers) for numbers in zip(*steps, strict=True)] == [len(left), sum(left)]
        assert len(steps) == max(sum(key % 16 == stream for key in left) for stream in range(16))


def test_processes_at_other_positions_are_told_before_the_first_batch(answers):
    """Each gets the same error, at the start and moved apart later; moved together they go on, also where one was
    moved to where it stood. One that is moved alone is told so, and what it said is no answer when all are moved later.
    """
    last = len(answers) - 1
    others = ", ".join(map(str, range(last)))
    rest = ", ".join(map(str, range(1, len(answers))))
    for told in answers:
        for name, second in (
            ("rows stay", f"index: {5 * 16} on process {others}; 0 on process {last}"),
            ("rows change", ""),
        ):
            apart, step, together, moved, sixth, seventh, *lone, eighth, ninth = told["places"][name]
            assert f"step: 5 on process {others}; 0 on process {last}" in apart and second in apart
            assert f"step: 0 on process {others}; 5 on process {last}" in moved
            assert step == (0 if told is answers[last] else 5)
            assert [together, sixth, seventh, eighth, ninth] == [True] * 5
            for (alone, silent), (heard, differ, on) in zip(((0, rest), (last, "0")), lone, strict=True):
                if told is answers[alone]:
                    text, stood = heard
                    assert text.startswith(f"TimeoutError: process {silent} didn't answer") and stood == 7
                assert differ.startswith("ValueError") and "step: " in differ and on is True


def test_leaves_that_differ_between_processes_are_found_before_the_array(answers):
    """At the first batch all are told; later the process whose leaves are new is, and makes no array of them."""
    last = len(answers) - 1
    for told in answers:
        text, received = told["leaves"]["from the start"]
        assert f"float32 (16, 5) on process {last}" in text and received == 0
        assert f"3 on process {last}" in told["leaves"]["prefetch"]
    text, received = answers[last]["leaves"]["later"]
    assert "didn't answer" in text and received == 2
