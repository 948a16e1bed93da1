"""The documents run: the README's script as a script, the blocks of each page of docs/ in order."""

import ast
import doctest
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import loaderkit as lk

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTS = re.compile(r"^```python\n([^`]*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
PAGES = sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs/README.md"})
DOCUMENTS = [ROOT / "README.md", *PAGES]
PAPERS = [
    ROOT / name
    for name in ("docs/README.md", "benchmarks/README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
]


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


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_the_blocks_of_a_document_run_in_order(
    document, tmp_path, monkeypatch, object_runtime, nightly, capsys
):
    """What a document shows works as it is pasted, and prints what stands below it (`text`: but for figures).

    What was measured is compared at night alone: beside other tests a machine has other limits.
    """
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    found, prints = blocks(document, "python"), dict(PRINTS.findall(document.read_text()))
    for line, code in found:
        capsys.readouterr()
        run_block(document.name, line, code, namespace)
        printed, shown = capsys.readouterr().out, prints.pop(code, "")
        if nightly or " records/s" not in shown:
            opened = iter(openings(printed))
            assert all(opening in opened for opening in openings(shown)), printed  # in order
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


# What the test puts into the README's script: it writes down what the script got, and dies where the test says.
WATCHED = """
import hashlib, os, signal, sys

last_step, ending = int(sys.argv[1]), sys.argv[2]

def watch(step, batch):
    digest = hashlib.sha256(batch["x"].tobytes() + batch["y"].tobytes()).hexdigest()
    print(step, len(batch["y"]), digest, flush=True)
    if step == last_step:
        manager.wait_until_finished()
        if ending == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit
"""


def run_example(folder: Path, last_step: int, ending: str) -> tuple[int, list[str]]:
    ((_, example),) = blocks(ROOT / "README.md", "python")
    # Steps of a test, not of a training run; everything else is pasted as it stands.
    step, saves = "        params = train_step(params, batch)\n", "it.step % 100 == 0"
    assert step in example and saves in example
    example = example.replace(step, f"        watch(it.step, batch)\n{step}").replace(
        saves, "it.step % 4 == 0"
    )
    (folder / "script.py").write_text(WATCHED + example)
    ran = subprocess.run(
        [sys.executable, "script.py", str(last_step), ending],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.stdout, ran.stderr
    return ran.returncode, ran.stdout.splitlines()


def test_the_example_is_killed_and_resumes_exactly(tmp_path):
    """The pasted script, without a main guard: killed at step 6, it goes on from its checkpoint at step 4.

    Batches and what it prints of the parameters are those of a run without the kill.
    """
    returncode, whole = run_example(tmp_path, 9, "ends")
    steps = [int(line.split()[0]) for line in whole]
    assert (returncode, steps) == (0, [1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9])
    assert [line.split()[1] for line in whole].count("256") == 9
    os.rename(tmp_path / "checkpoints", tmp_path / "checkpoints-of-the-whole-run")

    returncode, before = run_example(tmp_path, 6, "killed")
    assert (returncode, before) == (-9, whole[:7])
    returncode, after = run_example(tmp_path, 9, "ends")
    assert (returncode, after) == (0, whole[5:])


PROJECT_FILE = (ROOT / "pyproject.toml").read_text()


def extras_in(text: str) -> set[str]:
    """The extras in a project file, or in its beginning."""
    return {*tomllib.loads(text)["project"]["optional-dependencies"]}


def test_what_is_to_be_installed_is_an_extra_of_the_project():
    """On every page, in every notebook and error. Nothing is published yet."""
    extras = extras_in(PROJECT_FILE)
    files = [*DOCUMENTS, *PAPERS, *(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "loaderkit").rglob("*.py")]
    for file in files:
        text = file.read_text()
        named = re.findall(r"'\.\[([\w,]+)\]'", text) + re.findall(r'missing_library\([^)]*, "(\w+)"\)', text)
        assert {*",".join(named).split(",")} - {""} <= extras, file
        assert file.name == "CHANGELOG.md" or "loaderkit[" not in text, f"{file} installs from a registry"


def test_the_start_pages_table_has_the_extras_above_the_line_in_pyproject():
    """Once each; those below the line are for programs, tests and measurements of this repository."""
    above, line, _ = PROJECT_FILE.partition("# --- not in the table of docs/start.md")
    rows = re.findall(
        r"^\| `pip install '\.\[(\w+)\]'` \|", (ROOT / "docs/start.md").read_text(), re.MULTILINE
    )
    assert line and sorted(rows) == sorted(extras_in(above))


def test_the_start_pages_commands_are_the_readmes():
    """Which the tests of CI and of the demo compare with what is run."""
    of_readme, of_start = (
        [code for _, code in blocks(ROOT / name, "bash")] for name in ("README.md", "docs/start.md")
    )
    assert of_start == of_readme[:2]


def test_the_commands_are_those_of_the_project():
    """Each command sets up all it needs: an environment, an extra and an entry point that exist."""
    _, demo, tests = (code.strip() for _, code in blocks(ROOT / "README.md", "bash"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for command, extra in ((demo, "demo"), (tests, "test")):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
        assert f".[{extra}]" in command and extra in project["optional-dependencies"]
    assert demo.endswith(".venv/bin/loaderkit demo")
    assert project["scripts"] == {"loaderkit": "loaderkit.cli:main"}
    assert tests.endswith("python -m pytest -q -n 2 --dist loadfile")
    assert "python -m pytest -q -n 2 --dist loadfile" in (ROOT / "CONTRIBUTING.md").read_text()


def headings(document: Path) -> set[str]:
    """Of a document, as links name them: small letters, digits and hyphens."""
    lines = FENCE.sub("", document.read_text()).splitlines()
    titles = [line.lstrip("# ").lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, *PAPERS], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_links_lead_to_what_is_there(document):
    """A document names only files that the project has, and headings that they have."""
    missing = []
    for path, heading in LINK.findall(document.read_text()):
        target = document.parent / path if path else document
        if "://" not in path and not (target.exists() and (not heading or heading in headings(target))):
            missing.append(f"{path}#{heading}")
    assert missing == []


MOVING = ["What stays", "What to write instead", "What isn't there"]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("moving-from-*.md")), ids=lambda path: path.stem)
def test_a_page_on_moving_has_the_shape_of_the_others(page):
    """First what stays, a table of what to write instead, and last what isn't there."""
    found = re.findall(r"^## (.*)\n([^#]*)", page.read_text(), re.MULTILINE)
    assert (
        [title for title, _ in found if title in MOVING] == MOVING == [found[0][0], MOVING[1], found[-1][0]]
    )
    assert "\n|---|---|\n" in dict(found)[MOVING[1]]


def test_the_picture_is_the_committed_one():
    """The picture is a plain SVG that stands alone: no script, no font or image from elsewhere."""
    picture = (ROOT / "docs/how-it-works.svg").read_text()
    assert picture.startswith("<svg") and "<title" in picture
    assert not re.search(r"<script|href=|url\(http|@import", picture)
