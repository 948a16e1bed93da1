"""A PNG that shows records as a grid of cards, drawn with Pillow."""

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderkit._base.extras import missing_library

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

PAGE, PAPER, EDGE = "#f3f4f6", "#ffffff", "#d8dbe0"
INK, FAINT, WRONG = "#1b1f24", "#5d6672", "#b42318"


def contact_sheet(cards: Sequence[Card], title: str, subtitle: str) -> bytes:
    """The sheet as the bytes of a PNG.

    cards: of the records, in order. title, subtitle: two lines above them. ImportError without Pillow.
    """
    _require_pillow()
    from PIL import Image, ImageDraw

    columns = max(1, min(MOST_COLUMNS, round((len(cards) * 1.25) ** 0.5)))
    rows = max(1, -(-len(cards) // columns))
    wide, high = TILE + 2 * PADDING, TILE + CAPTION + 2 * PADDING
    sheet = Image.new(
        "RGB",
        (
            2 * MARGIN + columns * wide + (columns - 1) * GAP,
            2 * MARGIN + HEAD + rows * high + (rows - 1) * GAP,
        ),
        PAGE,
    )
    draw = ImageDraw.Draw(sheet)
    fonts = [_font(size) for size in (20, 14, 13, 12)]
    room = sheet.width - 2 * MARGIN
    draw.text((MARGIN, MARGIN - 4), _fitting(draw, title, fonts[0], room), fill=INK, font=fonts[0])
    draw.text((MARGIN, MARGIN + 24), _fitting(draw, subtitle, fonts[1], room), fill=FAINT, font=fonts[1])
    for place, card in enumerate(cards):
        left = MARGIN + place % columns * (wide + GAP)
        top = MARGIN + HEAD + place // columns * (high + GAP)
        draw.rounded_rectangle((left, top, left + wide - 1, top + high - 1), 6, fill=PAPER, outline=EDGE)
        _draw_card(sheet, draw, card, left + PADDING, top + PADDING, fonts[2], fonts[3])
    file = io.BytesIO()
    sheet.save(file, "PNG", optimize=True)
    return file.getvalue()


def _require_pillow() -> None:
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise missing_library("pictures need", "Pillow", "cli") from error


def _draw_card(
    sheet: "Picture",
    draw: "Drawing",
    card: Card,
    left: int,
    top: int,
    font: "FreeTypeFont | ImageFont",
    small: "FreeTypeFont | ImageFont",
) -> None:
    if card.image is None:
        _write(draw, _text_lines(card), left, top, font)
    else:
        try:
            picture = decoded(card.image, TILE)
        except Exception as error:  # noqa: BLE001 - any decoder's error is what the card shows
            _write(draw, ["can't be decoded:", str(error)], left, top, font, WRONG)
        else:
            sheet.paste(
                picture,
                (left + (TILE - picture.width) // 2, top + (TILE - picture.height) // 2),
                picture if picture.mode == "RGBA" else None,
            )
    caption = top + TILE + 6
    draw.text((left, caption), _fitting(draw, card.label or card.title, font, TILE), fill=INK, font=font)
    if card.label:
        draw.text((left, caption + 18), _fitting(draw, card.title, small, TILE), fill=FAINT, font=small)


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


def _text_lines(card: Card) -> list[str]:
    return [f"{name}: {text}" if name != "record" else text for name, text in card.rows]


def _write(
    draw: "Drawing",
    texts: Sequence[str],
    left: int,
    top: int,
    font: "FreeTypeFont | ImageFont",
    ink: str = INK,
) -> None:
    lines = [line for text in texts for line in _wrapped(draw, text, font, TILE)]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], "..."]
    for place, line in enumerate(lines):
        draw.text((left, top + 16 * place), line, fill=ink, font=font)


def _wrapped(draw: "Drawing", text: str, font: "FreeTypeFont | ImageFont", room: int) -> list[str]:
    lines: list[str] = []
    while text and len(lines) < LINES:
        fits = len(_longest_start(draw, text, font, room))
        if fits < len(text) and " " in text[: fits + 1].strip():
            fits = text.rindex(" ", 0, fits + 1)
        lines.append(text[:fits])
        text = text[fits:].lstrip()
    return lines if not text else [*lines, text]


def _fitting(draw: "Drawing", text: str, font: "FreeTypeFont | ImageFont", room: int) -> str:
    if draw.textlength(text, font=font) <= room:
        return text
    return _longest_start(draw, text, font, room - int(draw.textlength("...", font=font))) + "..."


def _longest_start(draw: "Drawing", text: str, font: "FreeTypeFont | ImageFont", room: int) -> str:
    low, high = 1, len(text)
    while low < high:  # the longest start that fits, one character at least
        middle = (low + high + 1) // 2
        low, high = (middle, high) if draw.textlength(text[:middle], font=font) <= room else (low, middle - 1)
    return text[:low]


def _font(size: int) -> "FreeTypeFont | ImageFont":
    from PIL import ImageFont

    try:  # has the letters of more scripts than Pillow's own
        return ImageFont.truetype("DejaVuSans.ttf", size)
    except OSError:
        return ImageFont.load_default(size)
