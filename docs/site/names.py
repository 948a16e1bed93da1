"""The public names: of which modules, where each is defined, and on which page of the reference it stands."""

import ast
import importlib
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from loaderkit._base import lazy_package

from .pages import ROOT

_TABLE = re.compile(r"^\| module \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class PublicName:
    """A name as the reference shows it.

    Args:
        shown: the shortest path by which a user writes it, such as "loaderkit.IndexSampler".
        others: longer ones, such as "loaderkit.samplers.IndexSampler".
        page: the module on whose page it stands.
        defined: the file's module, and the name in it.
        since: the first release that has it, None where none has.
    """

    shown: str
    others: tuple[str, ...]
    page: str
    defined: str
    since: str | None


def modules() -> list[str]:
    """The public modules that have names, as the table of docs/versions.md lists them."""
    (table,) = _TABLE.findall((ROOT / "docs/versions.md").read_text())
    return re.findall(r"^\| `([\w.]+)` \| (?!none)", table, re.MULTILINE)


def names_of(module: str) -> dict[str, str]:
    """What a module shows, and where each name is defined, without importing the library that it is for.

    Modules below it are left out.

    >>> names_of("loaderkit.interop.tf")
    {'dataset': 'loaderkit.interop.tf.dataset'}
    >>> names_of("loaderkit")["IndexSampler"]
    'loaderkit.samplers.epochs.IndexSampler'
    """
    path = ROOT / module.replace(".", "/")
    if not path.is_dir():
        return {name: f"{module}.{name}" for name in _in_file(path.with_suffix(".py").read_text())}
    front = path / "__init__.pyi"
    if not front.exists():
        return {name: f"{module}.{name}" for name in _in_file((path / "__init__.py").read_text())}
    importlib.import_module(module)  # whose star imports are of lists, too
    found = {}
    for name, (where, defined_as) in lazy_package._names_in(front.read_text(), module).items():
        if defined_as and not name.startswith("_"):
            home = importlib.util.resolve_name(where, module)
            if not (ROOT / home.replace(".", "/") / "__init__.pyi").exists():
                found[name] = f"{home}.{defined_as}"
            elif defined_as in (there := names_of(home)):  # else it is a module
                found[name] = there[defined_as]
    return found


def released() -> dict[str, str]:
    """The names of each release, by the path that they have now, and the first release that has each.

    >>> released()["loaderkit.DataLoader"]
    '0.1.0'
    """
    found, release = {}, ""
    for line in (Path(__file__).parent / "released.txt").read_text().splitlines():
        if line.startswith("loaderkit."):
            found[line] = release
        else:
            release = line
    return found


def _in_file(text: str) -> list[str]:
    body = ast.parse(text).body
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [name for name in defined if not name.startswith("_")]


def _modules_below(module: str) -> list[str]:
    front = ROOT / module.replace(".", "/") / "__init__.pyi"
    return re.findall(r"^from \. import (\w+) as", front.read_text(), re.MULTILINE) if front.exists() else []


def public_names() -> list[PublicName]:
    """All public names, each once, in the order of the modules and their lists."""
    pages = modules()
    listed = {page: page for page in pages}  # module -> its page
    for page in pages:
        # Grain's modules have no rows of their own.
        listed |= {below: page for name in _modules_below(page) if (below := f"{page}.{name}") not in listed}
    listed = {module: page for module, page in listed.items() if module != "loaderkit.interop"}
    paths: dict[str, dict[str, str]] = {}  # where a name is defined -> path by which it is public -> page
    for module, page in listed.items():
        for name, defined in names_of(module).items():
            paths.setdefault(defined, {})[f"{module}.{name}"] = page
    since, found = released(), []
    for defined, by_path in paths.items():
        shown, *others = sorted(by_path, key=lambda path: path.count("."))
        # A name of the front stands where the module of its part is.
        behind = [by_path[path] for path in others if by_path[path] != "loaderkit"]
        near = [page for page in pages if defined.startswith(f"{page}.") and page != "loaderkit"]
        page = by_path[shown]
        if page == "loaderkit" and (behind or near):
            page = behind[0] if behind else max(near, key=len)
        found.append(PublicName(shown, tuple(others), page, defined, since.get(shown)))
    return sorted(found, key=lambda each: pages.index(each.page))
