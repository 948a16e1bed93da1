"""The scripts of .ci: run installs PyTorch only in a build for CPUs, and room knows each folder of tests."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("cpu_torch", ROOT / ".ci" / "cpu_torch.py")
cpu_torch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cpu_torch)

PLAIN = ["filelock", "sympy>=1.13.3", 'opt-einsum>=3.3; extra == "opt-einsum"']
CUDA = 'nvidia-cudnn-cu13==9.26.0.51; platform_system == "%s"'


@pytest.mark.parametrize(
    ("listed", "version"),
    [
        (
            "torch (2.15.0)\nAvailable versions: 2.15.0, 2.13.0+cpu, 2.13.0, 2.9.1+cpu\n  LATEST: 2.15.0",
            "2.13.0+cpu",
        ),
        ("torch (2.15.0)\nAvailable versions: 2.15.0rc1+cpu", "2.15.0rc1+cpu"),
        ("torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.0+cu130\n  INSTALLED: 2.13.0+cpu", None),
        ("", None),
    ],
)
def test_the_newest_version_for_cpus_is_chosen(listed, version):
    """Of the available builds; the installed one may come from elsewhere."""
    assert cpu_torch.labelled(listed) == version


def report(*requires):
    return json.dumps({"install": [{"metadata": {"name": "torch", "requires_dist": [*requires]}}]})


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (report(*PLAIN), True),
        (report(*PLAIN, CUDA % "Nowhere"), True),
        (report(*PLAIN, 'cuda-toolkit[cublas]==13.2.2; python_version > "3"'), False),
        (report(*PLAIN, "nvidia-nccl-cu13"), False),
        (report(*PLAIN, "triton~=3.9.0"), False),
        ('{"install": []}', False),
        ("not JSON", False),
        ("", False),
    ],
)
def test_a_plain_wheel_is_taken_only_where_it_asks_for_nothing_of_cuda(text, is_one):
    """On this machine; a query that fails or takes too long counts as no."""
    pytest.importorskip("pip", reason="pip reads the requirements")
    assert cpu_torch.is_for_cpus(text) is is_one


def test_a_question_that_isnt_answered_in_time_is_a_no():
    """A registry that hangs costs the limit, not the run."""
    assert cpu_torch.pip(0.0, "--version") == ""


def test_the_run_asks():
    """The script installs the build that was found, or continues without one."""
    assert "python .ci/cpu_torch.py" in (ROOT / ".ci/run").read_text()
    assert ".ci/cpu_torch.py" in (ROOT / "CONTRIBUTING.md").read_text()


# Tests of what isn't in the package, or of no single room of it.
WITHOUT_A_ROOM = {"benchmarks", "soak", "typed"}
# Rooms whose tests stand in the folder of another one.
ELSEWHERE = {"datasets", "files", "iterator", "system"}


@pytest.mark.parametrize("name", [[], [""], ["no such room"], ["*"], ["golden"]], ids=str)
def test_without_the_name_of_a_room_the_rooms_are_listed(name):
    """The rooms are the folders with tests; all but a few of them are rooms of the package."""
    asked = subprocess.run([ROOT / ".ci/room", *name], cwd="/", capture_output=True, text=True, check=False)
    assert asked.returncode == 2 and "usage: .ci/room NAME" in asked.stderr
    listed = asked.stdout.split()
    folders = {file.parent.name for file in (ROOT / "tests").glob("*/test_*.py")}
    rooms = {path.stem.removeprefix("_") for path in (ROOT / "loaderkit").iterdir()}
    assert {*listed} == folders | ELSEWHERE and folders - rooms == WITHOUT_A_ROOM and rooms > ELSEWHERE
    folders_of_rooms = {
        path.parent.name.removeprefix("_") for path in (ROOT / "loaderkit").glob("*/__init__.py")
    }
    assert folders_of_rooms <= {*listed}


@pytest.mark.parametrize("name", ["sources", "engine", "demo"])
def test_a_room_is_its_tests_and_the_examples_of_its_docstrings(name, tmp_path, monkeypatch):
    """Few examples and nothing slow, or all; other arguments are pytest's."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$HYPOTHESIS_PROFILE"; printf "%s\\n" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    monkeypatch.delenv("HYPOTHESIS_PROFILE", raising=False)
    room = next(path for path in ("loaderkit/" + name, "loaderkit/_" + name) if (ROOT / path).exists())
    pytest_alone = ["-m", "pytest", "-q", "-n", "2"]
    assert started(name, "-k", "two words") == [
        *("quick", *pytest_alone, "-k", "two words", "-m", "not slow", f"tests/{name}", room)
    ]
    assert started(name, "--all", "-x") == ["ci", *pytest_alone, "-x", f"tests/{name}", room]
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "nightly")
    assert started(name)[0] == "nightly"


def started(*arguments):
    ran = subprocess.run([ROOT / ".ci/room", *arguments], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()
