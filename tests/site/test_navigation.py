"""The list of pages beside each page: ours is what Sphinx and Furo make, byte by byte."""

import subprocess
import sys

import pytest
from building import ROOT

pytest.importorskip("furo", reason="the extra docs isn't installed")

TREE = "\n\n.. toctree::\n   :hidden:\n\n   "
PAGES = {
    "index": "Start" + TREE + "Start <self>\n   guides\n   alone",
    "guides": "Guides & ``more``" + TREE + "guides/first\n   guides/below",
    "guides/first": "The first",
    "guides/below": "Below" + TREE + "../deep/est",
    "deep/est": "Deepest",
    "alone": "Alone",
}


def test_the_list_of_pages_is_that_of_sphinx(tmp_path):
    """On pages at the top, in folders, with pages below them and on that of the search."""
    for page, text in PAGES.items():
        title, *rest = text.split("\n")
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{page}.rst").write_text("\n".join([title, "=" * len(title), *rest]))
    slow = built(tmp_path, tmp_path / "slow")
    fast = built(tmp_path, tmp_path / "fast", "-D", "extensions=docs.site.navigation")
    assert fast == slow and "search.html" in fast
    assert {page for page, text in fast.items() if "current-page" in text} == {
        f"{page}.html" for page in PAGES
    }


def built(folder, out, *options):
    """The text of the pages, by their places."""
    sphinx = [sys.executable, "-m", "sphinx", "-C", "-q", "-W", "-D", "html_theme=furo", *options]
    subprocess.run([*sphinx, str(folder), str(out)], cwd=ROOT, check=True)
    return {str(page.relative_to(out)): page.read_text() for page in out.rglob("*.html")}
