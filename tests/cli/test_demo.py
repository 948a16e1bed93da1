"""The command line, and the demo from its files to its plot."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from loaderkit.cli import main
from loaderkit.cli.demo import experiment
from loaderkit.cli.demo.experiment import Workers, train

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*arguments, code=None):
    """Run `python -m loaderkit`, or `code`, in a process of its own."""
    what = ["-c", code] if code else ["-m", "loaderkit"]
    return subprocess.run(
        [sys.executable, *what, *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_demo_resumes_exactly(at_night, tmp_path):
    """The killed and resumed training equals the uninterrupted one, in every batch and in the parameters.

    By day the README's script is killed and resumed, in tests/test_readme.py.
    """
    shown = run("demo", "--directory", tmp_path / "demo", "--epochs", "16")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    lines = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines() if line[:1] != " ")
    assert lines["SIGKILL"].startswith("after step ")
    assert re.match("from the checkpoint of step [12]00 ", lines["Resumed"])
    assert lines["Batches"].startswith("equal: sha256 of all 360 batches")
    assert lines["Parameters"].startswith("equal: sha256 ")
    assert float(lines["Accuracy"].split("%")[0]) > 90
    picture = tmp_path / "demo/curves.png"
    assert lines["Loss"] == f"curves  {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert Path(lines["Source"].split(" (")[0]) == ROOT / "loaderkit/cli/demo/train.py"


def test_a_training_that_fails_shows_the_end_of_its_errors(tmp_path):
    """The error of the child is in the parent's error, so a user needs no log."""
    with pytest.raises(RuntimeError, match=r"(?s)exit status 0, got 1.*train-\*\.array_record"):
        train(tmp_path, tmp_path / "run", Workers(0, "process"), epochs=4, title="fails", kill_at=None)


def test_the_bar_of_a_resumed_training_shows_no_loss_before_there_is_one(tmp_path, monkeypatch):
    """It begins at the step of the checkpoint."""
    lines = ['{"start": 200, "steps": 360}', '{"step": 201, "loss": 0.25, "batch": ""}']
    training = SimpleNamespace(stdout=lines, returncode=0)
    monkeypatch.setattr(experiment, "_training", lambda *_: contextlib.nullcontext(training))
    drawn = []
    monkeypatch.setattr("tqdm.tqdm.update", lambda bar, steps: drawn.append(str(bar)))
    train(tmp_path, tmp_path / "run", Workers(0, "process"), epochs=4, title="resumed", kill_at=None)
    assert [re.search(r"\d+/360", each)[0] for each in drawn] == ["200/360", "200/360"]
    assert ["loss" in each for each in drawn] == [False, True] and "loss=0.250" in drawn[1]


def test_a_directory_with_something_in_it_is_refused(tmp_path, capsys):
    """An existing run would be continued, and the comparison would be worthless."""
    (tmp_path / "notes.txt").touch()
    assert main(["demo", "--directory", str(tmp_path)]) == 2
    assert "expected a new or empty directory" in capsys.readouterr().out
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_missing_libraries_are_named_with_the_command_that_installs_them():
    """Without the demo extra the command prints the line to type, and no traceback."""
    code = """
import sys
sys.modules.update(tqdm=None, sklearn=None)  # as if they weren't installed
from loaderkit.cli import main
from loaderkit.cli.demo import experiment
from loaderkit.cli.demo.experiment import Workers, train
raise SystemExit(main(["demo"]))
"""
    shown = run(code=code)
    assert shown.returncode == 2
    line = "loaderkit demo needs scikit-learn, tqdm: pip install '.[demo]' in a clone of loaderkit"
    assert shown.stdout == f"{line}\n"
    assert shown.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--help"),
        (["nonsense"], "--help"),
        (["demo", "--epochs", "few"], "--help"),
        (["demo", "--epochs", "3"], "expected 4 or more"),
    ],
)
def test_a_wrong_command_says_what_is_known(arguments, said):
    """One line on stderr, which names --help or what is expected, and exit status 2."""
    shown = run(*arguments)
    assert shown.returncode == 2
    assert shown.stderr.startswith("loaderkit") and said in shown.stderr
    assert shown.stderr.count("\n") == 1


def test_the_version_is_the_packages():
    """`loaderkit --version` prints the one version there is."""
    from loaderkit._base.version import __version__

    assert run("--version").stdout == f"loaderkit {__version__}\n"


def test_the_digits_are_written_once_each(tmp_path):
    """Train and test files together hold every digit of scikit-learn's set exactly once."""
    from array_record.python.array_record_data_source import ArrayRecordDataSource
    from sklearn.datasets import load_digits

    from loaderkit.cli.demo.digits import write_digits

    train, test = write_digits(tmp_path)
    records = []
    for split, size in (("train", train), ("test", test)):
        with ArrayRecordDataSource(sorted(map(str, tmp_path.glob(f"{split}-*")))) as source:
            assert len(source) == size
            records += source.__getitems__(range(size))
    written = np.array([list(record) for record in records])
    expected = np.column_stack([load_digits().data, load_digits().target]).astype(int)
    assert sorted(map(tuple, written.tolist())) == sorted(map(tuple, expected.tolist()))
