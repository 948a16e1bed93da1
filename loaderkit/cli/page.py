"""A picture or a page that shows records, for `loaderkit show --out`."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cards import card_of
from .contact_sheet import contact_sheet
from .exit_status import ExitStatus, UsageError
from .html_page import html_page
from .open_source import OpenedSource
from .output import Output
from .printable import printable, size_text


def check_page_name(name: str) -> None:
    """UsageError for a file that is neither a picture nor a page."""
    if Path(name).suffix.lower() not in (".png", ".html", ".htm"):
        raise UsageError(f"--out: expected a name that ends in .png or .html, got {name!r}")


def draw(
    out: Output,
    options: argparse.Namespace,
    opened: OpenedSource,
    keys: NDArray[np.int64],
    records: Iterator[tuple[int, Any]],
) -> int:
    """Writes the picture or the page --out.

    keys: (n,) int64, of the records that are read. records: (key, record), those of them to draw.
    """
    cards = []
    with out.progress("records", len(keys)) as advance:
        for key, record in records:
            cards.append(card_of(key, record, image_field=options.image, label_field=options.label))
            advance(1)
    path, title = Path(options.out), printable(_title(opened))
    how = "in order" if options.shuffle is None else f"shuffled with seed {options.shuffle}"
    subtitle = f"{len(cards):,} of {len(opened):,} records, {how}"
    if path.suffix.lower() == ".png":
        content = contact_sheet(cards, title, subtitle)
    else:
        content = html_page(cards, title, subtitle).encode()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"--out: {error}") from error
    images = sum(card.image is not None for card in cards)
    out.document({"output": str(path), "records": len(cards), "images": images, "bytes": len(content)})
    out.text(f"{path}: {len(cards):,} records, {images:,} with an image, {size_text(len(content))}")
    return ExitStatus.DONE


def _title(opened: OpenedSource) -> str:
    first, *more = (name.rpartition("/")[2] for name in opened.names)
    return first + (f" and {len(more)} more" if more else "")
