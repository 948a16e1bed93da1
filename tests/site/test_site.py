"""The site: each public name is in the reference once, generated pages say what the code has, search finds pages."""

import doctest
import json
import re
import tempfile
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

pytest.importorskip("griffe", reason="the extra docs isn't installed")
pytest.importorskip("sphinx", reason="the extra docs isn't installed")

from building import build
from questions import QUESTIONS

import loaderkit as lk
from docs.site import command_output, command_pages, format_pages, names, navigation, pages, search_index
from docs.site.reference import Reference
from loaderkit.cli import COMMANDS
from loaderkit.formats.built_in import FORMATS

ROOT = Path(__file__).parents[2]
HEAD = re.compile(r"^`{5,}\{py:(?:class|exception|function|data|type)\} ([\w.]+)", re.MULTILINE)
TYPES = "reference/types.md"  # the names that have no public path
ANSWERS = [(question, answers.split()) for question, answers in QUESTIONS.items()]


@pytest.fixture(scope="module")
def commands():
    """The text of the commands' pages, by their places."""
    return command_pages.pages()


@pytest.fixture(scope="module")
def reference():
    """The text of the reference's pages, by their places."""
    return Reference().pages()


def test_each_public_name_is_in_the_reference_once(reference):
    """Under the shortest path by which a user writes it, whatever other modules list it."""
    shown = [name for page, text in reference.items() if page != TYPES for name in HEAD.findall(text)]
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


def test_a_signature_has_no_name_that_says_nothing(reference):
    """A short alias is what it stands for; another type of ours that isn't public stands on a page of its own, once."""
    (samplers,) = [text for text in reference.values() if "{py:class} loaderkit.IndexSampler(" in text]
    assert (
        "{py:method} record_keys(indices: numpy.typing.ArrayLike) -> numpy.typing.NDArray[numpy.int64]"
        in samplers
    )
    assert "shard_options: Sharding | None = None" in samplers
    types = HEAD.findall(reference[TYPES])
    assert {"Sharding", "StagedWeights", "Stats"} <= {*types}
    assert [name for name, times in Counter(types).items() if times > 1 or "." in name] == []
    everything = "\n".join(reference.values())
    assert not re.search(
        r"InitVar|Int64Array|= _[A-Z]|cast\(", "\n".join(re.findall(r"`\{py:.*", everything))
    )


def test_each_name_has_the_release_that_came_with_it():
    """All that `released.txt` lists is public; a name that it lacks is in no release, and the changelog is of such."""
    since = names.released()
    assert {*since} <= {each.shown for each in names.public_names()}
    releases = re.findall(r"^## (\d[\d.]*) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert {*since.values()} <= {*releases}
    new = [each.shown for each in names.public_names() if each.since is None]
    assert not new or pages.unreleased(), f"docs/site/released.txt lacks names of {releases[0]}: {new}"


# Arguments of which the one line of a docstring says all, and those that Keras and Orbax name.
OBVIOUS = {"element", "elements", "leaf", "index", "rng", "logs", "epoch", "batch", "directory"}


def test_arguments_are_described(reference):
    """Each argument of a public class, function or method, with what it may be; also where the names are Grain's."""
    silent = []
    for page in reference.keys() - {TYPES}:
        # A name's head, and its own text up to the head of the next name.
        blocks = re.split(r"^`{5,6}\{py:\w+\} (.*)\n", reference[page], flags=re.MULTILINE)
        for head, below in zip(blocks[1::2], blocks[2::2]):
            taken = {*re.findall(r"(?:\(|, )\**(\w+): ", head)} - OBVIOUS
            if left := taken - {*re.findall(r"^:(?:param|ivar) (\w+):", below, re.MULTILINE)}:
                silent.append((head.partition("(")[0], *sorted(left)))
    assert silent == []


def test_formats_and_commands_have_a_page_each(commands):
    """Of the registry and of the parsers: what they know stands on the pages."""
    made = format_pages.pages()
    assert len(made) == len(FORMATS)
    for each in FORMATS:
        page = made[f"formats/{each.name.replace('.', '-')}.md"]
        assert all(f"`.{extension}`" in page for extension in each.extensions)
        assert ("loaderkit.write" in page) == (each.writer is not None)
    assert [*commands] == [f"commands/{name}.md" for name in COMMANDS]
    assert "| `--quantiles N` | parts of equal size (default: 4) |" in commands["commands/inspect.md"]


def test_what_commands_print_is_the_same_anywhere(commands):
    """Each but those that say what this machine is like; no path, no digest and no time is in it."""
    assert {*COMMANDS} - {*command_output.LINES} == {"doctor", "demo"}
    assert command_pages.pages() == commands
    for name in command_output.LINES:
        page = commands[f"commands/{name}.md"]
        assert page.count("\n$ loaderkit ") == len(command_output.LINES[name])
        assert tempfile.gettempdir() not in page and str(ROOT) not in page
        assert not re.search(r"\d:\d\d|[0-9a-f]{16}|\b\d+ m?s\b|Error|warning: ", page)


@pytest.mark.parametrize("line", ["show gone.tar", "show people.jsonl --of-yesterday"])
def test_a_command_that_fails_stops_the_build(line, monkeypatch):
    """With what it said, rather than with a page that shows an error."""
    monkeypatch.setitem(command_output.LINES, "show", [line])
    with pytest.raises(RuntimeError, match=rf"loaderkit {line}: exit status \d: .*(gone|yesterday)"):
        command_output.printed("show")


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
    for module in (names, navigation, pages, search_index, command_output):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed


def test_all_documents_are_in_the_site():
    """A page that the order doesn't name would be lost, and so would a line of the order without a description."""
    listed = {*pages.sources()}
    documents = {*(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")}
    assert {str(path.relative_to(ROOT)) for path in documents} - listed == {"docs/README.md"}
    lines = re.findall(r"^- ", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert len(lines) == sum(map(len, pages.SECTIONS.values()))


def test_the_first_page_is_start_and_names_pages_by_their_titles():
    """Its name in the repository says nothing to a reader of the site."""
    files = pages.written({"data-files.md": ("Formats", {"formats/tar.md": "# tar"})})
    assert files["index.md"].startswith("# Start") and "start.md" not in files
    assert "[](guide.md#saving-and-restoring)" in files["index.md"]
    assert "## Formats\n\n```{toctree}\n:titlesonly:\n\nformats/tar.md" in files["data-files.md"]


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


class Page(HTMLParser):
    """The anchors of a page, its links, and the names of Python that it defines."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.names = Counter([""]), set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if "id" in found:
            self.anchors[found["id"]] += 1
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        if tag == "dt" and "sig-object py" in found.get("class", "") and "id" in found:
            self.names.append(found["id"])


def test_the_built_site_has_each_name_once_and_its_links_lead_somewhere(site):
    """Each public name is defined on one page; a link inside names a file that is there, and an anchor of it."""
    built = {path: Page(path) for path in site.rglob("*.html")}
    defined = Counter(name for page in built.values() for name in page.names)
    assert [name for name, times in defined.items() if times > 1] == []
    assert {each.shown for each in names.public_names()} <= {*defined}
    twice = {
        (path.name, anchor)
        for path, page in built.items()
        for anchor, times in page.anchors.items()
        if times > 1
    }
    assert twice == set()
    lost = set()
    for path, page in built.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            there = built[target].anchors if target in built else {""} if target.is_file() else {}
            if unquote(anchor) not in there:
                lost.add((path.name, link))
    assert lost == set()


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
    """And no others, as long as the list of the pages is the same."""
    (site.with_name("site-pages") / "guide.md").write_text("# As it was before\n")
    before = {page: (site / page).stat().st_mtime_ns for page in ("guide.html", "faults.html")}
    build(site)
    assert [page for page, time in before.items() if (site / page).stat().st_mtime_ns > time] == [
        "guide.html"
    ]


def test_a_page_that_is_gone_vanishes(site):
    """From the site, and from the list of pages that stands on each of them."""
    (site.with_name("site-pages") / "renamed.md").write_text("# A page of an earlier build\n")
    (site / "renamed.html").write_text("what was made of it")
    listing = site / "faults.html"
    listing.write_text('<a href="renamed.html">')
    build(site)
    assert not (site / "renamed.html").exists() and "renamed.html" not in listing.read_text()
