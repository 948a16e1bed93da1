"""The pictures: each file is what its figures give, and those are what a run gives."""

import json
import re

import matplotlib
import pytest

from docs.pictures import demo, killed_run
from docs.pictures.drawing import ROOT, kept, svg_of
from docs.pictures.listed import PICTURES
from docs.pictures.worker_death import done_again

SHOWN = re.compile(r"!\[[^\]]{20,}\]\(([\w/-]+\.svg)\)")  # with words for a reader who doesn't see it
BY_NAME = {picture.name: picture for picture in PICTURES}
LATE = [name for name in BY_NAME if name.startswith("benchmarks/")][1:]  # at night, since all are drawn alike


@pytest.mark.parametrize("name", [name for name, picture in BY_NAME.items() if picture.repeatable])
def test_a_picture_has_the_figures_of_a_run(name):
    """`python -m docs.pictures` finds the figures again that the committed file was drawn of."""
    figures = json.loads(json.dumps(BY_NAME[name].figures()))
    assert kept(BY_NAME[name].path.read_text()) == figures


@pytest.mark.parametrize("name", BY_NAME)
def test_a_picture_is_drawn_of_its_figures(name, request):
    """With the matplotlib that drew it the same but for ids; another one places text elsewhere, and says the same.

    An id is a hash of floats, of which another processor has other last bits.
    """
    if name in LATE:
        request.getfixturevalue("at_night")
    committed = BY_NAME[name].path.read_text()
    drawn = svg_of(BY_NAME[name].draw, kept(committed))
    assert texts(drawn) == texts(committed) != []
    if f"Matplotlib v{matplotlib.__version__}," in committed:
        assert without_ids(drawn) == without_ids(committed)


def without_ids(svg: str) -> str:
    """The same, with each id replaced by one word."""
    return re.sub(r"\bp[0-9a-f]{10}\b", "id", svg)


def texts(svg: str) -> list[str]:
    """What can be read in a picture."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_picture_stands_alone(name):
    """It needs no font and no file from elsewhere, tells no day, is small, and its text is text."""
    svg = BY_NAME[name].path.read_text()
    assert not re.search(r"<script|<image|url\((?!#)|@import|<dc:date>", svg)
    assert {*re.findall(r'href="(.)', svg)} <= {"#"}
    assert len(svg) < 64 << 10


def test_each_picture_is_on_a_page():
    """With words that say what it shows, and no page has one that no script makes."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "benchmarks/README.md"]
    shown = {(page.parent / path).resolve() for page in pages for path in SHOWN.findall(page.read_text())}
    assert shown - {ROOT / "docs/how-it-works.svg"} == {picture.path for picture in PICTURES}


def test_the_tasks_of_a_lost_worker_are_those_done_again():
    """The timeline marks as many as the loader said."""
    figures = kept(BY_NAME["docs/worker-death.svg"].path.read_text())
    assert len(done_again(figures["task"])) == figures["lost"][2] > 0


def test_a_worker_is_killed_and_each_batch_is_the_right_one(at_night):
    """The run of the timeline: it raises at a batch that isn't what it would have been."""
    figures = killed_run.figures()
    assert figures["lost"][1] == "exit code -9 (SIGKILL)"
    assert [worker for worker, _ in figures["ready"]] == [3]


def test_the_demo_is_killed_and_resumes_at_its_checkpoint(at_night):
    """The runs of its picture: figures are given only if all batches and the parameters are equal."""
    found = demo.figures()
    (_, start, losses), (_, _, whole) = found["resumed"], found["whole"]
    assert start == 100 and losses == whole[start:]
