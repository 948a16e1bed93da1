"""A name of a class has one meaning, and what docs/architecture.md names is there."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "loaderkit"
PAGE = (ROOT / "docs/architecture.md").read_text()

# Grain's names are Grain's, in a room of their own beside ours; the demo shows what a user writes.
MAY_SHARE_NAMES = ("interop/grain/", "cli/demo/")


def section(title: str) -> str:
    """The text of a section of the page, up to the next title."""
    start = PAGE.index(f"\n{title}\n") + len(title) + 2
    found = re.search(r"^##", PAGE[start:], re.MULTILINE)
    return PAGE[start : start + found.start()] if found else PAGE[start:]


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def classes() -> list[tuple[Path, ast.ClassDef]]:
    """The classes of the package, in the order of its files; parsed once."""
    return [(file, node) for file in files() for node in classes_in(ast.parse(file.read_bytes()))]


def classes_in(node: ast.AST) -> Iterator[ast.ClassDef]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ClassDef):
            yield inner
        if not isinstance(inner, ast.expr):  # no expression holds a class, and nine of ten nodes are in one
            yield from classes_in(inner)


def test_one_name_has_one_meaning():
    """No two classes of the package a name."""
    ours = [
        node.name
        for file, node in classes()
        if not str(file.relative_to(PACKAGE)).startswith(MAY_SHARE_NAMES)
    ]
    assert [name for name, count in Counter(ours).items() if count > 1] == []


def test_files_that_the_page_names_exist():
    """A reader follows them."""
    named = {*re.findall(r"`([\w/]+\.py)`", PAGE)}
    assert [path for path in named if not (PACKAGE / path).exists() and not (ROOT / path).exists()] == []


LIVES = ["## The contracts", "## The life of a batch", "## The life of a checkpoint", "## When a worker dies"]


@pytest.mark.parametrize("title", LIVES)
def test_names_that_the_page_gives_are_in_the_package(title):
    """A step that names a method of a class names one that the class itself defines."""
    known = words_of_the_package()
    members = members_of_classes()
    wrong = set()
    for name in {*re.findall(r"`([A-Za-z_][\w.]*)(?:\(\))?`", section(title))}:
        owner, _, member = name.rpartition(".")
        if not name.endswith(".py") and (
            {*name.split(".")} - known or member not in members.get(owner, member)
        ):
            wrong.add(name)
    assert wrong == set()


@cache
def words_of_the_package() -> set[str]:
    """The words of all files."""
    return {word for file in files() for word in re.findall(r"\w+", file.read_text())}


@cache
def members_of_classes() -> dict[str, set[str]]:
    """The methods and annotated fields that each class of the package defines, by the class's name."""
    found: dict[str, set[str]] = {}
    for _, node in classes():
        methods = [
            each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
        found.setdefault(node.name, set()).update(methods)
        found[node.name] |= {field.id for field in fields if isinstance(field, ast.Name)}
    return found
