"""Sphinx's configuration."""

import re
from collections.abc import Set
from pathlib import Path

from docutils import nodes
from pygments.lexers.python import PythonLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

from docs.site import search_index
from docs.site.names import public_names
from docs.site.pages import unreleased
from loaderkit._base.version import __version__
from loaderkit.cli import COMMANDS

project = "loaderkit"
version = release = __version__
extensions = ["myst_nb", "sphinx_copybutton", "sphinx.ext.intersphinx", "docs.site.navigation"]
html_theme = "furo"
html_title = f"loaderkit {__version__}" + (" + unreleased" if unreleased() else "")
html_show_sourcelink = html_copy_source = False
html_show_copyright = html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
smartquotes = False  # they cost as much time as the reading of a page
add_module_names = False
toc_object_entries = False  # a name of the reference has a heading; in the lists of all pages they cost 20 s
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"\w+"),  # built-in types, and ours that aren't public
    ("py:class", r"orbax\.checkpoint\.future\.Future"),  # Orbax has no page of it
]
myst_enable_extensions = ["fieldlist"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # a notebook is committed as it ran; tests/test_notebooks.py runs it
nb_output_stderr = "show"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
intersphinx_mapping = {
    name: (address, str(Path(__file__).parent / f"inventories/{name}.txt"))
    for name, address in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "jax": "https://docs.jax.dev/en/latest/",
    }.items()
}
_SHOWN = {
    path.removeprefix("loaderkit"): each.shown
    for each in public_names()
    for path in (each.shown, *each.others)
}


class _Builder(StandaloneHTMLBuilder):
    """Sphinx's, with our index for the search in place of its own, which has no scores."""

    def load_indexer(self, docnames: Set[str]) -> None:
        """Keeps nothing of an older index."""

    def index_page(self, pagename: str, doctree: nodes.document, title: str) -> None:
        """Leaves a page to `dump_search_index`, which needs all of them."""

    def dump_search_index(self) -> None:
        """Writes the index."""
        names = sorted(self.env.found_docs)
        pages = ((f"{name}.html", search_index.sections_of(self.env.get_doctree(name))) for name in names)
        (self.outdir / "searchindex.js").write_text(search_index.index(pages))


def setup(app: Sphinx) -> None:
    """Adds what the pages need beyond Sphinx's own."""
    app.add_builder(_Builder, override=True)
    app.add_lexer("pytorch", PythonLexer)  # of blocks that run where PyTorch is installed
    app.connect("doctree-read", _link_names)
    app.connect("doctree-read", _mark_long_cells)


def _link_names(app: Sphinx, document: nodes.document) -> None:
    """Makes links of the public names and the commands that stand between backticks as a user writes them."""
    here = app.env.docname
    for code in [*document.findall(nodes.literal)]:
        name = re.match(r"lk((?:\.\w+)+)", code.astext())
        command = re.match(r"loaderkit (\w+)", code.astext())
        if isinstance(code.parent, nodes.reference | addnodes.pending_xref):
            continue
        if name and name[1] in _SHOWN:
            link = addnodes.pending_xref(
                refdomain="py", reftype="obj", reftarget=_SHOWN[name[1]], refdoc=here
            )
        elif command and command[1] in COMMANDS and here != (page := f"commands/{command[1]}"):
            link = nodes.reference(refuri=app.builder.get_relative_uri(here, page), internal=True)
        else:
            continue
        code.replace_self(link)
        link += code


def _mark_long_cells(app: Sphinx, document: nodes.document) -> None:
    """Marks the cells of tables that have a sentence, to which site.css leaves room in a narrow window."""
    for cell in document.findall(nodes.entry):
        if len(cell.astext()) > 40:
            cell["classes"].append("long")
