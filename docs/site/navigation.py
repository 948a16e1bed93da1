"""The list of all pages at the side of each: made once, and marked for each page, as an extension of Sphinx.

Sphinx resolves it and Furo parses it anew for each page, which was a fourth of the time of a build.
"""

import posixpath
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import TocTree

_TAG = re.compile(r"(<(?:ul|li)\b[^>]*>|</(?:ul|li)>)")
_BOX = ' class="toctree-checkbox"'


def setup(app: Sphinx) -> dict[str, Any]:
    """Gives Furo's handler, of priority 500, the same list for all pages, and marks what it makes of it."""
    made: list[str] = []

    def toctree(**options: Any) -> str:
        if not made:
            # As the page of the search shows it, which is at the top and not in the list.
            tree = TocTree(app.env).get_toctree_for("search", app.builder, **options)
            made.append(app.builder.render_partial(tree)["fragment"])
        return made[0]

    def before(_app: Sphinx, page: str, template: str, context: dict[str, Any], document: Any) -> None:
        context["toctree"] = toctree

    def after(_app: Sphinx, page: str, template: str, context: dict[str, Any], document: Any) -> None:
        context["furo_navigation_tree"] = marked(
            context["furo_navigation_tree"], app.builder.get_target_uri(page)
        )

    app.connect("html-page-context", before, priority=400)
    app.connect("html-page-context", after, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def marked(tree: str, address: str) -> str:
    """The list as one page shows it: links lead from there, and it and what is around it are marked and open.

    Args:
        tree: the list as a page of the top folder shows it that isn't in it.
        address: that of the page, from the top folder.

    >>> marked(
    ...     '<ul><li class="toctree-l1"><a class="reference internal" href="a/b.html">b</a></li></ul>',
    ...     "a/c.html",
    ... )
    '<ul><li class="toctree-l1"><a class="reference internal" href="b.html">b</a></li></ul>'
    """
    parts = _TAG.split(tree)
    own = f'<a class="reference internal" href="{address}">'
    here = next((place for place, part in enumerate(parts) if part.startswith(own)), 0)
    closed = 0
    for place in range(here - 1, 0, -2):
        if parts[place].startswith("</"):
            closed += 1
        elif closed:
            closed -= 1
        elif parts[place] == "<ul>":
            parts[place] = '<ul class="current">'
        else:
            parts[place] = re.sub(r"toctree-l\d", r"\g<0> current", parts[place])
            parts[place + 1] = parts[place + 1].replace(_BOX, f' checked=""{_BOX}')
    if here:
        parts[here - 1] = parts[here - 1].replace('">', ' current-page">')
        parts[here] = parts[here].replace('class="', 'class="current ', 1)
    folder = posixpath.dirname(address) or "."

    def moved(link: re.Match[str]) -> str:
        return 'href="#"' if link[1] == address else f'href="{posixpath.relpath(link[1], folder)}"'

    return re.sub(r'href="([^#":]+)"', moved, "".join(parts))
