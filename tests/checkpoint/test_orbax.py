"""Orbax's stable interface: managers and checkpointers, with every way to name the handler."""

import asyncio
import json
import threading
from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp
import pytest
from stand_in import Counter

from loaderkit.checkpoint import CheckpointHandler, CheckpointRestore, CheckpointSave
from loaderkit.errors import StateError


def model():
    return {"w": np.arange(6.0).reshape(2, 3)}


def save_args(iterator):
    return ocp.args.Composite(model=ocp.args.StandardSave(model()), dataset=CheckpointSave(iterator))


def restore_args(iterator):
    return ocp.args.Composite(model=ocp.args.StandardRestore(model()), dataset=CheckpointRestore(iterator))


def registry():
    handlers = ocp.handlers.DefaultCheckpointHandlerRegistry()
    handler = CheckpointHandler()
    handlers.add("dataset", CheckpointSave, handler)
    handlers.add("dataset", CheckpointRestore, handler)
    return handlers


MANAGERS = {
    "asynchronous": ocp.CheckpointManager,
    "synchronous": lambda path: ocp.CheckpointManager(
        path, options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    ),
    "item_handlers": lambda path: ocp.CheckpointManager(
        path, item_handlers={"model": ocp.StandardCheckpointHandler(), "dataset": CheckpointHandler()}
    ),
    "item_names": lambda path: ocp.CheckpointManager(path, item_names=("model", "dataset")),
    "handler_registry": lambda path: ocp.CheckpointManager(path, handler_registry=registry()),
}


@pytest.mark.parametrize("kind", MANAGERS)
def test_a_manager_restores_the_position_of_the_save(tmp_path, kind):
    """Beside the model, however the manager was told the handler; the iterator goes on while Orbax writes."""
    iterator = Counter(10)
    with MANAGERS[kind](tmp_path / "run") as manager:
        manager.save(3, args=save_args(iterator))
        next(iterator)
    with MANAGERS[kind](tmp_path / "run") as manager:
        fresh = Counter()
        restored = manager.restore(3, args=restore_args(fresh))
    assert restored.dataset is fresh
    assert (fresh.position, fresh.prefetching) == (10, True)
    np.testing.assert_array_equal(restored.model["w"], model()["w"])


def test_a_manager_of_a_single_item(tmp_path):
    """Without Composite the position is the checkpoint."""
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(1, args=CheckpointSave(Counter(4)))
        manager.wait_until_finished()
        fresh = Counter()
        assert manager.restore(1, args=CheckpointRestore(fresh)) is fresh
    assert fresh.position == 4


@pytest.mark.parametrize("checkpointer", [ocp.Checkpointer, ocp.AsyncCheckpointer])
@pytest.mark.parametrize("style", ["args", "item"])
def test_a_checkpointer(tmp_path, checkpointer, style):
    """Both kinds of checkpointer, with our arguments or Orbax's older way of giving the item itself."""
    fresh = Counter()
    with checkpointer(CheckpointHandler()) as saver:
        if style == "args":
            saver.save(tmp_path / "one", args=CheckpointSave(Counter(4)))
        else:
            saver.save(tmp_path / "one", Counter(4))
    with checkpointer(CheckpointHandler()) as loader:
        if style == "args":
            loader.restore(tmp_path / "one", args=CheckpointRestore(fresh))
        else:
            loader.restore(tmp_path / "one", fresh)
    assert fresh.position == 4


@pytest.mark.parametrize("checkpointer", [ocp.Checkpointer, ocp.AsyncCheckpointer])
def test_a_checkpointer_with_a_composite_handler(tmp_path, checkpointer):
    """The handler is found by its arguments inside Composite."""
    with checkpointer(ocp.CompositeCheckpointHandler()) as saver:
        saver.save(tmp_path / "one", args=save_args(Counter(4)))
    fresh = Counter()
    with checkpointer(ocp.CompositeCheckpointHandler()) as loader:
        loader.restore(tmp_path / "one", args=restore_args(fresh))
    assert fresh.position == 4


def test_the_document_is_indented_json_beside_the_model(tmp_path):
    """A person can open the checkpoint and read where the data was."""
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(3, args=save_args(Counter(10)))
    assert (tmp_path / "run/3/dataset/process_0-of-1.json").read_text() == '{\n    "position": 10\n}'


def test_save_interval_steps_keeps_each_saved_position(tmp_path):
    """Steps that the manager skips write nothing, and each kept step has its own position."""
    options = ocp.CheckpointManagerOptions(save_interval_steps=3, max_to_keep=2)
    iterator = Counter()
    with ocp.CheckpointManager(tmp_path / "run", options=options) as manager:
        for step, _ in zip(range(1, 11), iterator):
            manager.save(step, args=ocp.args.Composite(dataset=CheckpointSave(iterator)))
        manager.wait_until_finished()
        assert manager.all_steps() == [6, 9]
        for step in (6, 9):
            fresh = Counter()
            manager.restore(step, args=ocp.args.Composite(dataset=CheckpointRestore(fresh)))
            assert fresh.position == step


def test_the_state_is_taken_on_the_calling_thread(tmp_path):
    """Training may continue as soon as `save` returns: the written state is that of the call."""
    iterator = Counter(4)
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(1, args=save_args(iterator))
    assert iterator.state_thread == threading.get_ident()


def test_a_directory_that_is_made_later_is_waited_for(tmp_path):
    """If each host has its own storage, Orbax's signals may be about another process's directory."""
    written, made = [], threading.Event()

    class Waited:
        """A directory that appears later."""

        looks = 0

        def __str__(self):
            return str(tmp_path / "later")

        def exists(self):
            Waited.looks += 1
            if Waited.looks == 2:
                (tmp_path / "later").mkdir()
                made.set()
            return made.is_set()

        def __truediv__(self, name):
            written.append((name, made.is_set()))
            return tmp_path / "later" / name

        def __fspath__(self):
            return str(self)

    (future,) = asyncio.run(CheckpointHandler().async_save(Waited(), Counter(3)))
    future.result(timeout=60)
    assert written and all(was_made for _, was_made in written)
    assert json.loads((tmp_path / "later/process_0-of-1.json").read_text()) == {"position": 3}


def test_restoring_without_arguments_gives_the_state(tmp_path):
    """Without an iterator the restore gives the saved state, for `set_state`."""
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(1, args=save_args(Counter(4)))
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        restored = manager.restore(1)
    fresh = Counter()
    fresh.set_state(restored.dataset)
    assert fresh.position == 4
    with ocp.Checkpointer(CheckpointHandler()) as loader:
        assert json.loads(loader.restore(tmp_path / "run/1/dataset")) == {"position": 4}


def test_allow_reaches_the_iterator(tmp_path):
    """`allow` is an argument of the restore."""
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(1, args=CheckpointSave(Counter(4)))
        manager.wait_until_finished()
        fresh = Counter()
        manager.restore(1, args=CheckpointRestore(fresh, allow={"global_batch_size"}))
    assert fresh.allowed == {"global_batch_size"}


def test_the_model_alone_is_restored(tmp_path):
    """Evaluation leaves the data item where it is."""
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(1, args=save_args(Counter(4)))
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        restored = manager.restore(1, args=ocp.args.Composite(model=ocp.args.StandardRestore(model())))
    np.testing.assert_array_equal(restored.model["w"], model()["w"])


def test_a_checkpoint_without_a_data_item_says_so(tmp_path):
    """Orbax names the items that exist, we name a directory with other content. No prefetch starts."""
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.save(1, args=ocp.args.Composite(model=ocp.args.StandardSave(model())))
    fresh = Counter()
    with (
        ocp.CheckpointManager(tmp_path / "run") as manager,
        pytest.raises(KeyError, match=r'"dataset".*model'),
    ):
        manager.restore(1, args=restore_args(fresh))
    with (
        ocp.Checkpointer(CheckpointHandler()) as loader,
        pytest.raises(StateError, match="expected data loader states named"),
    ):
        loader.restore(tmp_path / "run/1/model", args=CheckpointRestore(fresh))
    assert (fresh.position, fresh.prefetching) == (0, False)


class Loader:
    def __iter__(self):
        return Counter()


@pytest.mark.parametrize("make", [CheckpointSave, CheckpointRestore])
def test_a_loader_in_place_of_its_iterator_is_refused_at_once(make):
    """A common mistake: the iterator has a position, the loader doesn't."""
    with pytest.raises(
        TypeError, match=rf"{make.__name__}: expected the iterator of a loader, got Loader.*iter\(loader\)"
    ):
        make(Loader())


def test_nothing_to_save_is_an_error(tmp_path):
    """A handler called without an item doesn't write an empty checkpoint."""
    with pytest.raises(TypeError, match="args: expected CheckpointSave"):
        CheckpointHandler().save(tmp_path)
    assert list(Path(tmp_path).iterdir()) == []
