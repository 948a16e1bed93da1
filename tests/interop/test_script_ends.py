"""A script that holds, to its very end, what this package made: for itself, for JAX and under Grain's names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
def test_what_is_held_to_the_very_end_goes_without_a_word():
    """By a global, a cache, a cycle, a module: the script's own exit code, and nothing on stderr."""
    ended = subprocess.run(
        [sys.executable, str(HERE / "exit_script.py")],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1]), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "", "")
