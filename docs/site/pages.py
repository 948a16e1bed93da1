"""Which pages the site has, in which order, and where the files of the repository are in it."""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _listed() -> dict[str, dict[str, str]]:
    _, *parts = re.split(r"^## ", (ROOT / "docs/README.md").read_text(), flags=re.MULTILINE)
    pages = {
        part.partition("\n")[0]: re.findall(r"^- \[[^\]]+\]\(([^)]+)\): (.+)$", part, re.MULTILINE)
        for part in parts
    }
    return {
        section: {posixpath.normpath(f"docs/{path}"): said for path, said in found}
        for section, found in pages.items()
    }


# Section -> its pages, paths in the repository -> what each is about. One page is the section's own; several are listed
# on one that is made.
SECTIONS = _listed()
# Files that the pages show or offer.
SHOWN = [
    *(
        str(path.relative_to(ROOT))
        for path in (*ROOT.glob("docs/*.svg"), *ROOT.glob("benchmarks/figures/*.svg"))
    ),
    *("docs/train_many_hosts.py", "docs/train_imagenet.py"),
]
# The list of pages is at the side of each page of the site.
INSTEAD = {
    "docs/README.md": "index.md",
    "docs/start.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
}
_LINK = re.compile(r"(?P<named>\[[\w/.-]+\.(?:md|ipynb)\]\(|(?<=\]\())(?P<path>[^)#:\s]+)(?=[)#])")


def sources() -> Iterator[str]:
    """The files of the repository of which the site is made."""
    for pages in SECTIONS.values():
        yield from pages
    yield from SHOWN


def place_of(path: str) -> str:
    """Where a file of the repository is in the site's folder: pages of docs/ at its top, all names in small letters.

    >>> place_of("docs/guide.md"), place_of("CHANGELOG.md"), place_of("notebooks/03_many_hosts.ipynb")
    ('guide.md', 'changelog.md', 'notebooks/03_many_hosts.ipynb')
    """
    return INSTEAD.get(path) or path.removeprefix("docs/").lower()


def text_of(path: str) -> str:
    """The text of a file of the repository, with links that lead where the files are in the site.

    Where a link's text is the file's name, the reader sees the title of the page or section.
    """
    text = (ROOT / path).read_text()
    if not path.endswith((".md", ".ipynb")):
        return text
    here = posixpath.dirname(place_of(path))

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link["path"]))
        return f"{'[](' if link['named'] else ''}{posixpath.relpath(place_of(target), here or '.')}"

    return _LINK.sub(moved, text)


def unreleased() -> str:
    """What the changelog lists that no release has yet."""
    changes = (ROOT / "CHANGELOG.md").read_text()
    return "".join(re.findall(r"^## Unreleased\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)).strip()


def sections() -> str:
    """The list of the sections, below the first page."""
    _, *others = SECTIONS.items()
    places = ["self", *(_head(section, pages) for section, pages in others)]
    return tree([f"{section} <{place}>" for section, place in zip(SECTIONS, places)])


def _head(section: str, pages: Mapping[str, str]) -> str:
    return f"{slug(section)}.md" if len(pages) > 1 else place_of(*pages)


def slug(section: str) -> str:
    """The file's name of a section that has a page which lists others.

    >>> slug("Moving from …")
    'moving-from'
    """
    return "-".join(re.findall(r"\w+", section.lower()))


def listing(section: str, pages: Mapping[str, str]) -> str:
    """The page of a section: its pages, with what each is about."""
    lines = [f"- []({place_of(path)}): {said}" for path, said in pages.items()]
    return f"# {section}\n\n" + "\n".join(lines) + "\n\n" + tree([place_of(path) for path in pages])


def tree(entries: list[str], option: str = ":hidden:") -> str:
    """The list of the pages below one, which isn't seen on it unless with another option."""
    return f"```{{toctree}}\n{option}\n\n" + "".join(f"{entry}\n" for entry in entries) + "```\n"


def written(made: Mapping[str, tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The text of each file of the site, by its place.

    Args:
        made: pages that are made from the code: place of the page that lists them -> heading of that list, and their
            texts by their places.
    """
    files = {place_of(path): text_of(path) for path in sources()}
    files["index.md"] += "\n" + sections()
    for section, pages in SECTIONS.items():
        if len(pages) > 1:
            files[_head(section, pages)] = listing(section, pages)
    for above, (heading, below) in made.items():
        files[above] += f"\n## {heading}\n\n" + tree([*below], ":titlesonly:")
        files |= below
    return files


def put(file: Path, text: str) -> None:
    """Writes a file, unless it has this text."""
    if not file.exists() or file.read_text() != text:
        os.makedirs(file.parent, exist_ok=True)
        file.write_text(text)
