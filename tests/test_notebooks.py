"""The notebooks run from top to bottom, in an empty folder."""

import asyncio
import os
import shutil
from pathlib import Path

import nbclient
import nbformat
import pytest
from jupyter_client.manager import start_new_async_kernel

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BY_DAY = NOTEBOOKS[::4]


def scope_of_kernels(fixture_name, config):
    """A new kernel for each notebook at night; by day one, since most of the CPU went to importing JAX and others."""
    return "function" if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else "module"


@pytest.fixture(scope=scope_of_kernels)
def kernel(tmp_path_factory):
    """The event loop of a kernel, its manager and its client."""
    # The kernel is a process of its own: it finds the package of this working tree, and no accelerator.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "JAX_PLATFORMS": "cpu",
        "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython")),
    }
    with asyncio.Runner() as runner:
        manager, client = runner.run(start_new_async_kernel(kernel_name="python3", env=environment))
        yield runner, manager, client
        client.stop_channels()
        runner.run(manager.shutdown_kernel(now=True))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, nightly, kernel):
    """Every cell works as it is committed; the cells themselves assert what the text says.

    Cells with the tag "nightly" start whole trainings, or use what these printed. By day the scripts that they start
    are compiled only, since notebooks 2 to 4 took 78 s of CPU with them; test_jax_training.py and test_demo.py kill
    and resume such trainings. By day every fourth notebook runs.
    """
    if not nightly and path not in BY_DAY:
        pytest.skip("runs at night")
    notebook = nbformat.read(path, as_version=4)
    if not nightly:
        notebook.cells = [cell for cell in notebook.cells if "nightly" not in cell.metadata.get("tags", ())]
    begin = f"import os\nos.chdir({str(tmp_path)!r})\n%reset -f"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin))
    runner, manager, connected = kernel
    client = nbclient.NotebookClient(notebook, km=manager, timeout=120)
    client.kc = connected
    runner.run(client.async_execute())
    for script in tmp_path.glob("*.py"):
        compile(script.read_text(), script, "exec")
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_it_ran(path):
    """Each code cell was run once, in order, without an error: what is shown is what the code gives."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    # No warnings: a reader may copy the code. One notebook kills workers, and shows the log's lines about them.
    said = [out.text for cell in cells for out in cell.outputs if out.get("name") == "stderr"]
    assert not [
        line for line in "".join(said).splitlines() if " died with exit code -9 (SIGKILL)" not in line
    ]
