"""Orbax's managers and handlers that are given a handler of Grain's names by hand, in a program of their own."""

import subprocess
import sys

import pytest

pytest.importorskip("orbax.checkpoint", reason="needs the orbax-checkpoint package")

# The handler is made before the arguments are touched for the first time, so each runs in a fresh process.
BY_HAND = """
import sys
import orbax.checkpoint as ocp
import loaderkit as lk
import loaderkit.interop.grain as grain

def iterator(names):
    return iter(grain.load(range(10), num_epochs=1) if names == "grain" else lk.load(range(10)))

def made(names):
    return grain.PyGrainCheckpointHandler() if names == "grain" else lk.CheckpointHandler()

def arguments(names, it):
    if names == "grain":
        return grain.PyGrainCheckpointSave(it), grain.PyGrainCheckpointRestore(it)
    return lk.CheckpointSave(it), lk.CheckpointRestore(it)

for names in ("grain", "lk"):
    folder = f"{sys.argv[1]}/{names}"
    manager = ocp.CheckpointManager(folder, item_handlers={"dataset": made(names)})
    composite = ocp.Checkpointer(ocp.CompositeCheckpointHandler(dataset=made(names)))
    it = iterator(names)
    first = next(it)
    save, restore = arguments(names, it)
    manager.save(1, args=ocp.args.Composite(dataset=save))
    composite.save(folder + "-composite", args=ocp.args.Composite(dataset=save))
    manager.wait_until_finished()
    second = next(it)
    for restored in (
        lambda: manager.restore(1, args=ocp.args.Composite(dataset=restore)),
        lambda: composite.restore(folder + "-composite", args=ocp.args.Composite(dataset=restore)),
    ):
        next(it)
        restored()
        assert next(it) == second
    manager.close()
    composite.close()
    it.close()
print("restored")
"""


def test_a_handler_that_is_made_first_takes_the_arguments(tmp_path):
    """item_handlers of a manager and a composite handler, with handlers made before any arguments: save and restore."""
    ran = subprocess.run(
        [sys.executable, "-c", BY_HAND, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.stdout == "restored\n", ran.stderr
