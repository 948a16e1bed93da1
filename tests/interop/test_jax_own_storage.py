"""Storage of each host's own: the snippet of docs/many-hosts.md, run by several real processes."""

import json
import re
from pathlib import Path

import pytest
from jax_run import run
from ports import free_port

DOCUMENT = Path(__file__).parents[2] / "docs/many-hosts.md"
TRAINS = "first, then = train(2), train(5)"
SAVES = "        save_position(it)\n"

# At step 5 host 0 comes as far as its position and host 1 not even there; no model is saved.
IS_KILLED = """\
        if steps == 5:
            if jax.process_index() == 0:
                save_position(it)
            sync_global_devices("host 0 has its position")
            os._exit(0)
        save_position(it)
"""


def snippet():
    """The block of the document that trains."""
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if "disk-of-host-" in block]
    assert TRAINS in found and found.count(SAVES) == 1
    return found


def started(folder, name, code):
    """Two hosts that run it in that folder: (status, out, err) of each."""
    script = folder / f"{name}.py"
    script.write_text(
        "import os, sys, jax\nimport loaderkit as lk\n"
        "from jax.experimental.multihost_utils import sync_global_devices\n"
        f"os.chdir({str(folder)!r})\n"
        "jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))\n"
        f"{code}\n"
    )
    port = free_port()
    return run(
        lambda index: [script, f"127.0.0.1:{port}", index], processes=2, devices=2, folder=folder / name
    )


def rows_of(told):
    """All rows that were handed out, on both hosts."""
    lines = [line for _, out, _ in told for line in re.findall(r"rows ([\d ]+)$", out, re.MULTILINE)]
    return [row for line in lines for row in line.split()]


def positions(folder):
    """The step that each file says, by its name, on each host."""
    files = [(folder / f"disk-of-host-{index}").iterdir() for index in range(2)]
    return [{path.name: json.loads(path.read_bytes())["step"] for path in own} for own in files]


TELLS = "print('rows', *first[0], *then[0], flush=True)\njax.distributed.shutdown()"


@pytest.mark.slow
def test_positions_on_storage_of_each_host_beside_a_shared_model(tmp_path):
    """As it stands in the document: saved and restored by two hosts, each with files of its own and no other."""
    told = started(tmp_path, "whole", f"{snippet()}\n{TELLS}")
    for status, out, err in told:
        assert status == 0, f"{out}\n{err}"
    rows = rows_of(told)
    assert len(rows) == len({*rows}) == 20  # five steps of four rows: none twice, on no host
    assert positions(tmp_path) == [{"position_2.json": 2, "position_5.json": 5}] * 2


@pytest.mark.slow
def test_a_position_that_one_host_has_and_no_model(tmp_path):
    """Killed behind host 0's position 5 and before host 1's: the next run goes on from model 2 and saves at 3 and at 5,
    with a position of both hosts for every model, and the rows of a run that was never killed.
    """
    definitions = snippet().partition(TRAINS)[0]
    killed = started(
        tmp_path,
        "killed",
        f"{definitions.replace(SAVES, IS_KILLED)}\nprint('rows', *train(2)[0], flush=True)\ntrain(5)",
    )
    before = {"position_2.json": 2}
    assert positions(tmp_path) == [before | {"position_5.json": 5}, before], killed
    assert not (tmp_path / "shared/5").exists()

    told = started(tmp_path, "after", f"{definitions}\nfirst, then = train(3), train(5)\n{TELLS}")
    for status, out, err in told:
        assert status == 0, f"{out}\n{err}"
    rows = rows_of(killed) + rows_of(told)
    assert len(rows) == len({*rows}) == 20
    assert positions(tmp_path) == [before | {"position_3.json": 3, "position_5.json": 5}] * 2
    assert {path.name for path in (tmp_path / "shared").iterdir() if path.name.isdigit()} == {"2", "3", "5"}
