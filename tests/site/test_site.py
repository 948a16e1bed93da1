"""The site: each public name is in the reference once, generated pages say what the code has, search finds pages."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("griffe", reason="the extra docs isn't installed")
pytest.importorskip("sphinx", reason="the extra docs isn't installed")

from questions import QUESTIONS

import loaderkit as lk
from docs.site import command_pages, format_pages, names, pages, search_index
from docs.site.reference import Reference
from loaderkit.cli import COMMANDS
from loaderkit.formats.built_in import FORMATS

ROOT = Path(__file__).parents[2]
HEAD = re.compile(r"^`{5,}\{py:(?:class|exception|function|data)\} ([\w.]+)", re.MULTILINE)
ANSWERS = [(question, answers.split()) for question, answers in QUESTIONS.items()]


@pytest.fixture(scope="module")
def reference():
    """The text of the reference's pages, by their places."""
    return Reference().pages()


def test_each_public_name_is_in_the_reference_once(reference):
    """Under the shortest path by which a user writes it, whatever other modules list it."""
    shown = [name for text in reference.values() for name in HEAD.findall(text)]
    assert len(shown) == len({*shown})
    paths = {path: each.shown for each in names.public_names() for path in (each.shown, *each.others)}
    assert {*paths.values()} == {*shown}
    listed = [f"{module}.{name}" for module in names.modules() for name in names.names_of(module)]
    assert [path for path in listed if path not in paths] == []
    modules = {name for name in dir(lk) if f"loaderkit.{name}" not in paths and not name.startswith("_")}
    assert modules == {
        *("decode", "errors", "features", "formats", "interop"),
        *("offline", "samplers", "sources", "testing", "transforms"),
    }


def test_a_name_has_its_arguments_and_its_example(reference):
    """Signature with types that can be followed, arguments and doctest, as the docstring has them."""
    (text,) = [text for text in reference.values() if "{py:class} loaderkit.DataLoader(" in text]
    head = re.search(r"\{py:class\} loaderkit\.DataLoader\((.*)\)$", text, re.MULTILINE)[1]
    assert "data_source: loaderkit.sources.RandomAccessDataSource[typing.Any]" in head
    assert ":param worker_count: 0 works in the calling thread" in text
    assert "```python\n>>> import loaderkit as lk\n>>> loader = lk.DataLoader(" in text


def test_formats_and_commands_have_a_page_each():
    """Of the registry and of the parsers: what they know stands on the pages."""
    made = format_pages.pages()
    assert len(made) == len(FORMATS)
    for each in FORMATS:
        page = made[f"formats/{each.name.replace('.', '-')}.md"]
        assert all(f"`.{extension}`" in page for extension in each.extensions)
        assert ("loaderkit.write" in page) == (each.writer is not None)
    commands = command_pages.pages()
    assert [*commands] == [f"commands/{name}.md" for name in COMMANDS]
    assert "| `--quantiles N` | parts of equal size (default: 4) |" in commands["commands/inspect.md"]


def test_the_examples_of_formats_that_are_written_run(tmp_path, monkeypatch):
    """`records` is the reader's; here it is one that the format takes."""
    made = format_pages.pages()
    for each in FORMATS:
        (example,) = re.findall(
            r"```python\n(.*?)```", made[f"formats/{each.name.replace('.', '-')}.md"], re.DOTALL
        )
        folder = tmp_path / each.name
        folder.mkdir()
        monkeypatch.chdir(folder)
        if each.writer:
            record = {"cls": 1} if each.name == "webdataset" else {"tokens": np.arange(3)}
            exec(example, found := {"records": [record]})
            assert len(found["source"]) == 1


def test_the_examples_of_the_build_run():
    """They stand in docs/, which the test command doesn't collect."""
    for module in (names, pages, search_index):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed


def test_all_documents_are_in_the_site():
    """A page that the order doesn't name would be lost."""
    listed = {*pages.sources()}
    documents = {*(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")}
    assert {str(path.relative_to(ROOT)) for path in documents} - listed == set()


def test_the_first_page_is_start_and_names_pages_by_their_titles():
    """Its name in the repository says nothing to a reader of the site."""
    files = pages.written({"data.md": ("Formats", {"formats/tar.md": "# tar"})})
    assert files["index.md"].startswith("# Start") and "start.md" not in files
    assert "[](guide.md#saving-and-restoring)" in files["index.md"]
    assert "## Formats\n\n```{toctree}\n:titlesonly:\n\nformats/tar.md" in files["data.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory, nightly):
    """The folder of the built site: a minute of work, for the nightly run."""
    if not nightly:
        pytest.skip("the site is built in the nightly run")
    out = tmp_path_factory.mktemp("site") / "site"
    build(out)
    return out


def build(out):
    """Runs the command, which must not warn."""
    command = [sys.executable, "-m", "docs", "build", "--out", str(out)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


def test_the_site_needs_no_network_and_is_small(site):
    """No script, style, font or picture comes from elsewhere, and all is at most 30 MB."""
    files = [path for path in site.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 30e6
    elsewhere = re.compile(
        r"<(script|img|iframe)[^>]*\ssrc=.?https?:|<link[^>]*stylesheet[^>]*href=.?https?:"
    )
    assert [path for path in files if path.suffix == ".html" and elsewhere.search(path.read_text())] == []
    styles = [path for path in files if path.suffix == ".css"]
    assert [path for path in styles if re.search(r"(url\(|@import\s)['\"]?https?:", path.read_text())] == []
    assert (site / "objects.inv").exists()


def test_users_questions_find_the_right_page_among_the_first_three(site):
    """By the scripts and the index that the search page loads."""
    racer = pytest.importorskip("py_mini_racer", reason="the extra docs isn't installed")
    engine = racer.MiniRacer()
    engine.eval("var window = {}")
    engine.eval((site / "_static/language_data.js").read_text() + ";var Stemmer = window.Stemmer")
    scripts = (site / "_static/searchtools.js", site / "searchindex.js")
    engine.eval("\n".join(path.read_text() for path in scripts) + ";var rank = Search.rank")
    missed = {}
    for question, answers in ANSWERS:
        found = json.loads(engine.eval(f"JSON.stringify(rank({json.dumps(question)}).slice(0, 3))"))
        first = [each["url"].partition(".html")[0] for each in found]
        if not {*first} & {*answers}:
            missed[question] = first
    assert missed == {}


def test_a_second_build_writes_the_pages_that_changed(site):
    """One that is gone since the first is in no list of pages, which would be a warning."""
    read = site.with_name("site-pages")
    (read / "guide.md").unlink()
    (read / "renamed.md").write_text("# A page of an earlier build\n")
    before = {page: (site / page).stat().st_mtime_ns for page in ("guide.html", "faults.html")}
    build(site)
    assert [page for page, time in before.items() if (site / page).stat().st_mtime_ns > time] == [
        "guide.html"
    ]
