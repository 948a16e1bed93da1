"""Builds the site: all pages in one folder, and Sphinx there. Warnings are errors; nothing comes from the network."""

from pathlib import Path

from sphinx.cmd.build import main as sphinx

from . import command_pages, format_pages, pages
from .reference import Reference

CONF = Path(__file__).parent


def build(out: Path) -> int:
    """Builds the site; returns Sphinx's exit status.

    Args:
        out: the folder of the site; beside it is another one with the pages as Sphinx read them, and what it keeps for
            the next time.
    """
    read = out.with_name(f"{out.name}-pages")
    made = {
        "reference.md": Reference().pages(),
        "data.md": format_pages.pages(),
        "commands.md": command_pages.pages(),
    }
    for place, text in pages.written(made).items():
        pages.put(read / place, text)
    quick = ["-q", "-W", "--keep-going", "-j", "auto"]
    return sphinx([*quick, "-c", str(CONF), "-d", str(read / ".doctrees"), str(read), str(out)])
