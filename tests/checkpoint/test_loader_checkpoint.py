"""The real iterator under both of Orbax's interfaces: a restore continues with the same batches."""

import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint import v1

import loaderkit as lk


def even(element):
    return element % 2 == 0


def make_loader(records=100, batch_size=4, operations=(), **settings):
    sampler = lk.IndexSampler(records, shuffle=True, seed=3, num_epochs=2)
    operations = [*operations, lk.Batch(global_batch_size=batch_size)]
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, records, 1), sampler=sampler, operations=operations, **settings
    )


def save_stable(path, iterator):
    with ocp.CheckpointManager(path) as manager:
        manager.save(1, args=ocp.args.Composite(dataset=lk.CheckpointSave(iterator)))


def restore_stable(path, iterator, allow=()):
    with ocp.CheckpointManager(path) as manager:
        manager.restore(1, args=ocp.args.Composite(dataset=lk.CheckpointRestore(iterator, allow=allow)))


def save_newer(path, iterator):
    with v1.training.Checkpointer(path) as checkpointer:
        checkpointer.save_checkpointables(1, {"dataset": iterator})


def restore_newer(path, iterator, allow=()):
    iterator.allow = allow
    with v1.training.Checkpointer(path) as checkpointer:
        checkpointer.load_checkpointables(1, {"dataset": iterator})


SAVES = {"stable": save_stable, "newer": save_newer}
RESTORES = {"stable": restore_stable, "newer": restore_newer}


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("restore", RESTORES)
@pytest.mark.parametrize("operations", [[], [lk.Filter(even)]], ids=["all rows", "filtered"])
def test_the_rest_of_the_stream_follows(tmp_path, save, restore, operations):
    """Saved by one interface with threads, restored by either without: the same batches to the end."""
    with (
        make_loader(operations=operations, worker_count=2, worker_kind="thread") as loader,
        iter(loader) as iterator,
    ):
        for _ in range(7):
            next(iterator)
        SAVES[save](tmp_path / "run", iterator)
        rest = [batch.copy() for batch in iterator]
    with make_loader(operations=operations) as loader, iter(loader) as fresh:
        RESTORES[restore](tmp_path / "run", fresh)
        assert fresh.step == 7
        for expected, batch in zip(rest, fresh, strict=True):
            np.testing.assert_array_equal(batch, expected)


@pytest.mark.parametrize("interface", RESTORES)
def test_another_data_set_is_refused_by_name(tmp_path, interface):
    """The field and both values reach the user, whatever Orbax does on the way."""
    with make_loader() as loader, iter(loader) as iterator:
        SAVES[interface](tmp_path / "run", iterator)
    with make_loader(records=101) as loader, iter(loader) as fresh:
        with pytest.raises(lk.CheckpointMismatchError, match=r"(?s)100.*101"):
            RESTORES[interface](tmp_path / "run", fresh)
        assert fresh.step == 0


@pytest.mark.parametrize("interface", RESTORES)
def test_another_batch_size_is_allowed_by_name(tmp_path, interface):
    """Refused as it is; with `allow` the records go on where they were."""
    with make_loader() as loader, iter(loader) as iterator:
        head = [next(iterator).copy() for _ in range(5)]
        SAVES[interface](tmp_path / "run", iterator)
    with make_loader(batch_size=8) as loader, iter(loader) as fresh:
        with pytest.raises(lk.CheckpointMismatchError, match="global_batch_size"):
            RESTORES[interface](tmp_path / "run", fresh)
        RESTORES[interface](tmp_path / "run", fresh, allow={"global_batch_size"})
        assert fresh.step == 5
        tail = [batch.copy() for batch in fresh]
    with make_loader(batch_size=1) as loader, iter(loader) as singles:
        records = [int(batch[0]) for batch in singles]
    assert np.concatenate(head + tail).tolist() == records


@pytest.mark.filterwarnings("ignore:coroutine")
def test_what_orbax_calls_is_refused_with_a_path(tmp_path):
    """At the call: one that Orbax doesn't await would do nothing."""
    with iter(make_loader()) as iterator:
        for path in (tmp_path / "x", str(tmp_path / "x")):
            with pytest.raises(TypeError, match=r"it.get_state\(\) to a file, or give lk.CheckpointSave"):
                iterator.save(path)
        with pytest.raises(TypeError, match=r"it.set_state\(\) .* lk.CheckpointRestore"):
            iterator.load(str(tmp_path))
