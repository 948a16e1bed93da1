"""Which pages the site has, in which order, and where the files of the repository are in it."""

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Section -> its pages: paths in the repository. A section is a page of its own, or has one that lists its pages.
SECTIONS = {
    "Start": "docs/start.md",
    "Guides": [
        *("docs/guide.md", "docs/datasets.md", "docs/mixtures.md", "docs/packing.md", "docs/pretraining.md"),
        *("docs/images.md", "docs/pictures-on-accelerators.md", "docs/jax.md", "docs/many-hosts.md"),
        *("docs/cluster.md", "docs/performance.md", "docs/bad-records.md", "docs/excluding.md"),
        *("docs/lineage.md", "docs/testing-your-own.md"),
    ],
    "Data": "docs/data.md",
    "How-to": "docs/cookbook.md",
    "Notebooks": [
        "notebooks/01_dataloader_guide.ipynb",
        "notebooks/02_determinism_and_resume.ipynb",
        "notebooks/03_many_hosts.ipynb",
        "notebooks/04_language_model.ipynb",
        "notebooks/05_is_my_loader_the_bottleneck.ipynb",
        "notebooks/06_table_and_holograms.ipynb",
        "notebooks/10_a_loader_in_60_lines.ipynb",
    ],
    "Moving from …": [
        *("docs/which-loader.md", "docs/moving-from-grain.md", "docs/moving-from-pytorch.md"),
        *("docs/moving-from-tf-data.md", "docs/moving-from-webdataset.md", "docs/moving-from-keras.md"),
        *("docs/moving-from-hf-datasets.md", "docs/moving-from-streaming.md", "docs/moving-from-litdata.md"),
        "notebooks/07_pytorch_data_guide.ipynb",
        "notebooks/08_tfds_and_tf_data_guide.ipynb",
        "notebooks/09_webdataset_guide.ipynb",
    ],
    "Concepts": [
        *("docs/determinism.md", "docs/state.md", "docs/which-bytes.md", "docs/faults.md"),
        *("docs/versions.md", "docs/architecture.md", "SECURITY.md", "benchmarks/README.md"),
    ],
    "Reference": "docs/reference.md",
    "Commands": "docs/commands.md",
    "Contributing": "CONTRIBUTING.md",
    "Changelog": "CHANGELOG.md",
}
# Files that the pages show or offer; and the README, of which the first page has the parts that others refer to.
SHOWN = [
    *(
        str(path.relative_to(ROOT))
        for path in (*ROOT.glob("docs/*.svg"), *ROOT.glob("benchmarks/figures/*.svg"))
    ),
    *("docs/train_many_hosts.py", "docs/train_imagenet.py"),
]
INSTEAD = {"README.md": "index.md", "docs/start.md": "index.md", "benchmarks/README.md": "benchmarks.md"}
_LINK = re.compile(r"(?P<named>\[[\w/.-]+\.(?:md|ipynb)\]\(|(?<=\]\())(?P<path>[^)#:\s]+)(?=[)#])")


def sources() -> Iterator[str]:
    """The files of the repository of which the site is made."""
    for pages in SECTIONS.values():
        yield from [pages] if isinstance(pages, str) else pages
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


def described() -> dict[str, str]:
    """What the README's table of documents says of each page."""
    rows = re.findall(r"^\| \[([^\]]+)\]\(\1\) \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    return dict(rows)


def sections() -> str:
    """The list of the sections, below the first page."""
    places = [
        place_of(pages) if isinstance(pages, str) else f"{slug(name)}.md" for name, pages in SECTIONS.items()
    ]
    places[0] = "self"
    return tree([f"{name} <{place}>" for name, place in zip(SECTIONS, places)])


def slug(section: str) -> str:
    """The file's name of a section that has a page which lists others.

    >>> slug("Moving from …")
    'moving-from'
    """
    return "-".join(re.findall(r"\w+", section.lower()))


def listing(section: str, pages: list[str]) -> str:
    """The page of a section: its pages, with what each is about."""
    said = described()
    lines = [f"- []({place_of(path)})" + (f": {said[path]}" if path in said else "") for path in pages]
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
    for section, paths in SECTIONS.items():
        if not isinstance(paths, str):
            files[f"{slug(section)}.md"] = listing(section, paths)
    for above, (heading, below) in made.items():
        files[above] += f"\n## {heading}\n\n" + tree([*below], ":titlesonly:")
        files |= below
    return files


def put(file: Path, text: str) -> None:
    """Writes a file, unless it has this text."""
    if not file.exists() or file.read_text() != text:
        os.makedirs(file.parent, exist_ok=True)
        file.write_text(text)
