"""The built site as a browser shows it: on a telephone and on a screen, light and dark, by mouse and by keyboard."""

import contextlib
from collections import defaultdict
from pathlib import Path

import pytest
from questions import QUESTIONS

from docs.site import browser, screenshots

pytest.importorskip("sphinx", reason="the extra docs isn't installed")
PROGRAM = browser.program()
if PROGRAM is None:
    pytest.skip("needs Chromium, Debian's package chromium", allow_module_level=True)

FAULTS = (Path(__file__).parent / "faults.js").read_text()
WIDTHS = (400, 1400)
HEIGHT = 900
LOADED = ("pictures", "sideways", "tables", "faint")


@contextlib.contextmanager
def window():
    """A browser that can say what is wrong with a page."""
    with browser.Browser(PROGRAM) as opened:
        opened.call("Page.addScriptToEvaluateOnNewDocument", source=FAULTS)
        yield opened


def look(opened, width):
    """What is wrong with the page that is open, at one width: kind of fault -> where."""
    opened.show_as(width, HEIGHT, dark=False)
    found = {kind: opened.evaluate(f"faults.{kind}()") for kind in LOADED}
    opened.show_as(width, HEIGHT, dark=True)
    found["faint when dark"] = opened.evaluate("faults.faint()")
    if width == WIDTHS[-1]:
        found["code"] = [block for block in opened.evaluate("faults.copied()") if not runs(*block)]
    return found | {"errors": opened.errors()}


def runs(language, text):
    """Whether what a button copies can be pasted: there is something, and no prompts where it is Python."""
    if (
        not text or text.startswith("%%") or language not in ("python", "ipython3", "pytorch")
    ):  # %%: a notebook's
        return bool(text)
    try:
        compile(text, "copied", "exec")
    except SyntaxError:
        return False
    return True


@pytest.fixture(scope="module")
def seen(site):
    """Kind of fault -> page and width -> where."""
    found = defaultdict(dict)
    with window() as opened:
        for page in sorted(site.rglob("*.html")):
            opened.open(page.as_uri())  # once: that took half of the time
            for width in WIDTHS:
                for kind, places in look(opened, width).items():
                    if places:
                        found[kind][f"{page.relative_to(site)} at {width}"] = places
    return found


def test_the_site_has_no_error_in_a_browser(seen):
    """No script fails, and no file is missing that a page asks for."""
    assert seen["errors"] == {}


def test_all_pictures_are_drawn(seen):
    assert seen["pictures"] == {}


def test_no_page_is_wider_than_its_window(seen):
    """Nothing is cut and nothing has to be scrolled sideways but long code and wide tables, in their own frames."""
    assert seen["sideways"] == {}


def test_tables_can_be_read(seen):
    """No cell is so narrow that its text stands word by word."""
    assert seen["tables"] == {}


@pytest.mark.parametrize("kind", ["faint", "faint when dark"])
def test_text_stands_out_from_its_ground(seen, kind):
    """By 4.5 to 1 at least, as WCAG 2 asks, whatever the reader prefers."""
    assert seen[kind] == {}


def test_each_block_of_code_can_be_copied(seen):
    """By its button, without prompts and outputs; what is copied of Python is Python."""
    assert seen["code"] == {}


BAD = """<!doctype html><html><body style="background: white"><script src="gone.js"></script><script>gone()</script>
<img src="gone.png"><p style="width: 900px">wide</p><p style="color: #aaa">faint</p>
<article><table style="width: 60px"><tr><td>a cell with a text that has a word or two on each of its lines
</table></article><div class="highlight-python"><div class="highlight"><pre>no button</pre></div></div>"""


def test_what_is_wrong_is_seen(at_night, tmp_path):
    """A page that has each fault."""
    (tmp_path / "bad.html").write_text(BAD)
    with window() as opened:
        opened.open((tmp_path / "bad.html").as_uri())
        found = look(opened, 400)
        opened.show_as(1400, HEIGHT, dark=False)
        copied = opened.evaluate("faults.copied()")
    assert [error.split()[0] for error in sorted(found.pop("errors"))] == [
        "Failed",
        "Failed",
        "ReferenceError:",
    ]
    assert [place.rpartition("/")[2] for place in found.pop("pictures")] == ["gone.png"]
    assert {kind: [place.partition(":")[0] for place in places] for kind, places in found.items()} == {
        "sideways": ["html."],
        "tables": ["td."],
        "faint": ["170,170,170 on 255,255,255"],
        "faint when dark": ["170,170,170 on 255,255,255"],
    }
    assert copied == [["python", None]]
    assert not runs("python", None) and not runs("python", ">>> a") and runs("text", ">>> a")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("key", "times"), [("/", 1), ("Tab", 6)])
def test_the_keyboard_reaches_search(site, key, times, width):
    """By a key of its own, and by Tab before the list of all pages; Enter leads to the pages that were found."""
    with window() as opened:
        opened.show_as(width, HEIGHT, dark=False)
        opened.open((site / "guide.html").as_uri())
        for _ in range(times):
            if opened.evaluate("document.activeElement.name") != "q":
                opened.press(key)
        assert opened.evaluate("document.activeElement.name") == "q"
        assert opened.evaluate("faults.focused()")
        question, answers = next(iter(QUESTIONS.items()))
        opened.call("Input.insertText", text=question)
        with opened.loading():
            opened.press("Enter")
        links = opened.evaluate("[...document.querySelectorAll('#search-results a')].map((a) => a.href)")
        found = [link.partition(".html")[0].removeprefix(f"{site.as_uri()}/") for link in links]
        assert {*found[:3]} & {*answers.split()}
        assert opened.evaluate("faults.sideways()") == opened.errors() == []


def test_the_keyboard_sees_the_button_that_copies(site):
    """It is hidden or pale until a mouse or the keyboard is at it."""
    opacity = "getComputedStyle(document.querySelector('button.copybtn')).opacity"
    with window() as opened:
        opened.show_as(1400, HEIGHT, dark=False)
        opened.open((site / "index.html").as_uri())
        opened.press("Tab")
        assert opened.evaluate(opacity) != "1"
        opened.evaluate("document.querySelector('button.copybtn').focus()")
        assert opened.evaluate("faults.focused()") and opened.evaluate(opacity) == "1"


def test_screenshots_of_ten_pages_are_written(site):
    """By `python -m docs screenshots`, each of a telephone and of a screen."""
    assert [page for page in screenshots.PAGES.values() if not (site / page.partition("?")[0]).exists()] == []
    assert screenshots.write(site) == 0
    drawn = [*site.with_name("site-screenshots").iterdir()]
    assert len(drawn) == 2 * len(screenshots.PAGES) == 20
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in drawn)
