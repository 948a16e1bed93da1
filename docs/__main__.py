"""The command `python -m docs`: makes the site of the pages, the notebooks and the docstrings."""

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Makes the site; returns the exit status, 1 where a page warns."""
    parser = argparse.ArgumentParser(prog="python -m docs", description="The site of loaderkit.")
    parser.add_argument("command", choices=["build"])
    parser.add_argument(
        "--out", type=Path, default=Path("build/site"), help="its folder (default: %(default)s)"
    )
    given = parser.parse_args()
    try:
        from .site.build import build
    except ModuleNotFoundError as error:
        print(f"python -m docs: {error.name} is missing: pip install '.[docs]' in the clone", file=sys.stderr)
        return 2
    return build(given.out)


if __name__ == "__main__":
    sys.exit(main())
