"""`loaderkit preview`: a picture or a page that shows records."""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .cards import card_of
from .contact_sheet import contact_sheet
from .exit_status import ExitStatus, UsageError
from .html_page import html_page
from .open_source import OpenedSource, add_source_arguments, open_source
from .output import Output, add_output_argument
from .printable import printable, size_text
from .read_each import shuffled_keys

TOGETHER = 16  # records read at once, so that a bar moves


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = "Draw records: images with their key and label, other records as text."
    add_source_arguments(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        help="x.png for a sheet of small pictures, x.html for a page",
    )
    parser.add_argument("-n", "--number", type=int, default=64, help="of records (default: %(default)s)")
    parser.add_argument(
        "--shuffle", type=int, metavar="SEED", help="show the first records of a shuffled epoch"
    )
    parser.add_argument("--image", metavar="FIELD", help="the field to draw (default: the first image)")
    parser.add_argument(
        "--label", metavar="FIELD", help="the field to write under it (default: cls, label, txt, ...)"
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Writes the picture or the page."""
    suffix = options.output.suffix.lower()
    if suffix not in (".png", ".html", ".htm"):
        raise UsageError(f"--output: expected a name that ends in .png or .html, got {str(options.output)!r}")
    if options.number < 1:
        raise UsageError(f"--number: expected 1 or more, got {options.number}")
    out = Output(as_json=options.json)
    with open_source(options) as opened:
        keys = _keys(opened, options.number, options.shuffle)
        cards = []
        with out.progress("records", len(keys)) as advance:
            for begin in range(0, len(keys), TOGETHER):
                part = keys[begin : begin + TOGETHER]
                cards += [
                    card_of(key, record, image_field=options.image, label_field=options.label)
                    for key, record in zip(part.tolist(), opened.read(part))
                ]
                advance(len(part))
        title = printable(_title(opened))
        how = "in order" if options.shuffle is None else f"shuffled with seed {options.shuffle}"
        subtitle = f"{len(cards):,} of {len(opened):,} records, {how}"
    content = (
        contact_sheet(cards, title, subtitle)
        if suffix == ".png"
        else html_page(cards, title, subtitle).encode()
    )
    try:
        options.output.write_bytes(content)
    except OSError as error:
        raise UsageError(f"--output: {error}") from error
    images = sum(card.image is not None for card in cards)
    out.document(
        {"output": str(options.output), "records": len(cards), "images": images, "bytes": len(content)}
    )
    out.text(f"{options.output}: {len(cards):,} records, {images:,} with an image, {size_text(len(content))}")
    return ExitStatus.DONE


def _keys(opened: OpenedSource, number: int, seed: int | None) -> NDArray[np.int64]:
    number = min(number, len(opened))
    return np.arange(number) if seed is None or not number else shuffled_keys(len(opened), seed, number)


def _title(opened: OpenedSource) -> str:
    first, *more = (name.rpartition("/")[2] for name in opened.names)
    return first + (f" and {len(more)} more" if more else "")
