"""A PNG that shows records as a grid of cards, drawn with Pillow."""

import io
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderkit._base.system.optional_library import library

from .cards import Card

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw as Drawing
    from PIL.ImageFont import FreeTypeFont, ImageFont

TILE = 176  # pixels of the square that an image fits into
PADDING = 8  # pixels within a card
GAP = 12  # pixels between cards
MARGIN = 24
CAPTION = 40  # pixels for the two lines under an image
HEAD = 56  # pixels for the sheet's title
MOST_COLUMNS = 8
LINES = 11  # of text in a card without an image
TEXT = 13  # size of its letters

PAGE, PAPER, EDGE = "#f3f4f6", "#ffffff", "#d8dbe0"
INK, FAINT, WRONG = "#1b1f24", "#5d6672", "#b42318"


def contact_sheet(cards: Sequence[Card], title: str, subtitle: str, *, columns: int | None = None) -> bytes:
    """The sheet as the bytes of a PNG.

    cards: of the records, in order. title, subtitle: two lines above them. columns: None for a sheet that is about as
    high as wide. ImportError without Pillow.
    """
    _require_pillow()
    from PIL import Image, ImageDraw

    columns = columns or max(1, min(MOST_COLUMNS, round((len(cards) * 1.25) ** 0.5)))
    rows = max(1, -(-len(cards) // columns))
    wide, high = TILE + 2 * PADDING, TILE + CAPTION + 2 * PADDING
    size = (2 * MARGIN + columns * (wide + GAP) - GAP, 2 * MARGIN + HEAD + rows * (high + GAP) - GAP)
    sheet = Image.new("RGB", size, PAGE)
    draw = ImageDraw.Draw(sheet)
    room = sheet.width - 2 * MARGIN
    _line(draw, (MARGIN, MARGIN - 4), title, 20, room)
    _line(draw, (MARGIN, MARGIN + 24), subtitle, 14, room, FAINT)
    for place, card in enumerate(cards):
        left = MARGIN + place % columns * (wide + GAP)
        top = MARGIN + HEAD + place // columns * (high + GAP)
        draw.rounded_rectangle((left, top, left + wide - 1, top + high - 1), 6, fill=PAPER, outline=EDGE)
        _draw_card(sheet, draw, card, left + PADDING, top + PADDING)
    file = io.BytesIO()
    sheet.save(file, "PNG", optimize=True)
    return file.getvalue()


def _require_pillow() -> None:
    library("PIL", "pictures need", "cli", package="Pillow")


def _draw_card(sheet: "Picture", draw: "Drawing", card: Card, left: int, top: int) -> None:
    if card.image is None:
        rows = [f"{name}: {text}" if name != "record" else text for name, text in card.rows]
        _lines(draw, rows, left, top)
    else:
        try:
            picture = decoded(card.image, TILE)
        except Exception as error:  # noqa: BLE001 - any decoder's error is what the card shows
            _lines(draw, ["can't be decoded:", str(error)], left, top, WRONG)
        else:
            place = left + (TILE - picture.width) // 2, top + (TILE - picture.height) // 2
            sheet.paste(picture, place, picture if picture.mode == "RGBA" else None)
    caption = top + TILE + 6
    _line(draw, (left, caption), card.label, TEXT, TILE)
    _line(draw, (left, caption + 18), card.title, 12, TILE, FAINT)  # apart, as a number is no label


def can_be_decoded(image: bytes | np.ndarray[Any, Any]) -> bool:
    """Whether `decoded` gives a picture; true without Pillow, which can't say."""
    try:
        decoded(image, 1)
    except ImportError:
        return True
    except Exception:  # noqa: BLE001 - any decoder's error
        return False
    return True


def decoded(image: bytes | np.ndarray[Any, Any], side: int) -> "Picture":
    """The picture as RGB or RGBA, upright, made to fit into a square.

    image: as in `Card`. side: of the square, in pixels; small pictures are enlarged by a whole number, so that their
    pixels show. OSError or ValueError where it can't be decoded.
    """
    _require_pillow()
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        warnings.filterwarnings("ignore", category=UserWarning)  # of metadata that isn't shown
        if isinstance(image, bytes):
            picture: Picture = Image.open(io.BytesIO(image))
            picture.draft("RGB", (side, side))
            picture = ImageOps.exif_transpose(picture)
        else:
            picture = Image.fromarray(image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image)
        transparent = "A" in picture.getbands() or "transparency" in picture.info
        picture = picture.convert("RGBA" if transparent else "RGB")
        larger = side // max(picture.size)
        if larger > 1:
            return picture.resize((picture.width * larger, picture.height * larger), Image.Resampling.NEAREST)
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        return picture


def _line(draw: "Drawing", place: tuple[int, int], text: str, size: int, room: int, ink: str = INK) -> None:
    font = _font(size)
    if draw.textlength(text, font=font) > room:
        text = _longest_start(draw, text, size, room - int(draw.textlength("...", font=font))) + "..."
    draw.text(place, text, fill=ink, font=font)


def _lines(draw: "Drawing", texts: Sequence[str], left: int, top: int, ink: str = INK) -> None:
    lines = [line for text in texts for line in _wrapped(draw, text)]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], "..."]
    for place, line in enumerate(lines):
        draw.text((left, top + 16 * place), line, fill=ink, font=_font(TEXT))


def _wrapped(draw: "Drawing", text: str) -> list[str]:
    lines: list[str] = []
    while text and len(lines) < LINES:
        fits = len(_longest_start(draw, text, TEXT, TILE))
        if fits < len(text) and " " in text[: fits + 1].strip():
            fits = text.rindex(" ", 0, fits + 1)
        lines.append(text[:fits])
        text = text[fits:].lstrip()
    return lines if not text else [*lines, text]


def _longest_start(draw: "Drawing", text: str, size: int, room: int) -> str:
    lengths = range(1, len(text) + 1)
    fit = bisect_right(
        lengths, float(room), key=lambda length: draw.textlength(text[:length], font=_font(size))
    )
    return text[: max(fit, 1)]  # one character at least


@cache
def _font(size: int) -> "FreeTypeFont | ImageFont":
    from PIL import ImageFont

    try:  # has the letters of more scripts than Pillow's own
        return ImageFont.truetype("DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)
