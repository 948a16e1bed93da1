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
        "data-files.md": ("Formats", format_pages.pages()),
        "commands.md": ("Options of each", command_pages.pages()),
    }
    written = pages.written(made)
    before = {str(file.relative_to(read)) for file in read.rglob("*") if file.is_file()}
    for place in before - written.keys():
        (read / place).unlink()
        (out / place).with_suffix(".html").unlink(missing_ok=True)
    for place, text in written.items():
        pages.put(read / place, text)
    how = ["-q", "-W", "--keep-going", "-j", "auto"]
    if before != written.keys():
        how.append("--write-all")  # each page lists all others
    status = sphinx([*how, "-c", str(CONF), "-d", str(kept), str(read), str(out)])
    if status:
        shutil.rmtree(kept, ignore_errors=True)  # a page that is kept doesn't warn again
    return status
