"""Runs the scripts and prints their table.

The scripts beside this file import Grain. Each runs unchanged and with its import line changed, in turns.
A script prints the sha256 of all its batches, their number, and the seconds from making the iterator to the last
batch; the start and the imports of its process don't count.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np

HERE = Path(__file__).resolve().parent
SCRIPTS = ("images", "tokens", "guide")
THEIRS = "import grain.python as grain\n"
OURS = "import loaderkit.interop.grain as grain\n"

Result = tuple[str, int, float]  # sha256 of all batches, how many, seconds


def run(*, repeats: int, smoke: bool, say: Callable[[str], None]) -> str:
    """The table of all scripts, as Markdown."""
    if find_spec("grain") is None:
        return "grain-scripts: grain isn't installed"
    lines = [
        "## grain-scripts: the same scripts, the import line apart",
        "",
        "| script | batches | the same sha256 | Grain, s | loaderkit, s | Grain / loaderkit |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory(prefix="loaderkit-grain-scripts-") as name:
        folder = Path(name)
        data = make_data(folder, photographs=40 if smoke else 400, tokens=100_000 if smoke else 2_000_000)
        for script in SCRIPTS:
            theirs: list[Result] = []
            ours: list[Result] = []
            for number in range(1 if smoke else repeats):
                say(f"grain-scripts: {script}, round {number + 1}")
                theirs.append(run_script(script, THEIRS, folder, data))
                ours.append(run_script(script, OURS, folder, data))
            lines.append(row(script, theirs, ours))
    return "\n".join(lines)


def row(script: str, theirs: list[Result], ours: list[Result]) -> str:
    """One line of the table."""
    same = len({result[:2] for result in [*theirs, *ours]}) == 1
    seconds = [median(result[2] for result in results) for results in (theirs, ours)]
    ratio = median(a[2] / b[2] for a, b in zip(theirs, ours, strict=True))
    batches = theirs[0][1]
    return f"| {script} | {batches} | {'yes' if same else 'NO'} | {seconds[0]:.2f} | {seconds[1]:.2f} | {ratio:.2f} |"


def make_data(folder: Path, *, photographs: int, tokens: int) -> dict[str, str]:
    """Photographs and tokens to read, the same in every run."""
    from benchmarks.photographs import encoded_photographs

    pictures = folder / "photographs"
    pictures.mkdir()
    for number, encoded in enumerate(encoded_photographs(photographs)):
        (pictures / f"{number:05d}.jpg").write_bytes(encoded)
    # Words with the frequencies of a language: a few are very frequent, most are rare.
    words = np.minimum(np.random.default_rng(0).zipf(1.1, tokens), 50_000).astype(np.uint16)
    words.tofile(folder / "tokens.bin")
    return {"images": str(pictures), "tokens": str(folder / "tokens.bin"), "guide": ""}


def run_script(script: str, line: str, folder: Path, data: dict[str, str]) -> Result:
    """One run of a script in a process of its own, with this import line."""
    text = (HERE / f"{script}.py").read_text()
    assert text.count(THEIRS) == 1, f"{script}.py imports Grain in one line"
    copy = folder / f"{script}_{'theirs' if line == THEIRS else 'ours'}.py"
    copy.write_text(text.replace(THEIRS, line))
    ran = subprocess.run(
        [sys.executable, str(copy), data[script]],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1]), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    results = [line.split() for line in ran.stdout.splitlines() if line.startswith("result ")]
    if ran.returncode or not results:
        raise RuntimeError(f"{copy.name} failed:\n{ran.stderr[-2000:]}")
    _, digest, batches, seconds = results[-1]
    return digest, int(batches), float(seconds)
