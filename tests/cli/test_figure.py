"""Pictures and batches are shown in a notebook, written from a script, and text where there is no picture."""

import io
import re
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.cli.cards import Card
from loaderkit.cli.contact_sheet import contact_sheet

Image = pytest.importorskip("PIL.Image")

PICTURES = np.full((3, 8, 8, 3), 200, np.uint8)


def shown(figure: Any, place: int = 0) -> np.ndarray:
    image = figure.cards[place].image
    return np.asarray(Image.open(io.BytesIO(image))) if isinstance(image, bytes) else image


def test_a_notebook_shows_a_picture_and_a_script_writes_one(tmp_path):
    """A PNG of the same sheet, or a page that needs nothing beside it."""
    figure = lk.grid(PICTURES, titles=["one", "two", 3])
    bundle = figure._repr_mimebundle_()
    assert Image.open(io.BytesIO(bundle["image/png"])).size[0] > 300
    figure.save(tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes() == bundle["image/png"]
    figure.save(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert page.count("<img src=") == 3 and "<h2>two</h2>" in page
    with pytest.raises(ValueError, match=r"path: expected a name that ends in .png or .html, got 'x.jpg'"):
        figure.save("x.jpg")


def test_boxes_and_masks_are_drawn():
    """A frame of each box that isn't empty, and each class of a mask in a color; the picture given stays."""
    boxes = np.zeros((3, 2, 4))
    boxes[0, 0] = 1, 1, 5, 5
    masks = np.zeros((3, 8, 8), np.uint8)
    masks[1, :4], masks[1, 4:6] = 1, 2
    figure = lk.grid(PICTURES, boxes=boxes, masks=masks)
    frame = (shown(figure, 0) != 200).any(2)
    assert frame.sum() == 12 and frame[1, 1:5].all() and not frame[2:4, 2:4].any()
    colors = {tuple(row) for row in shown(figure, 1).reshape(-1, 3).tolist()}
    assert len(colors) == 3 and (shown(figure, 2) == 200).all() and (PICTURES == 200).all()


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((1, 8, 8), np.uint8).transpose(1, 2, 0),
        np.full((8, 8, 3), np.nan),
        np.linspace(-3, 3, 192).reshape(8, 8, 3),
        np.arange(192, dtype=np.uint16).reshape(8, 8, 3) * 300,
        np.ones((8, 8, 3), bool),
        np.ones((8, 8)),
        Image.new("RGB", (8, 8)),
        np.zeros((2, 9000, 3), np.uint8),
    ],
)
def test_kinds_of_pictures(picture):
    """Grey, not finite, normalised, 16 bits, bools, of PIL, and a wide one: each is a picture of uint8."""
    figure = lk.grid([picture], boxes=[[(1, 1, 3, 3)]])
    assert shown(figure).dtype == np.uint8 and len(figure._repr_mimebundle_()["image/png"]) > 100


def test_a_batch_is_shown_with_its_labels():
    """Of a dict and of a tuple, from a loader, encoded pictures too; more than are shown are counted."""
    batch = {
        "image": PICTURES,
        "label": np.array([7, 8, 9]),
        "boxes": np.zeros((3, 1, 4)),
        "x": np.ones((3, 2)),
    }
    figure = lk.show(batch, number=2)
    assert str(figure) == "2 of 3 records\n0  7  x: float64 (2,): 1.0 1.0\n1  8  x: float64 (2,): 1.0 1.0"
    assert shown(lk.show((PICTURES / 255, np.arange(3)))).dtype == np.uint8
    file = io.BytesIO()
    Image.fromarray(PICTURES[0]).save(file, "PNG")
    figure = lk.show({"png": file.getvalue(), "mask": np.ones((8, 8), bool), "cls": 3})
    assert (shown(figure) != 200).any() and str(figure) == "1 of 1 records\n0  3"


def test_a_label_without_a_name_is_shown_as_one():
    """The only integer or text beside the picture; of several none, and a record's number isn't in its place."""
    figure = lk.show((PICTURES, np.array([7, 7, 9]), np.array([True, True, False])))
    assert [card.label for card in figure.cards] == ["7", "7", "9"]
    assert lk.show({"__key__": "a", "png": PICTURES[0], "kind": "cat"}).cards[0].label == "cat"
    assert lk.show((PICTURES, np.arange(3), np.arange(3))).cards[0].label == ""
    ink = (27, 31, 36)  # of a label
    for label, dark in (("7", True), ("", False)):
        sheet = np.asarray(Image.open(io.BytesIO(contact_sheet([Card("7", label, PICTURES[0], [])], "", ""))))
        assert bool((np.abs(sheet.astype(int) - ink).max(axis=-1) < 30).any()) == dark


def test_a_source_and_a_list_of_records_are_shown():
    """Their first records, no more than are asked for; of a loader the error has the line to write."""
    records = [{"image": PICTURES[0], "label": each} for each in range(6)]
    source = lk.MapDataSource(lk.RangeDataSource(0, 6), lambda i: records[int(i)])
    for batch, total in (
        (source, 6),
        (source[:4], 4),
        (records, 6),
        ([(PICTURES[0], 0), (PICTURES[0], 1)], 2),
    ):
        figure = lk.show(batch, number=2)
        assert figure.title == f"2 of {total} records" and [card.label for card in figure.cards] == ["0", "1"]
        assert all(card.image is not None for card in figure.cards)
    assert lk.show(source, number=0).title == "0 of 6 records"
    assert lk.show([PICTURES, np.arange(3)]).cards[2].label == "2"  # a list of leaves is a batch
    chain = lk.Dataset(source).batch(2)
    with chain.loader() as loader, iter(loader) as batches:
        for batch, line in ((chain, "ds[0]"), (loader, "next(iter(loader))"), (batches, "next(batches)")):
            with pytest.raises(TypeError, match=f"got a .*; write lk.show\\({re.escape(line)}\\)"):
                lk.show(batch)


@pytest.mark.parametrize("channels", [1, 3])
def test_channels_first(channels):
    """Of torch: a batch, and pictures with boxes."""
    pictures = np.zeros((2, channels, 8, 9), np.float32)
    pictures[1, 0] = 1
    (_, one) = lk.show((pictures, np.arange(2))).cards
    assert one.image.shape == (8, 9, channels) and (one.image[:, :, 0] == 255).all() and one.label == "1"
    assert shown(lk.grid(pictures, boxes=[[(1, 1, 3, 3)]] * 2)).shape == (8, 9, 3)


def test_columns_of_a_grid(tmp_path):
    """Of the sheet, and of the page."""
    widths = [
        Image.open(io.BytesIO(lk.grid(PICTURES, columns=columns)._repr_mimebundle_()["image/png"])).size[0]
        for columns in (1, 2, 3)
    ]
    assert widths[1] - widths[0] == widths[2] - widths[1] > 100
    lk.grid(PICTURES, columns=3).save(tmp_path / "x.html")
    assert 'style="grid-template-columns: repeat(3, 1fr)"' in (tmp_path / "x.html").read_text()
    with pytest.raises(ValueError, match="columns: expected 1 or more, got 0"):
        lk.grid(PICTURES, columns=0)


def test_leaves_are_shown_by_their_places():
    """Of tuples and objects: another picture, its label, boxes and mask, by position or path."""
    mask, boxes = np.zeros((3, 8, 8), np.uint8), np.zeros((3, 1, 4))
    mask[0, 4:], boxes[1, 0] = 1, (1, 1, 5, 5)
    batch = (PICTURES, {"crop": PICTURES // 2, "name": np.array(["a", "b", "c"])}, boxes, mask)
    figure = lk.show(batch, image=(1, "crop"), label=(1, "name"), boxes=2, mask=-1)
    assert str(figure).splitlines()[1].startswith("0  a  0: ")
    assert shown(figure, 0)[0].max() == 100 and (shown(figure, 0)[4:] != 100).any()
    assert (shown(figure, 1) != 100).any() and (shown(figure, 2) == 100).all()
    assert str(lk.show({"x": (np.arange(2), [np.ones(2)])})).splitlines()[1] == "0  x.0: 0  x.1.0: 1.0"
    with pytest.raises(KeyError, match="leaf 'y': expected a place in the element"):
        lk.show({"x": np.arange(2)}, label="y")
    with pytest.raises(TypeError, match="label: expected the place of one leaf"):
        lk.show(batch, label=1)


def test_without_a_picture_it_is_a_table():
    """As text, and as a page in a notebook."""
    figure = lk.show({"tokens": np.arange(6).reshape(2, 3)})
    assert str(figure) == "2 of 2 records\n0  tokens: int64 (3,): 0 1 2\n1  tokens: int64 (3,): 3 4 5"
    assert "<table>" in figure._repr_mimebundle_()["text/html"]


def test_bad_input_is_named():
    """Numbers that differ, what is no picture, and masks and boxes that don't fit one."""
    with pytest.raises(ValueError, match=r"expected one for each of the images, got \[2, 3\]"):
        lk.grid(PICTURES, titles=["a", "b"])
    with pytest.raises(ValueError, match=r"images: expected \(h, w\) or .* got int64 \(4,\)"):
        lk.grid([np.arange(4)])
    with pytest.raises(ValueError, match=r"masks: expected \(8, 8\), as the picture, got \(4, 4\)"):
        lk.grid(PICTURES, masks=np.ones((3, 4, 4), bool))
    with pytest.raises(ValueError, match=r"boxes: expected \(k, 4\), got \(4, 3\)"):
        lk.grid(PICTURES, boxes=np.ones((3, 4, 3)))
    with pytest.raises(ValueError, match="number: expected 0 or more, got -1"):
        lk.show({"x": np.arange(3)}, number=-1)


class Letters:
    """A tokenizer of letters."""

    def decode(self, ids):
        return "".join(chr(97 + each) for each in ids)


@pytest.mark.parametrize("names", [None, "maxtext"])
def test_documents_of_packed_rows_are_shown_one_by_one(names):
    """As tokens, or as text by a tokenizer; padding is counted, and a batch of tokens alone is as it was."""
    source = lk.TokenDataSource(np.array([3, 0, 1, 4, 14, 6], np.uint16), [0, 3, 6])
    rows = lk.PackedDataSource(source, lk.plan_packing(source.lengths, 8), names=names)
    feature = "tokens" if names is None else "inputs"
    for batch in (rows.take([0]), rows[0]):
        (card,) = lk.show(batch, tokenizer=Letters()).cards
        told = dict(card.rows)
        texts = {told[f"{feature} of document {number}"] for number in (1, 2)}
        assert texts == {"dab", "eog"} and told[f"{feature} of padding"] == "2" and len(told) == 3
        assert "of document 1: uint16 (3,): " in str(lk.show(batch))
    plain = str(lk.show({"tokens": np.arange(3)[np.newaxis]}, tokenizer=Letters()))
    assert plain.endswith("tokens: int64 (3,): 0 1 2")
    with pytest.raises(
        TypeError, match=r"tokenizer: expected one with a method decode\(ids\), or None, got 'x'"
    ):
        lk.show(batch, tokenizer="x")
