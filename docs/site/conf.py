"""Sphinx's configuration."""

import re
import tempfile
import zlib
from pathlib import Path

from docutils import nodes
from pygments.lexers.python import PythonLexer
from sphinx import addnodes
from sphinx.application import Sphinx

from docs.site import search_index
from docs.site.names import public_names
from loaderkit._base.version import __version__

project = "loaderkit"
version = release = __version__
extensions = ["myst_nb", "sphinx_copybutton", "sphinx.ext.intersphinx"]
html_theme = "furo"
html_title = f"loaderkit {__version__}"
html_show_sourcelink = html_copy_source = False
html_show_copyright = html_show_sphinx = False
html_static_path = ["static"]
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


def _inventory(file: Path) -> tuple[str, str]:
    """Sphinx's inventory of the names of another project that the reference links to, and where its pages are.

    The text that it is made from has the project's address, and a line for each name.
    """
    address, *names = file.read_text().splitlines()
    lines = [f"{name} {kind} 1 {page} -\n" for name, kind, page in map(str.split, names)]
    head = f"# Sphinx inventory version 2\n# Project: {file.stem}\n# Version:\n# zlib\n"
    made = Path(tempfile.mkdtemp()) / f"{file.stem}.inv"
    made.write_bytes(head.encode() + zlib.compress("".join(lines).encode()))
    return address, str(made)


intersphinx_mapping = {
    file.stem: _inventory(file) for file in Path(__file__).parent.glob("inventories/*.txt")
}

_SHOWN = {
    path.removeprefix("loaderkit"): each.shown
    for each in public_names()
    for path in (each.shown, *each.others)
}


def setup(app: Sphinx) -> None:
    """Adds what the pages need beyond Sphinx's own."""
    app.add_lexer("pytorch", PythonLexer)  # of blocks that run where PyTorch is installed
    app.connect("doctree-read", _link_names)
    app.connect("build-finished", _write_search_index)


def _link_names(app: Sphinx, document: nodes.document) -> None:
    """Makes a link to the reference of each public name that stands between backticks as a user writes it."""
    for code in [*document.findall(nodes.literal)]:
        written = re.match(r"lk((?:\.\w+)+)", code.astext())
        target = _SHOWN.get(written[1]) if written else None
        if target and not isinstance(code.parent, nodes.reference | addnodes.pending_xref):
            link = addnodes.pending_xref(
                refdomain="py", reftype="obj", reftarget=target, refdoc=app.env.docname
            )
            code.replace_self(link)
            link += code


def _write_search_index(app: Sphinx, error: Exception | None) -> None:
    # In place of Sphinx's, which has no scores.
    names = sorted(app.env.found_docs)
    pages = ((f"{name}.html", search_index.sections_of(app.env.get_doctree(name))) for name in names)
    (app.outdir / "searchindex.js").write_text(search_index.index(pages))
