"""How the tests build the site."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(out):
    """Runs the command, which must not warn."""
    command = [sys.executable, "-m", "docs", "build", "--out", str(out)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
