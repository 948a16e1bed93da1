"""The parser, exit statuses, closed pipes and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loaderkit import cli

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "loaderkit"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

PROBE = """
import json, sys
from loaderkit.cli import main
try:
    main(["--help"])
except SystemExit:
    print(json.dumps(sorted(sys.modules)))
"""


def test_help_imports_nothing_heavy():
    """`loaderkit --help` imports neither numpy nor rich nor a source."""
    answer = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(answer.stdout.splitlines()[-1])}
    assert not loaded & {"numpy", "rich", "array_record", "PIL", "cv2"}
    assert all(name in answer.stdout for name in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(loaderkit, name):
    """It says what it does and its options."""
    ran = loaderkit(name, "--help")
    assert ran.status == 0
    assert ran.out.startswith(f"usage: loaderkit {name}")


def test_the_demos_option_is_read_by_the_demo_only(loaderkit, records):
    """Too few epochs are an error of usage; another command doesn't know the option."""
    assert loaderkit("demo", "--epochs", "3").status == 2
    assert loaderkit("show", records / "x-0.array_record", "--epochs", "3").status == 2
    assert loaderkit("show", records / "x-0.array_record").status == 0


def test_data_that_cant_be_read_has_its_own_status(loaderkit, tmp_path):
    """A missing file and a damaged one are named, without a traceback."""
    missing = loaderkit("show", tmp_path / "none.array_record")
    (tmp_path / "torn.array_record").write_bytes(b"torn")
    torn = loaderkit("inspect", tmp_path / "torn.array_record")
    assert (missing.status, torn.status) == (3, 3)
    assert "none.array_record" in missing.err and "torn.array_record" in torn.err
    assert "Traceback" not in missing.err + torn.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "x.tgz"],
        ["show", "a.csv", "b.tar"],
        ["show", "x.csv", "-n", "-1"],
        ["show", "x.csv", "--tsv"],
        ["show", "x.csv", "--raw", "-f", "a", "-f", "b"],
        ["show", "x.csv", "--label", "a"],
        ["show", "x.csv", "--out", "a.gif"],
        ["inspect", "x.csv", "--vocabulary", "3"],
        ["show", "-", "x.csv"],
        ["show", "x.array_record", "--storage-option", "secret"],
        ["inspect"],
    ],
    ids=" ".join,
)
def test_arguments_that_cant_be_carried_out(loaderkit, arguments):
    """One line with what was expected, and status 2; no value of a storage option is repeated."""
    ran = loaderkit(*arguments)
    assert ran.status == 2
    assert ran.err.startswith(f"loaderkit {arguments[0]}: ") and ran.err.count("\n") == 1
    assert "expected" in ran.err or "required" in ran.err
    assert "secret" not in ran.err


def test_ctrl_c_has_a_status_and_no_traceback(loaderkit, records, monkeypatch):
    """130, as of a program that died of SIGINT."""
    monkeypatch.setattr("loaderkit.cli.show.fields_of", lambda record: os.kill(os.getpid(), signal.SIGINT))
    ran = loaderkit("show", records / "x-0.array_record")
    assert ran.status == 130
    assert ran.err == "loaderkit: interrupted\n"


def test_a_closed_pipe_is_quiet(records):
    """`loaderkit show ... | head -1` prints a line and no error."""
    names = [str(records / "x-1.array_record")] * 3000
    running = subprocess.Popen(
        [*COMMAND, "show", "-n", "100000", *names],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    first = running.stdout.readline()
    running.stdout.close()
    with running.stderr as errors:
        assert errors.read() == b""
    assert running.wait() == 141
    assert first.startswith(b"0  ")
