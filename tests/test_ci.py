"""The scripts of .ci: run does what the README says, nightly has every Python, room knows each folder of tests."""

import importlib.util
import json
import os
import re
import subprocess
import tomllib
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


# Each program of an environment: writes down how it was called, and ends as the test wants it.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in
*cpu_torch.py) echo "$TORCH"; [ -n "$TORCH" ] || exit 1 ;;
"log -1"*) echo 86400 ;;
log*) echo "$CHANGED"; [ "$CHANGED" != unknown ] || exit 128 ;;
"-c import sys; print"*) basename "$0" | sed s/python// ;;
*"venv "*)
  for last; do :; done
  mkdir -p "$last/bin"
  for name in pip python ruff mypy; do cp "$0" "$last/bin/$name"; done ;;
*pytest*) echo "1 passed"; case "$*" in $FAILS) exit 1 ;; esac ;;
esac
"""
TESTS = "python -m pytest -q -n 2 --dist loadfile"


@pytest.fixture
def script(tmp_path):
    """Runs a script of .ci with programs that only write down their calls; gives the calls and what it printed."""

    def run(name, *arguments, programs=("python3", "git"), torch="torch==2.0+cpu", fails="none", changed=""):
        for program in programs:
            (tmp_path / program).write_text(PROGRAM)
            (tmp_path / program).chmod(0o755)
        calls = tmp_path / "calls"
        calls.write_text("")
        (tmp_path / "folders").mkdir(exist_ok=True)
        places = {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path / "folders"),
        }
        ran = subprocess.run(
            [ROOT / ".ci" / name, *arguments],
            env={**places, "CALLS": str(calls), "TORCH": torch, "FAILS": fails, "CHANGED": changed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert os.listdir(tmp_path / "folders") == []  # it cleans up
        lines = [
            re.sub(rf"{tmp_path}/folders/[^/ ]+", "FOLDER", line) for line in calls.read_text().splitlines()
        ]
        return lines, ran

    return run


def test_the_run_is_the_readmes_line_and_then_the_tests_that_need_torch(script):
    """In an environment made by that line alone: torch is installed after its tests."""
    calls, ran = script("run")
    assert ran.returncode == 0, ran.stderr
    assert calls[:2] == ["python3 -m venv FOLDER/venv", "pip install -q -e .[test]"]
    between, after = calls[2 : calls.index(TESTS)], calls[calls.index(TESTS) + 1 :]
    assert {"ruff check .", "ruff format --check .", "mypy ", "python .ci/cpu_torch.py"} < {*between}
    assert not any("pip install" in call and "--target" not in call for call in between)
    assert after == ["python -m pip install -q torch==2.0+cpu", "python -c import torch", f"{TESTS} -m torch"]
    assert ran.stdout.splitlines()[-1] == "1 passed"
    readme = (ROOT / "README.md").read_text()
    assert (
        f"\npython3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/{TESTS}\n" in readme
    )


def test_the_site_is_built_where_pages_or_public_names_changed(script):
    """With all that the nightly run asks of it; where git can't say what changed, too."""
    of_site = "tests/site/test_site.py tests/site/test_browser.py"
    calls, _ = script("run")
    (asked,) = [call for call in calls if call.startswith("git log --first-parent")]
    assert asked.endswith("--since=@0 -- docs notebooks tests/site pyproject.toml *.md *.pyi")
    assert not any(of_site in call for call in calls)
    for changed in ("1234567", "unknown"):
        calls, ran = script("run", changed=changed)
        assert ran.returncode == 0 and calls.count(f"{TESTS} -n 0 {of_site}") == 1


def test_a_run_that_fails_ends_there(script):
    """The last line printed is the summary of the tests that failed; without torch it says so and has one run."""
    calls, ran = script("run", fails="*loadfile")
    assert ran.returncode == 1 and calls[-1] == TESTS and ran.stdout.splitlines()[-1] == "1 passed"
    calls, ran = script("run", fails="*torch")
    assert ran.returncode == 1 and calls[-1] == f"{TESTS} -m torch"
    calls, ran = script("run", torch="")
    assert ran.returncode == 0 and calls[-1] == TESTS
    assert "no CPU build of torch here: the tests that need it skip" in ran.stdout


def test_a_file_that_needs_torch_as_a_whole_has_the_mark():
    """For tests and fixtures the root conftest sees to it; a file that skips while it is collected has none of them."""
    for file in (ROOT / "tests").rglob("*.py"):
        text = file.read_text()
        if re.search(r'^\w.*importorskip\("torch', text, re.MULTILINE):
            assert re.search(r"^pytestmark = [^=]*\bpytest\.mark\.torch\b", text, re.MULTILINE), file


def test_the_nightly_run_has_each_python_twice(script):
    """The newest versions and the oldest; full counts once; what isn't there is said, what failed is the status."""
    calls, ran = script(
        "nightly", "tests/x", "-k", "a b", programs=("python3", "python3.11", "python3.13", "uv")
    )
    assert ran.returncode == 0, ran.stderr
    assert calls.count(f"{TESTS} tests/x -k a b") == 4
    compiled = [
        re.findall(r"--resolution (\S+).* -p FOLDER/(\S+)/bin", call) for call in calls if "compile" in call
    ]
    kinds = [("highest", "newest"), ("lowest-direct", "oldest")]
    assert compiled == [[(how, f"{v}-{name}")] for v in ("3.11", "3.13") for how, name in kinds]
    assert ran.stdout.splitlines()[-7:] == [
        "== the environments",
        *("3.11-newest: 1 passed", "3.11-oldest: 1 passed", "3.12: not on this machine, not tested"),
        *("3.13-newest: 1 passed", "3.13-oldest: 1 passed", "3.14: not on this machine, not tested"),
    ]
    assert re.findall(r"counts of the profile (\w+)", ran.stdout) == ["nightly", "ci", "ci", "ci"]
    assert script("nightly", fails="*loadfile")[1].returncode == 1
    calls, ran = script("nightly", "--only", "3.13-oldest", "tests/x")
    assert ran.returncode == 0 and calls.count(f"{TESTS} tests/x") == 1 and "profile ci" in ran.stdout
    assert script("nightly", "--only", "2.7-oldest")[1].returncode == 2


def test_full_counts_in_the_active_environment(script):
    """As the run at night was before: arguments are pytest's."""
    calls, ran = script("nightly", "--here", "tests/engine", programs=("python",))
    assert ran.returncode == 0 and calls == [f"{TESTS} tests/engine"]


def test_the_pythons_of_the_classifiers_are_those_of_the_nightly_run():
    """And those of the page on versions; the run tries a later one, too, where a machine has it."""
    listed = re.search(r'^PYTHONS="(.*)"$', (ROOT / ".ci/nightly").read_text(), re.MULTILINE)[1].split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert listed[: len(named)] == named and project["requires-python"] == f">={listed[0]}"
    page = (ROOT / "docs/versions.md").read_text()
    assert f"| Python | {', '.join(named[:-1])} and {named[-1]};" in page


def test_a_library_has_one_lower_bound():
    """An environment of the lowest versions can test one only, the highest of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    bounds = [
        re.split(">=", requirement) for requirement in {*listed} if not requirement.startswith("loaderkit[")
    ]
    assert len({name for name, _ in bounds}) == len(bounds)


# Tests of what isn't in the package, or of no single room of it.
WITHOUT_A_ROOM = {"benchmarks", "grammar", "site", "soak", "typed"}


@pytest.mark.parametrize("name", [[], [""], ["no such room"], ["*"], ["golden"]], ids=str)
def test_without_the_name_of_a_room_the_rooms_are_listed(name):
    """The rooms are the folders with tests; all but a few of them are rooms of the package."""
    asked = subprocess.run([ROOT / ".ci/room", *name], cwd="/", capture_output=True, text=True, check=False)
    assert asked.returncode == 2 and "usage: .ci/room NAME" in asked.stderr
    listed = asked.stdout.split()
    folders = {file.parent.name for file in (ROOT / "tests").glob("*/test_*.py")}
    rooms = {path.stem.removeprefix("_") for path in (ROOT / "loaderkit").iterdir()}
    assert {*listed} == folders and folders - rooms == WITHOUT_A_ROOM
    folders_of_rooms = {
        path.parent.name.removeprefix("_") for path in (ROOT / "loaderkit").glob("*/__init__.py")
    }
    assert folders_of_rooms <= {*listed}


@pytest.mark.parametrize("name", ["sources", "engine", "cli"])
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


ASKS = re.compile(r'[(,]\s*(?:nightly|at_night|real_clocks)\b|"(?:at_night|real_clocks|HYPOTHESIS_PROFILE)"')


def test_what_only_the_nightly_run_does_is_listed():
    """CONTRIBUTING.md names each file of tests that asks which run it is, and no other; or the folder of them."""
    _, _, section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## What only the nightly run does\n")
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([\w/.]+)`", row)}
    folders = tuple(name for name in listed if name.endswith("/"))
    tests = ROOT / "tests"
    asking = {
        str(path.relative_to(tests)) for path in tests.rglob("*.py") if ASKS.search(path.read_text())
    } - {"conftest.py", "test_ci.py"}
    assert {name for name in asking if not name.startswith(folders)} == listed - {*folders}
