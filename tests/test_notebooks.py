"""The notebooks run from top to bottom, in an empty folder and a new kernel."""

import asyncio
import os
import shutil
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    """Every cell works as it is committed; the cells themselves assert what the text says."""
    # The kernel is a process of its own: it finds the package of this working tree, and no accelerator.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "work"
    folder.mkdir()
    client = nbclient.NotebookClient(
        nbformat.read(path, as_version=4),
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    asyncio.run(client.async_execute())
    shutil.rmtree(folder)


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
