"""The documents run: the README's script as a script, every other block of it and of docs/ in order."""

import ast
import doctest
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTS = re.compile(r"^```python\n([^`]*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)\)")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAPERS = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]


def blocks(document: Path, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of one language, with the line that each starts on."""
    text = document.read_text()
    found = [(text.count("\n", 0, m.start(2)) + 1, m[2]) for m in FENCE.finditer(text) if m[1] == language]
    assert found, f"{document.name} has no {language} block"
    return found


def run_block(name: str, line: int, code: str, namespace: dict[str, object]) -> None:
    if not code.startswith(">>>"):
        # Blank lines in front keep the document's own line numbers in a traceback.
        exec(compile("\n" * (line - 1) + code, name, "exec"), namespace)
        return
    case = doctest.DocTestParser().get_doctest(code, namespace, name, name, line - 1)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    output: list[str] = []
    runner.run(case, out=output.append, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, "".join(output)
    namespace.update(case.globs)


def openings(text: str) -> list[str]:
    """What each line says before its first figure, which another run doesn't have."""
    return [re.match(r"\D*", line)[0].strip() for line in text.splitlines()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_blocks_of_a_document_run_in_order(document, tmp_path, monkeypatch, object_runtime, capsys):
    """What a document shows works as it is pasted, and prints what stands below it (`text`: but for figures)."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    found, prints = blocks(document, "python"), dict(PRINTS.findall(document.read_text()))
    # The README's first block is a whole script with parts of the reader's own; it has a test of its own.
    for line, code in found[1:] if document.name == "README.md" else found:
        capsys.readouterr()
        run_block(document.name, line, code, namespace)
        printed = iter(openings(capsys.readouterr().out))
        assert all(opening in printed for opening in openings(prints.pop(code, ""))), code  # in order
    assert not prints
    namespace.clear()


OURS = re.compile(r"(lk|loaderkit)(\.\w+)+")
NEED_MORE = ("loaderkit.interop", "loaderkit.cli", "loaderkit.cli.demo")  # a library each, and programs


def calls_in(document: Path) -> list[tuple[str, ast.Call]]:
    """What stands between backticks and calls something of ours."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = []
    for span in re.findall(r"`([^`]+)`", text):
        try:
            tree = ast.parse(re.sub(r"=(?=[,)])", "=None", " ".join(span.split())), mode="eval")
        except SyntaxError:
            continue
        found += [(span, node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(span, call) for span, call in found if OURS.fullmatch(ast.unparse(call.func))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_calls_in_the_text_have_arguments_that_exist(document):
    """The tables of what to write instead aren't run; their names and arguments are there."""
    for span, call in calls_in(document):
        name = ast.unparse(call.func)
        if name.startswith(NEED_MORE):
            continue
        parameters = inspect.signature(eval(name, {"lk": lk, "loaderkit": lk})).parameters.values()
        named = {keyword.arg for keyword in call.keywords} - {None}
        known = {each.name for each in parameters}
        assert named <= known or any(each.kind is each.VAR_KEYWORD for each in parameters), span
        by_place = [
            each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        many = any(each.kind is each.VAR_POSITIONAL for each in parameters)
        assert many or len([a for a in call.args if ast.unparse(a) != "..."]) <= len(by_place), span


# The parts that the reader writes. `train_step` writes down what it got, and dies where the test says.
YOURS = """
import hashlib, json, os, signal, sys
import jax.numpy as jnp
import numpy as np
import loaderkit as lk

class Decode(lk.Map):
    def map(self, element):
        return {"x": np.frombuffer(element, np.float32), "key": int(np.frombuffer(element, np.float32)[0])}

class Augment(lk.RandomMap):
    def random_map(self, element, rng):
        return {**element, "x": element["x"] + rng.standard_normal(4, dtype=np.float32)}

checkpoint_dir = os.path.abspath("checkpoints")
params = {"w": jnp.zeros(4), "steps": jnp.zeros((), int)}
last_step, ending = int(sys.argv[1]), sys.argv[2]

def train_step(params, batch):
    steps = int(params["steps"]) + 1
    digest = hashlib.sha256(batch["x"].tobytes() + batch["key"].tobytes()).hexdigest()
    print(json.dumps([steps, len(batch["key"]), digest]), flush=True)
    if steps == last_step:
        manager.wait_until_finished()
        if ending == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit
    return {"w": params["w"] + batch["x"].mean(0), "steps": params["steps"] + 1}
"""


def run_example(folder: Path, last_step: int, ending: str) -> tuple[int, list[list[object]]]:
    _, example = blocks(ROOT / "README.md", "python")[0]
    # Steps and workers of a test, not of a training run; everything else is pasted as it stands.
    assert "worker_count=8" in example and "% 1000 == 0" in example
    example = example.replace("worker_count=8", "worker_count=2").replace("% 1000 == 0", "% 4 == 0")
    (folder / "script.py").write_text(YOURS + example)
    ran = subprocess.run(
        [sys.executable, "script.py", str(last_step), ending],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert lines, ran.stderr
    return ran.returncode, lines


@pytest.fixture
def example_folder(tmp_path):
    """A folder with the files that the example reads: 600 records in two ArrayRecord files."""
    from array_record.python.array_record_module import ArrayRecordWriter

    for part in range(2):
        writer = ArrayRecordWriter(str(tmp_path / f"train-{part}.array_record"), "group_size:1")
        for key in range(part * 300, part * 300 + 300):
            writer.write(np.array([key, 1, 2, 3], np.float32).tobytes())
        writer.close()
    return tmp_path


def test_the_example_is_killed_and_resumes_exactly(example_folder):
    """The pasted script, without a main guard: killed at step 6, it goes on from its checkpoint at step 4."""
    returncode, whole = run_example(example_folder, 9, "ends")
    assert (returncode, [step for step, *_ in whole]) == (0, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert {rows for _, rows, _ in whole} == {256}
    os.rename(example_folder / "checkpoints", example_folder / "checkpoints-of-the-whole-run")

    returncode, before = run_example(example_folder, 6, "killed")
    assert (returncode, before) == (-9, whole[:6])
    returncode, after = run_example(example_folder, 9, "ends")
    assert (returncode, after) == (0, whole[4:])


def test_what_is_to_be_installed_is_an_extra_of_the_project():
    """On every page, in every notebook and error; the README's list has them all. Nothing is published yet."""
    extras = {*tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]}
    files = [*DOCUMENTS, *PAPERS, *(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "loaderkit").rglob("*.py")]
    for file in files:
        text = file.read_text()
        named = re.findall(r"'\.\[([\w,]+)\]'", text) + re.findall(r'missing_library\([^)]*, "(\w+)"\)', text)
        assert {*",".join(named).split(",")} - {""} <= extras, file
        assert file.name == "CHANGELOG.md" or "loaderkit[" not in text, f"{file} installs from a registry"
    assert {
        extra for extra in extras if f"pip install '.[{extra}]'" not in (ROOT / "README.md").read_text()
    } == {*("demo", "test", "bench", "peers", "notebooks")}


def test_the_commands_are_those_of_the_project():
    """Each command sets up all it needs: an environment, an extra and an entry point that exist."""
    demo, tests, *_ = (code.strip() for _, code in blocks(ROOT / "README.md", "bash"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for command, extra in ((demo, "demo"), (tests, "test")):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
        assert f".[{extra}]" in command and extra in project["optional-dependencies"]
    assert demo.endswith(".venv/bin/loaderkit demo")
    assert project["scripts"] == {"loaderkit": "loaderkit.cli:main"}
    assert tests.endswith("python -m pytest -q -n 2 --dist loadfile")
    assert "python -m pytest -q -n 2 --dist loadfile" in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize("document", [*DOCUMENTS, *PAPERS], ids=lambda path: path.name)
def test_links_lead_to_files_of_the_project(document):
    """A document names only files that are there."""
    targets = [target for target in LINK.findall(document.read_text()) if "://" not in target]
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing


def test_the_picture_is_the_committed_one():
    """The picture is a plain SVG that stands alone: no script, no font or image from elsewhere."""
    picture = (ROOT / "docs/how-it-works.svg").read_text()
    assert picture.startswith("<svg") and "<title" in picture
    assert not re.search(r"<script|href=|url\(http|@import", picture)
