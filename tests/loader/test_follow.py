"""`loader.follow`, `describe`, `debug`: the same records, keys and values as the run's own."""

import numpy as np
import pytest

import loaderkit as lk


class Named:
    def __len__(self):
        return 20

    def __getitem__(self, key):
        return {"x": np.full(3, key, np.float32), "label": key}

    def name(self, key):
        return f"train[{key}]"


def noisy(record, rng):
    return {**record, "noise": rng.random()}


def loader_of(**changes):
    arguments = {
        "shuffle": True,
        "seed": 3,
        "operations": [lk.RandomMap(noisy), lk.Map(lambda record: {**record, "twice": record["x"] * 2})],
        "batch_size": 4,
    }
    return lk.load(Named(), **{**arguments, **changes})


@pytest.mark.parametrize("index", [0, 6, 19, 10**9 + 1])
def test_a_record_is_followed_to_what_the_run_gives(index):
    loader = loader_of()
    followed = loader.follow(index)
    it = iter(loader)
    it.seek(followed.step)
    batch = next(it)
    assert (followed.step, followed.row) == divmod(index, 4)
    assert followed.name == f"train[{followed.record_key}]"
    assert followed.record_key == loader.records(followed.step)[followed.row].record_key
    drawn = followed.steps[1]
    assert drawn.key == (3, 0, index, 0)
    assert drawn.values[0]["noise"] == batch["noise"][followed.row]
    assert followed.value["twice"].tobytes() == batch["twice"].tobytes()
    assert f"row {followed.row} of step {followed.step:,}" in str(followed)


@pytest.mark.parametrize("index", [0, 5, 9, 23])
def test_the_row_of_a_record_is_that_of_its_inner_batch(index):
    """A step is three rows of two records each."""
    loader = loader_of(operations=[lk.Batch(2)], batch_size=3, seed=1)
    followed = loader.follow(index)
    assert (followed.step, followed.row) == (index // 6, index % 6 // 2)
    assert followed.value["label"][followed.row, index % 2] == followed.record_key


def test_where_a_record_is_dropped_and_how_many_come_of_it():
    operations = [lk.Filter(lambda record: record["label"] % 2 == 0), lk.FlatMap(lambda record: [record] * 3)]
    loader = loader_of(shuffle=False, operations=operations)
    dropped, kept = loader.follow(3), loader.follow(4)
    assert dropped.dropped
    assert dropped.step is None
    assert dropped.steps[-1].name == "operations[0] Filter(<lambda>)"
    assert "dropped" in str(dropped)
    assert len(kept.steps[-1].values) == 3
    assert "and 2 more" in str(kept)


def test_an_error_is_told_and_not_raised():
    followed = lk.load([1, 0], operations=[lambda x: 1 // x], batch_size=2).follow(1)
    assert isinstance(followed.steps[-1].error, ZeroDivisionError)
    assert "raised ZeroDivisionError" in followed._repr_html_()
    bad_batch = lk.load([np.zeros(2), np.zeros(3)], batch_size=2).follow(0)
    assert isinstance(bad_batch.steps[-1].error, lk.errors.BatchError)


def test_an_index_that_is_not_there():
    with pytest.raises(IndexError, match=r"index: expected an int from 0 to 19, got 20"):
        loader_of(num_epochs=1).follow(20)
    with pytest.raises(IndexError):
        loader_of().follow(-1)
    for wrong in ("x", 1.0, True, None):
        with pytest.raises(TypeError, match=r"index: expected an int, got .*; the place of a record"):
            loader_of().follow(wrong)
    assert loader_of().follow(np.int64(3)).index == 3


def test_what_a_loader_does():
    said = loader_of(worker_count=2).describe()
    assert "Named: 20 records, {'x': float32(3,), 'label': int}" in str(said)
    assert "2 processes" in str(said)
    assert "'twice': float32(4, 3)" in str(said)
    assert said._repr_html_().startswith("<table>")

    class Broken(Named):
        def __getitem__(self, key):
            raise OSError("no disk")

    broken = lk.load(Broken(), batch_size=2).describe()
    assert "Broken: 20 records" in str(broken)


def test_a_description_writes_no_quarantine_and_knows_no_number_of_steps_where_rows_change(tmp_path):
    def fails_at_0(x):
        return x + 0 // x

    loader = lk.load(
        range(10),
        num_epochs=1,
        operations=[fails_at_0, lk.Filter(lambda x: x > 2)],
        batch_size=2,
        on_record_error="skip",
        quarantine=tmp_path / "bad.jsonl",
    )
    said = dict(loader.describe().rows)
    assert (said["operations[2] Batch(batch_size=2)"], said["steps"]) == ("int64(2,)", "unknown beforehand")
    assert not (tmp_path / "bad.jsonl").exists()
    assert dict(loader_of().describe().rows)["steps"] == "endless, of 4 records in all shards"


def test_a_debugger_has_the_same_stream_in_this_thread():
    import threading

    seen = set()

    def look(record):
        seen.add(threading.get_ident())
        return record["label"]

    loader = loader_of(operations=[look], worker_count=2, num_epochs=1)
    with loader.debug() as alone:
        mine = [batch.tolist() for batch in alone]
    assert seen == {threading.get_ident()}
    with loader:
        assert [batch.tolist() for batch in loader] == mine


def test_a_loader_is_described_by_a_record_that_is_not_dropped():
    loader = lk.load(range(100), operations=[lk.transforms.Filter(lambda x: x >= 5), float], batch_size=2)
    said = str(loader.describe())
    assert "dropped" not in said and "unknown" not in said
    assert "operations[1] Map(float)" in said
    nothing = lk.load(range(100), operations=[lk.transforms.Filter(lambda x: False)], num_epochs=1)
    assert "dropped" in str(nothing.describe())


def test_an_index_that_a_step_of_buckets_leaves_unused_is_refused():
    """It was said to be a row of the step, with another row's record."""
    sampler = lk.samplers.LengthBucketSampler([3, 9, 2], [4, 9], 2, shuffle=False, num_epochs=1)
    loader = lk.DataLoader(data_source=[5, 6, 7], sampler=sampler, operations=[lk.Batch(global_batch_size=2)])
    assert [loader.follow(index).record_key for index in (0, 1, 2)] == [0, 2, 1]
    with pytest.raises(IndexError, match=r"^index: expected one that its step uses, from 2 to 2, got 3$"):
        loader.follow(3)


def test_debug_writes_no_quarantine(tmp_path):
    """Its bad records aren't those of a run."""
    path = tmp_path / "bad.jsonl"
    loader = lk.load(
        [1, 0, 2], operations=[lambda x: 1 // x], num_epochs=1, on_record_error="skip", quarantine=path
    )
    assert list(loader.debug()) == [1, 0] and not path.exists()
    assert list(loader) == [1, 0] and path.exists()
