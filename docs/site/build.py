"""Builds the site: all pages in one folder, and Sphinx there. Warnings are errors; nothing comes from the network."""

import shutil
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from . import command_pages, format_pages, pages
from .reference import Reference

CONF = Path(__file__).parent


def build(out: Path) -> int:
    """Builds the site; returns Sphinx's exit status.

    Args:
        out: the folder of the site; beside it are two more, with the pages as Sphinx reads them, and with what it
            keeps for the next time.
    """
    read, kept = out.with_name(f"{out.name}-pages"), out.with_name(f"{out.name}-doctrees")
    made = {
        "reference.md": ("Modules", Reference().pages()),
        "data.md": ("Formats", format_pages.pages()),
        "commands.md": ("Options of each", command_pages.pages()),
    }
    written = pages.written(made)
    for file in [*read.rglob("*")]:
        if file.is_file() and str(file.relative_to(read)) not in written:
            file.unlink()  # of an earlier build
    for place, text in written.items():
        pages.put(read / place, text)
    quick = ["-q", "-W", "--keep-going", "-j", "auto"]
    status = sphinx([*quick, "-c", str(CONF), "-d", str(kept), str(read), str(out)])
    if status:
        shutil.rmtree(kept)  # a page that is kept doesn't warn again
    return status
