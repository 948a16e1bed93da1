"""Orbax's newer interface: the iterator is passed as it is; the two share their directories."""

import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint import v1
from stand_in import Counter

from loaderkit.checkpoint import CheckpointRestore, CheckpointSave
from loaderkit.errors import StateError


def model():
    return {"w": np.arange(6.0).reshape(2, 3)}


def test_the_iterator_is_a_checkpointable(tmp_path):
    """Saved and loaded in place, with the prefetch started."""
    v1.save_checkpointables(tmp_path / "one", {"pytree": model(), "dataset": Counter(4)})
    fresh = Counter()
    loaded = v1.load_checkpointables(tmp_path / "one", {"pytree": model(), "dataset": fresh})
    assert loaded["dataset"] is fresh
    assert (fresh.position, fresh.prefetching, fresh.allowed) == (4, True, ())
    np.testing.assert_array_equal(loaded["pytree"]["w"], model()["w"])


def test_an_asynchronous_save_holds_the_position_of_the_call(tmp_path):
    """The iterator may go on while the directory is still being made."""
    iterator = Counter(4)
    response = v1.save_checkpointables_async(tmp_path / "one", {"pytree": model(), "dataset": iterator})
    next(iterator)
    response.result()
    fresh = Counter()
    v1.load_checkpointables(tmp_path / "one", {"dataset": fresh})
    assert fresh.position == 4


def test_the_trainers_checkpointer(tmp_path):
    """Orbax's checkpointer for training saves in the background and loads the latest step."""
    with v1.training.Checkpointer(tmp_path / "run") as checkpointer:
        for step in (1, 2):
            checkpointer.save_checkpointables_async(
                step, {"pytree": model(), "dataset": Counter(step * 10)}
            ).result()
        fresh = Counter()
        checkpointer.load_checkpointables(checkpointer.latest.step, {"dataset": fresh})
    assert fresh.position == 20


def test_allow_is_said_on_the_iterator(tmp_path):
    """This interface passes no arguments to the iterator, so `allow` is an attribute of it."""
    v1.save_checkpointables(tmp_path / "one", {"dataset": Counter(4)})
    fresh = Counter()
    fresh.allow = {"global_batch_size"}
    v1.load_checkpointables(tmp_path / "one", {"dataset": fresh})
    assert fresh.allowed == {"global_batch_size"}


def test_a_directory_of_the_older_interface_loads_in_the_newer(tmp_path):
    """Training moves on to the newer interface without losing its place."""
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        args = ocp.args.Composite(pytree=ocp.args.StandardSave(model()), dataset=CheckpointSave(Counter(4)))
        manager.save(1, args=args)
    fresh = Counter()
    loaded = v1.load_checkpointables(tmp_path / "run/1", {"pytree": model(), "dataset": fresh})
    assert fresh.position == 4
    np.testing.assert_array_equal(loaded["pytree"]["w"], model()["w"])
    with v1.training.Checkpointer(tmp_path / "run") as checkpointer:
        fresh = Counter()
        checkpointer.load_checkpointables(1, {"dataset": fresh})
    assert fresh.position == 4


def test_a_directory_of_the_newer_interface_restores_in_the_older(tmp_path):
    """A directory of either interface restores in the other."""
    with v1.training.Checkpointer(tmp_path / "run") as checkpointer:
        checkpointer.save_checkpointables(1, {"pytree": model(), "dataset": Counter(4)})
    fresh = Counter()
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        args = ocp.args.Composite(pytree=ocp.args.StandardRestore(model()), dataset=CheckpointRestore(fresh))
        restored = manager.restore(1, args=args)
    assert fresh.position == 4
    np.testing.assert_array_equal(restored.pytree["w"], model()["w"])


def test_both_interfaces_write_the_same_bytes(tmp_path):
    """One format on disk."""
    v1.save_checkpointables(tmp_path / "new", {"dataset": Counter(4)})
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as saver:
        saver.save(tmp_path / "old", args=ocp.args.Composite(dataset=CheckpointSave(Counter(4))))
    name = "dataset/process_0-of-1.json"
    assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "old" / name).read_bytes()


def test_a_checkpoint_without_a_data_item_says_so(tmp_path):
    """The name that was asked for, or the files that were found, are in the error; nothing starts."""
    v1.save_checkpointables(tmp_path / "one", {"pytree": model()})
    fresh = Counter()
    with pytest.raises(KeyError, match="dataset"):
        v1.load_checkpointables(tmp_path / "one", {"dataset": fresh})
    with pytest.raises(StateError, match="expected data loader states named"):
        v1.load_checkpointables(tmp_path / "one", {"pytree": fresh})
    assert (fresh.position, fresh.prefetching) == (0, False)
