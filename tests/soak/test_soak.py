"""Five seconds of `python -m tests.soak`; long ones are run by hand, see docs/faults.md."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_short_soak_finds_nothing(tmp_path, nightly):
    """Workers and trainers are killed and stopped, positions restored: every batch is the planned one."""
    minutes, figures = (10 if nightly else 0.08), tmp_path / "figures.json"
    command = [
        sys.executable,
        "-m",
        "tests.soak",
        "--minutes",
        str(minutes),
        "--json",
        str(figures),
        "--quiet",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(figures.read_text())
    assert (found["mismatches"], found["orphans"], found["failures"]) == (0, 0, 0)
    assert found["batches"] > 0
