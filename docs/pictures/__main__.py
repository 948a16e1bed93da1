"""The command `python -m docs.pictures`: makes the runs, and draws them."""

import argparse
import sys

from .drawing import kept, svg_of
from .listed import PICTURES


def main() -> int:
    """Writes the pictures; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m docs.pictures", description="Draws the pages' pictures.")
    parser.add_argument(
        "names", nargs="*", help="files, such as docs/mixtures.svg (default: all)", metavar="FILE"
    )
    parser.add_argument(
        "--kept", action="store_true", help="draw the figures in the files again, without a run"
    )
    given = parser.parse_args()
    known = [picture.name for picture in PICTURES]
    if unknown := {*given.names} - {*known}:
        parser.error(f"expected some of {', '.join(known)}, got {', '.join(sorted(unknown))}")
    for picture in PICTURES:
        if picture.name in (given.names or known):
            figures = kept(picture.path.read_text()) if given.kept else picture.figures()
            picture.path.write_text(svg_of(picture.draw, figures))
            print(picture.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
