"""A page that shows records: one file, with the images in it."""

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from .cards import Card
from .image_header import image_header

_STYLE = """
:root { color-scheme: light dark; --page: #f3f4f6; --paper: #fff; --edge: #d8dbe0; --ink: #1b1f24; --faint: #5d6672; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171a; --paper: #1e2226; --edge: #343a41; --ink: #e8eaed; --faint: #9aa4b0; }
}
body { margin: 24px; background: var(--page); color: var(--ink); font: 14px/1.4 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 0; overflow-wrap: anywhere; }
p { margin: 4px 0 20px; color: var(--faint); }
main { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); }
article { background: var(--paper); border: 1px solid var(--edge); border-radius: 6px; padding: 10px; min-width: 0; }
img { display: block; width: 100%; height: 200px; object-fit: contain; image-rendering: auto; }
h2 { font-size: 14px; margin: 8px 0 0; overflow-wrap: anywhere; }
small { color: var(--faint); overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; margin-top: 8px; font-size: 12px; table-layout: fixed; }
th { text-align: left; font-weight: 500; color: var(--faint); vertical-align: top; width: 30%; padding: 2px 8px 2px 0; }
th, td { overflow-wrap: anywhere; border-top: 1px solid var(--edge); }
"""
# The page runs nothing and fetches nothing, whatever the records say.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def html_page(cards: Sequence[Card], title: str, subtitle: str, *, columns: int | None = None) -> str:
    """The page as text, UTF-8 when it is written.

    cards: of the records, in order. title, subtitle: two lines above them. columns: None for as many as fit.

    >>> page = html_page([Card("7", "<b>", None, [("txt", "a & b")])], "x.tar", "1 record")
    >>> "<h2>&lt;b&gt;</h2>" in page, "<td>a &amp; b</td>" in page
    (True, True)
    """
    style = "" if columns is None else f' style="grid-template-columns: repeat({columns}, 1fr)"'
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n<h1>{escape(title)}</h1>\n<p>{escape(subtitle)}</p>\n<main{style}>\n"
        + "".join(map(_article, cards))
        + "</main>\n</html>\n"
    )


def _article(card: Card) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in card.rows)
    return (
        "<article>"
        + _image(card)
        + (f"<h2>{escape(card.label)}</h2>" if card.label else "")
        + f"<small>{escape(card.title)}</small>"
        + (f"<table>{rows}</table>" if rows else "")
        + "</article>\n"
    )


def _image(card: Card) -> str:
    if card.image is None:
        return ""
    data = card.image if isinstance(card.image, bytes) else _png(card.image)
    header = image_header(data)
    if header is None:
        return "<p>this field is not an image</p>"
    encoded = base64.b64encode(data).decode()
    alt = escape(f"{header} of record {card.title}", quote=True)
    return f'<img src="data:{header.media_type};base64,{encoded}" alt="{alt}">'


def _png(array: np.ndarray[Any, Any]) -> bytes:
    from .contact_sheet import decoded

    file = io.BytesIO()
    decoded(array, 200).save(file, "PNG")

    return file.getvalue()
