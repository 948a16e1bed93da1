"""Checkpoints across processes: killed while saving, read without loaderkit, several processes at once."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import orbax.checkpoint as ocp
import pytest
from ports import free_port
from stand_in import Counter

from loaderkit.checkpoint import CheckpointRestore


def start(code, *arguments, **environment):
    """Run `code` in a fresh Python that finds this project and the stand-in."""
    here = Path(__file__).parent
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{here.parents[1]}:{here}", "JAX_PLATFORMS": "cpu", **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


SAVES_AND_STALLS = """
import sys, threading
import orbax.checkpoint as ocp
from stand_in import Counter
from loaderkit.checkpoint import CheckpointHandler, CheckpointSave

class StallsBeforeCommit(CheckpointHandler):
    stalls = False
    def finalize(self, directory):
        if self.stalls:
            print("written", flush=True)  # every item lies in the temporary directory; the commit comes next
            threading.Event().wait()

handler = StallsBeforeCommit()
registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
registry.add("dataset", CheckpointSave, handler)
manager = ocp.CheckpointManager(sys.argv[1], handler_registry=registry)
iterator = Counter()
for step in (1, 2):
    for _ in range(10):
        next(iterator)
    handler.stalls = step == 2
    manager.save(step, args=ocp.args.Composite(dataset=CheckpointSave(iterator)))
    if step == 1:
        manager.wait_until_finished()
threading.Event().wait()
"""


@pytest.mark.slow
def test_killed_between_an_asynchronous_save_and_its_commit(tmp_path):
    """The uncommitted step doesn't exist for the next process: it goes on from the one before, exactly."""
    child = start(SAVES_AND_STALLS, tmp_path / "run")
    with child:
        assert child.stdout.readline() == "written\n"
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    written = list((tmp_path / "run").rglob("process_0-of-1.json"))
    assert len(written) == 2  # the crash came after the second document was on disk

    fresh = Counter()
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        assert manager.latest_step() == 1
        manager.restore(1, args=ocp.args.Composite(dataset=CheckpointRestore(fresh)))
    assert fresh.position == 10


SAVES = """
import sys
import numpy as np, orbax.checkpoint as ocp
from stand_in import Counter
from loaderkit.checkpoint import CheckpointSave

with ocp.CheckpointManager(sys.argv[1]) as manager:
    model = {"w": np.arange(3.0)}
    args = ocp.args.Composite(model=ocp.args.StandardSave(model), dataset=CheckpointSave(Counter(4)))
    manager.save(1, args=args)
"""

RESTORES_THE_MODEL = """
import sys
sys.modules["loaderkit"] = None  # as if it weren't installed
import orbax.checkpoint as ocp

with ocp.CheckpointManager(sys.argv[1]) as manager:
    print(manager.restore(1, args=ocp.args.Composite(model=ocp.args.StandardRestore())).model["w"])
"""


@pytest.mark.slow
def test_the_model_is_restored_where_loaderkit_is_not_installed(tmp_path):
    """A checkpoint with our item stays readable for evaluation and serving."""
    with start(SAVES, tmp_path / "run") as saver:
        assert saver.wait() == 0
    with start(RESTORES_THE_MODEL, tmp_path / "run") as reader:
        assert reader.stdout.read() == "[0. 1. 2.]\n"


ONE_OF_TWO = """
import sys
import jax
directory, index, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=index)
import orbax.checkpoint as ocp
from stand_in import Counter
from loaderkit.checkpoint import CheckpointRestore, CheckpointSave
from loaderkit.interop.jax import ShardByJaxProcess

with ocp.CheckpointManager(directory) as manager:
    manager.save(1, args=ocp.args.Composite(dataset=CheckpointSave(Counter(10 + index))))
    manager.wait_until_finished()
    fresh = Counter()
    manager.restore(1, args=ocp.args.Composite(dataset=CheckpointRestore(fresh)))
    print(index, fresh.position, ShardByJaxProcess().resolve(), flush=True)
jax.distributed.shutdown()
"""


@pytest.mark.slow
def test_two_jax_processes_keep_a_document_each(tmp_path):
    """Each writes and reads its own, and a lone process later reads the first."""
    port = free_port()
    with (
        start(ONE_OF_TWO, tmp_path / "run", 0, port) as first,
        start(ONE_OF_TWO, tmp_path / "run", 1, port) as second,
    ):
        told = [child.stdout.read().splitlines()[-1:] for child in (first, second)]
    shard = "ShardOptions(shard_index={}, shard_count=2, drop_remainder=False)"
    assert told == [[f"{i} {10 + i} {shard.format(i)}"] for i in (0, 1)]
    names = sorted(entry.name for entry in (tmp_path / "run/1/dataset").iterdir())
    assert [name for name in names if name.endswith(".json")] == [
        "process_0-of-2.json",
        "process_1-of-2.json",
    ]

    fresh = Counter()
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        manager.restore(1, args=ocp.args.Composite(dataset=CheckpointRestore(fresh)))
    assert fresh.position == 10


STORAGE_OF_TWO_KINDS = """
import sys
from pathlib import Path
import jax
folder, index, port = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=3, process_id=index)
import orbax.checkpoint as ocp
import loaderkit as lk

MARK = "told: "  # else it is a line of the collectives

def iterator():
    return iter(lk.DataLoader(
        data_source=range(40),
        sampler=lk.IndexSampler(40, shuffle=True, seed=1),
        operations=[lk.Batch(global_batch_size=6)],
        shard_options=lk.ShardByJaxProcess(),
    ))

def told(manager):
    it = iterator()
    try:
        manager.restore(3, args=ocp.args.Composite(dataset=lk.CheckpointRestore(it)))
    except lk.errors.StateError as error:
        return f"step {it.step}: {error}"
    return f"step {it.step}: {next(it).tolist()}"

def tried(directory, primary_host, others):
    processes = ocp.options.MultiprocessingOptions(primary_host=primary_host)
    # With storage of each process's own, Orbax's asynchronous saves make folders of steps before it is their turn.
    options = ocp.CheckpointManagerOptions(
        multiprocessing_options=processes, enable_async_checkpointing=primary_host is not None
    )
    with ocp.CheckpointManager(directory, options=options) as manager:
        it = iterator()
        for _ in range(3):
            next(it)
        manager.save(3, args=ocp.args.Composite(dataset=lk.CheckpointSave(it)))
        manager.wait_until_finished()
        names = sorted(path.name for path in directory.rglob("process_*.json"))
        print(f"{MARK}{next(it).tolist()} {names}")
        print(f"{MARK}{told(manager)}")
        for what in others:
            what(directory / "3/dataset")
            ocp.multihost.sync_global_processes("the files are as they should be")
            print(f"{MARK}{told(manager)}")

def lose_own(dataset):
    (dataset / f"process_{index}-of-3.json").rename(dataset / f"process_{(index + 1) % 3}-of-3.json")

def lose_all(dataset):
    (dataset / f"process_{(index + 1) % 3}-of-3.json").unlink()

def lose_second(dataset):
    if index == 0:
        (dataset / "process_1-of-3.json").unlink()

def lose_third(dataset):
    if index == 0:
        (dataset / "process_2-of-3.json").unlink()

tried(folder / f"of_{index}", None, [lose_own, lose_all])
tried(folder / "shared", 0, [lose_second, lose_third])
sys.stdout.flush()
jax.distributed.shutdown()
"""


@pytest.mark.slow
def test_storage_of_each_host_and_shared_storage(tmp_path):
    """With `MultiprocessingOptions(primary_host=None)` each process has a folder of its own, and its own file there is
    enough; one that isn't there is named. With a primary host the folder is shared: there a missing file of any process
    is refused by name, in every process, also in the one whose file is the only one left.
    """
    port = free_port()
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(start(STORAGE_OF_TWO_KINDS, tmp_path, i, port)) for i in range(3)]
        said = [child.stdout.read().splitlines() for child in children]
    for index, lines in enumerate(said):
        told = [line.removeprefix("told: ") for line in lines if line.startswith("told: ")]
        alone, restored, lost, empty, shared, restored_too, refused, first_left = told
        own, other = f"process_{index}-of-3.json", f"process_{(index + 1) % 3}-of-3.json"
        batch, _, names = alone.partition("] ")
        assert names == str([own]) and restored == restored_too == f"step 3: {batch}]"
        assert lost.startswith("step 0: ") and own in lost.partition(", got ")[0]
        assert "expected process_" in lost and other in lost.partition(", got ")[2]
        assert (
            empty.startswith("step 0: ")
            and f"data loader states named process_{{i}}-of-{{n}}.json, such as {own}" in empty
        )
        assert shared == f"{batch}] {[f'process_{i}-of-3.json' for i in range(3)]}"
        assert refused.startswith("step 0: ") and "expected process_1-of-3.json, " in refused
        assert first_left.startswith("step 0: ")
        assert "expected process_1-of-3.json, process_2-of-3.json, " in first_left
