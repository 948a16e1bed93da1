"""The command `python -m docs`: makes the site of the pages, the notebooks and the docstrings, and pictures of it."""

import argparse
import gc
import sys
from pathlib import Path


def main() -> int:
    """Does what is asked for; returns the exit status, 1 where a page warns."""
    parser = argparse.ArgumentParser(prog="python -m docs", description="The site of loaderkit.")
    parser.add_argument(
        "command", choices=["build", "screenshots"], help="make it, or pictures of ten pages of the one made"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("build/site"), help="its folder (default: %(default)s)"
    )
    given = parser.parse_args()
    if given.command == "screenshots":
        from .site.screenshots import write

        return write(given.out)
    try:
        from .site.build import build
    except ModuleNotFoundError as error:
        print(f"python -m docs: {error.name} is missing: pip install '.[docs]' in the clone", file=sys.stderr)
        return 2
    gc.disable()  # looking for unused trees of pages, again and again, took almost half of the time
    return build(given.out)


if __name__ == "__main__":
    sys.exit(main())
