"""`loaderkit show --out`: sheets and pages."""

import io
from html.parser import HTMLParser

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.cli.cards import Card, card_of
from loaderkit.cli.contact_sheet import TILE, contact_sheet, decoded
from loaderkit.cli.html_page import html_page

Image = pytest.importorskip("PIL.Image")
RED, BLUE = (250, 10, 10), (10, 10, 250)


def picture(size, colour, form="PNG", **options):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, form, **options)
    return file.getvalue()


class Page(HTMLParser):
    """The tags of a page, and their texts."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


def has_colour(sheet, colour):
    return bool((np.abs(sheet.astype(int) - colour).max(axis=-1) < 30).any())


def test_a_sheet_shows_each_picture_where_its_card_is():
    """In order from left to right; the sheet is as large as its cards."""
    images = [picture((300, 100), RED), picture((10, 20), BLUE)]
    cards = [
        card_of(key, {"__key__": f"{key:06d}", "png": image, "cls": b"3"}) for key, image in enumerate(images)
    ]
    sheet = np.asarray(Image.open(io.BytesIO(contact_sheet(cards, "x.tar", "2 of 2 records"))))
    half = sheet.shape[1] // 2
    assert has_colour(sheet[:, :half], RED) and not has_colour(sheet[:, :half], BLUE)
    assert has_colour(sheet[:, half:], BLUE) and not has_colour(sheet[:, half:], RED)
    assert sheet.shape[0] > TILE and sheet.shape[1] > 2 * TILE


def test_pictures_fit_into_their_tile():
    """Large ones are made smaller, small ones larger by a whole number; stored orientation is applied."""
    assert decoded(picture((1000, 500), RED), 100).size == (100, 50)
    assert decoded(picture((30, 20), RED), 100).size == (90, 60)
    assert decoded(np.zeros((10, 8), np.uint8), 100).size == (80, 100)
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decoded(picture((1000, 500), RED, "JPEG", exif=exif), 100).size == (50, 100)


@pytest.mark.parametrize("count", [0, 1, 3, 64])
def test_any_number_of_records(count):
    """Also none, in a wide grid that is never wider than 8."""
    sheet = Image.open(io.BytesIO(contact_sheet([Card("0", "", None, [("txt", "a")])] * count, "t", "s")))
    assert sheet.width < 8 * (TILE + 40)


def test_a_picture_that_cant_be_decoded_says_so():
    """And the others are drawn."""
    jpeg = picture((300, 300), RED, "JPEG")
    cards = [card_of(0, {"jpg": jpeg[:400]}), card_of(1, {"jpg": jpeg})]
    sheet = np.asarray(Image.open(io.BytesIO(contact_sheet(cards, "t", "s"))))
    half = sheet.shape[1] // 2
    assert has_colour(sheet[:, :half], (180, 35, 24))
    assert has_colour(sheet[:, half:], RED)


def test_a_picture_that_cant_be_decoded_is_counted(loaderkit, tmp_path):
    """Apart from those that are shown, of a sheet and of a page."""
    jpeg = picture((30, 30), RED, "JPEG")
    lk.write([{"jpg": jpeg}, {"jpg": jpeg[:200]}], tmp_path / "x.tar", format="webdataset")
    for name in ("x.png", "x.html"):
        ran = loaderkit("show", tmp_path / "x.tar", "--out", tmp_path / name)
        assert "2 records, 1 with an image, 1 with one that can't be decoded, " in ran.out


def test_a_page_holds_its_pictures_and_runs_nothing():
    """Texts are escaped, pictures are data URIs, and nothing is fetched."""
    record = {
        "__key__": "<script>alert(1)</script>",
        "jpg": picture((4, 4), RED, "JPEG"),
        "cls": b"<b>&",
        "x": b"'\"",
    }
    text = html_page([card_of(0, record)], "<title>", "one")
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.tags}
    (image,) = [attributes for tag, attributes in page.tags if tag == "img"]
    assert image["src"].startswith("data:image/jpeg;base64,")
    assert {"<title>", "<b>&", "'\"", "0  <script>alert(1)</script>"} <= {*page.texts}
    assert "http" not in text.replace("http-equiv", "")


def test_the_command_writes_both(loaderkit, records):
    """The name says which; a shuffle with a seed shows the records of that epoch."""
    for name, begin in (("a.png", b"\x89PNG"), ("a.html", b"<!doctype html>")):
        ran = loaderkit("show", records / "x-*.array_record", "-o", records / name, "--shuffle", "3")
        assert ran.status == 0
        assert ran.out.startswith(f"{records / name}: 8 records, 0 with an image, ")
        assert (records / name).read_bytes().startswith(begin)
    numbers = [
        text.partition(" ")[0] for text in Page((records / "a.html").read_text()).texts if text.isdigit()
    ]
    assert sorted(numbers) == sorted(map(str, range(8))) != numbers


@pytest.mark.parametrize(
    "more", [["-o", "a.gif"], ["-o", "a.png", "-n", "0"], ["-o", "none/a.png"], ["--label", "x"]]
)
def test_wrong_arguments(loaderkit, records, more):
    """Status 2, and nothing written."""
    before = {*records.iterdir()}
    assert loaderkit("show", records / "x-0.array_record", *more).status == 2
    assert {*records.iterdir()} == before


def test_without_pillow_the_extra_is_named(loaderkit, records, monkeypatch):
    """And a page can still be made."""
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    ran = loaderkit("show", records / "x-0.array_record", "-o", records / "a.png")
    assert ran.status == 2
    assert "pip install '.[cli]' in a clone of loaderkit" in ran.err
    assert loaderkit("show", records / "x-0.array_record", "-o", records / "a.html").status == 0
