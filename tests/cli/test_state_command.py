"""`loaderkit state`: shows, compares, checks and edits documents, items, checkpoints and folders of checkpoints."""

import json
from pathlib import Path

import pytest

import loaderkit as lk


def loader_of(seed=0, **changes):
    return lk.load(range(1000), shuffle=True, seed=seed, batch_size=10, **changes)


def saved(path, steps=3, seed=0):
    with iter(loader_of(seed)) as it:
        for _ in range(steps):
            next(it)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(it.get_state())
    return path


def test_show_says_where_a_run_stands(loaderkit, tmp_path):
    """The newest of several checkpoints, each with an item of its own."""
    for step in (2, 10):
        saved(tmp_path / str(step) / "data" / "process_0-of-1.json", step)
    ran = loaderkit("state", "show", tmp_path)
    assert "  step          10\n" in ran.out
    assert "IndexSampler" in ran.out
    (document,) = loaderkit("state", "show", tmp_path / "2", "--json").documents
    assert (document["step"], document["index"], document["epoch"]) == (2, 20, 0)


def test_show_writes_lists_and_values_as_text(loaderkit, tmp_path):
    """A line for each operation, segment and stage, without JSON."""
    source, sampler = lk.mix({"web": range(500), "code": range(90)}, weights={"web": 2, "code": 1})
    operations = [lk.Map(abs), lk.Batch(8)]
    with iter(lk.DataLoader(data_source=source, sampler=sampler, operations=operations)) as it:
        next(it)
        it.reweigh({"web": 1, "code": 1})
        it.skip(3)
        (tmp_path / "m.json").write_bytes(it.get_state())
    shown = loaderkit("state", "show", tmp_path / "m.json").out
    lines = [line.strip() for line in shown.splitlines()]
    assert not set('{}[]"') & {*shown}
    assert (
        any(line.split() == ["operations", "op=Map,", "name=abs"] for line in lines) and "op=Batch" in lines
    )
    assert "8 records a step from step 1 on at index 32" in lines
    assert any("web=(kind=IndexSampler, num_records=500, shuffle=false" in line for line in lines)


def test_show_names_the_operations_of_a_state_without_their_parameters(loaderkit):
    """States of format 1 have only their kinds."""
    golden = Path(__file__).parents[1] / "golden" / "states" / "format_1_shuffled.json"
    (document,) = loaderkit("state", "show", golden, "--json").documents
    assert document["operations"] == json.loads(golden.read_text())["operations"] != []


def test_show_says_what_was_read_of_each_corpus(loaderkit, tmp_path):
    """As the iterator's sampler does, also behind other weights, and where a corpus ends."""
    corpora = {"web": range(500), "code": range(90)}
    for number, how in enumerate(
        ({}, {"num_epochs": 1, "when_exhausted": "drop"}, {"order": "shuffled", "seed": 3})
    ):
        source, sampler = lk.mix(corpora, weights={"web": 1, "code": 1}, **how)
        with iter(lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(8)])) as it:
            for _ in range(10):
                next(it)
            it.reweigh({"web": 2, "code": 1})
            for _ in range(30):
                next(it)
            path = tmp_path / f"{number}.json"
            path.write_bytes(it.get_state())
            taken = {name: each._asdict() for name, each in it.sampler.taken(it.index).items()}
        (document,) = loaderkit("state", "show", path, "--json").documents
        assert document["corpora"] == taken and len(taken) == 2
    assert "corpora" in loaderkit("state", "show", path).out


def test_diff_names_what_differs(loaderkit, tmp_path):
    one, two = saved(tmp_path / "a.json", 3), saved(tmp_path / "b.json", 5, seed=1)
    assert loaderkit("state", "diff", one, one).status == 0
    ran = loaderkit("state", "diff", one, two, "--json")
    assert ran.status == 1
    found = {each["field"]: (each["first"], each["second"]) for each in ran.documents[0]["differences"]}
    assert found["step"] == (3, 5)
    assert found["sampler.seed"] == (0, 1)


def test_verify_finds_what_was_altered_or_is_missing(loaderkit, tmp_path):
    good = saved(tmp_path / "good" / "process_0-of-1.json")
    ran = loaderkit("state", "verify", good.parent)
    assert (ran.status, "1 file of step 3: nothing is wrong" in ran.out) == (0, True)
    altered = tmp_path / "altered.json"
    altered.write_text(good.read_text().replace('"step": 3', '"step": 4'))
    ran = loaderkit("state", "verify", altered)
    assert (ran.status, "digest" in ran.out) == (1, True)
    half = saved(tmp_path / "half" / "process_1-of-2.json")
    ran = loaderkit("state", "verify", half.parent)
    assert (ran.status, "process_0-of-2.json is missing" in ran.out) == (1, True)
    saved(tmp_path / "half" / "process_0-of-2.json", steps=4)
    assert "different steps" in loaderkit("state", "verify", half.parent).out
    for process, steps in ((0, 3), (1, 4), (2, 5)):
        saved(tmp_path / "third" / f"process_{process}-of-3.json", steps)
    (tmp_path / "third" / "process_0-of-3.json").write_text("{")
    ran = loaderkit("state", "verify", tmp_path / "third")
    assert "process_1-of-3.json of step 4, process_2-of-3.json of step 5" in ran.out


def test_an_edited_state_is_where_seek_and_skip_lead(loaderkit, tmp_path):
    before, after = saved(tmp_path / "a.json"), tmp_path / "b.json"
    for option, move in (("--seek", lambda it: it.seek(77)), ("--skip", lambda it: it.skip(77))):
        assert loaderkit("state", "edit", before, option, "77", "-o", after).status == 0
        with iter(loader_of()) as moved, iter(loader_of()) as it:
            it.set_state(before.read_bytes())
            move(it)
            moved.set_state(after.read_bytes())
            assert moved.step == it.step
            assert next(moved).tolist() == next(it).tolist()
        after.unlink()


def test_what_cannot_be_edited(loaderkit, tmp_path):
    before = saved(tmp_path / "a.json")
    assert loaderkit("state", "edit", before, "--seek", "-1", "-o", tmp_path / "b.json").status == 2
    assert loaderkit("state", "edit", before, "--seek", "1", "-o", before).status == 2
    with iter(loader_of(operations=[lk.Filter(lambda x: x > 5)])) as it:
        next(it)
        (tmp_path / "rows.json").write_bytes(it.get_state())
    ran = loaderkit("state", "edit", tmp_path / "rows.json", "--seek", "1", "-o", tmp_path / "c.json")
    assert (ran.status, "logical streams" in ran.err) == (2, True)
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_path_without_a_state(loaderkit, tmp_path, name):
    (tmp_path / "empty").mkdir()
    ran = loaderkit("state", "show", tmp_path / name)
    assert (ran.status, ran.err.count("CKPT: expected")) == (2, 1)


def test_two_items_are_asked_for(loaderkit, tmp_path):
    for item in ("train", "eval"):
        saved(tmp_path / "5" / item / "process_0-of-1.json")
    ran = loaderkit("state", "show", tmp_path)
    assert (ran.status, "name one of them" in ran.err) == (2, True)


def test_a_state_of_an_orbax_checkpoint(loaderkit, tmp_path):
    ocp = pytest.importorskip("orbax.checkpoint")
    with iter(loader_of()) as it, ocp.CheckpointManager(tmp_path) as manager:
        next(it)
        manager.save(1, args=ocp.args.Composite(data=lk.CheckpointSave(it)))
        manager.wait_until_finished()
    (document,) = loaderkit("state", "show", tmp_path, "--json").documents
    assert document["step"] == 1
    assert json.dumps(document["versions"]).count("loaderkit") == 1


def test_a_file_in_the_place_of_an_action(loaderkit, tmp_path):
    """The line to write is in the error."""
    ran = loaderkit("state", tmp_path / "a.json")
    assert ran.status == 2 and f"write: loaderkit state show {tmp_path / 'a.json'};" in ran.err
