"""A training on several hosts, killed and continued on other numbers of hosts: the same batches, the same losses."""

import hashlib
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from jax_run import ROOT, run
from ports import free_port

from loaderkit.cli.demo.digits import write_digits

CASE = Path(__file__).parent / "train_case.py"
STEPS = 16
LOSS_BOUND = 1e-4  # relative: what sums over devices of other processes may differ by


@pytest.fixture
def data(tmp_path):
    """Handwritten digits as ArrayRecord files."""
    (tmp_path / "data").mkdir()
    write_digits(tmp_path / "data")
    return tmp_path / "data" / "train-*"


def train(folder, data, *, processes, name, killed_at=0):
    """Steps by number, each with the digest of its global batch and its loss; and the last process's exit status."""
    port = free_port()
    told = run(
        lambda index: [CASE, index, processes, port, data, folder / "checkpoints", STEPS, killed_at],
        processes=processes,
        devices=4,
        folder=folder / name,
        path=ROOT / "docs",
        grace=0 if killed_at else 30,
    )
    if not killed_at:
        for status, _, errors in told:
            assert status == 0, errors
    # The library that connects the processes writes lines of its own there, in pieces on a busy machine.
    lines = [[json.loads(line) for line in out.splitlines() if line.startswith("{")] for _, out, _ in told]
    steps = {}
    for of_one_step in zip(*lines, strict=not killed_at):
        rows = {int(row): digest for line in of_one_step for row, digest in line["rows"].items()}
        assert sorted(rows) == list(range(64)), "each row is on a device"
        (step,) = {line["step"] for line in of_one_step}
        (loss,) = {line["loss"] for line in of_one_step}
        batch = hashlib.sha256("".join(rows[row] for row in range(64)).encode()).hexdigest()
        steps[step] = (batch, loss)
    return steps, told[-1][0]


@pytest.mark.slow
def test_a_training_goes_on_with_other_numbers_of_processes(at_night, tmp_path, data):
    """Killed at a random step, then with half the processes from the last checkpoint: all batches are one process's.

    By day loaders do so without JAX, in tests/loader/test_shards.py and test_equal_steps.py.
    """
    first, then = 4, 2
    whole, _ = train(tmp_path / "whole", data, processes=1, name="one")
    assert sorted(whole) == list(range(1, STEPS + 1))

    rng = np.random.default_rng()
    killed_at = int(rng.integers(5, STEPS - 1))
    folder = tmp_path / "changing"
    before, status = train(folder, data, processes=first, name="first", killed_at=killed_at)
    assert status == -signal.SIGKILL and max(before) <= killed_at
    after, status = train(folder, data, processes=then, name="then")
    assert status == 0
    assert sorted(after) == list(range(killed_at // 4 * 4 + 1, STEPS + 1)), f"killed at {killed_at}"

    for steps in (before, after):
        assert {step: batch for step, (batch, _) in steps.items()} == {step: whole[step][0] for step in steps}
        losses = np.array([[loss, whole[step][1]] for step, (_, loss) in steps.items()])
        np.testing.assert_allclose(losses[:, 0], losses[:, 1], rtol=LOSS_BOUND)
    assert len({batch for batch, _ in whole.values()}) == STEPS
    documents = sorted(os.listdir(folder / "checkpoints" / str(STEPS) / "dataset"))
    assert [name for name in documents if name.endswith(".json")] == [
        f"process_{index}-of-{then}.json" for index in range(then)
    ]


@pytest.mark.slow
def test_the_script_runs_as_it_is_pasted(tmp_path, data):
    """docs/train_many_hosts.py, two processes told of each other by its own arguments."""
    port = free_port()
    cluster = ["--distributed", "--coordinator", f"127.0.0.1:{port}", "--processes", 2, "--process"]
    told = run(
        lambda index: [
            ROOT / "docs/train_many_hosts.py",
            *(data, tmp_path / "run", "--steps", 20, "--worker-count", 0, *cluster, index),
        ],
        processes=2,
        devices=2,
        folder=tmp_path / "out",
    )
    assert [status for status, *_ in told] == [0, 0], told[0][2] + told[1][2]
    assert [line.partition(":")[0] for line in told[0][1].splitlines()] == ["step 10", "step 20"]
