"""The pages of the reference: each public name once, with its signature, its docstring and its documented members.

The package is read, not imported: the pages are the same whatever libraries are installed.
"""

import contextlib
import functools
import re
import textwrap
from collections.abc import Iterator

import griffe

from .names import PublicName, modules, public_names
from .pages import ROOT

_PARTS = re.compile(r"(?P<example>^>>> .*(?:\n.+)*)|(?P<code>`[^`]*`)|\*", re.MULTILINE)


class Reference:
    """The pages, made from the package's files."""

    def __init__(self) -> None:
        self.package = griffe.load("loaderkit", search_paths=[str(ROOT)], resolve_aliases=True)
        self.names = public_names()
        self.shown = {each.defined: each.shown for each in self.names}

    def pages(self) -> dict[str, str]:
        """The text of each page, by its place."""
        return {
            f"reference/{module.removeprefix('loaderkit.')}.md": self._page(module) for module in modules()
        }

    def _page(self, module: str) -> str:
        doc = self._object(module).docstring
        intro = _markdown(doc.value) if doc else ""
        named = [each for each in self.names if each.page == module]
        blocks = [f"## {each.shown.rpartition('.')[2]}\n\n{self._block(each)}" for each in named]
        return (
            f"# {module}\n\n```{{py:module}} {module}\n```\n```{{py:currentmodule}} None\n```\n\n{intro}\n\n"
            + "\n\n".join(blocks)
            + "\n"
        )

    def _object(self, path: str) -> griffe.Object:
        found = self.package
        for part in path.split(".")[1:]:
            found = found.members[part]
            found = found.final_target if found.is_alias else found
        return found

    def _block(self, name: PublicName) -> str:
        target = self._object(name.defined)
        if target.is_attribute:
            return _directive("data", name.shown, self._canonical(name), self._text(target))
        if target.is_function:
            return _directive(
                "function", name.shown + self._signature(target), self._canonical(name), self._text(target)
            )
        signature = (
            self._signature(target) if len(target.parameters) > 1 or "dataclass" in target.labels else ""
        )
        kind = "exception" if name.page == "loaderkit.errors" else "class"
        members = [self._member(each) for each in self._members(target)]
        bases = [path for base in target.bases if (path := self._type(base)) in self.shown.values()]
        inherits = ["Base: " + ", ".join(f"{{py:class}}`{path}`" for path in bases)] * bool(bases)
        text = "\n\n".join([self._text(target), *inherits, *members])
        return _directive(kind, name.shown + signature, self._canonical(name), text, ticks="``````")

    def _canonical(self, name: PublicName) -> list[str]:
        return [f":canonical: {path}" for path in name.others[:1]]

    def _members(self, target: griffe.Class) -> Iterator[griffe.Object]:
        for name, member in target.all_members.items():
            found = member.final_target if member.is_alias else member
            elsewhere = found.parent is not target and found.parent.path in self.shown
            if not name.startswith("_") and found.docstring and not found.is_class and not elsewhere:
                yield found

    def _member(self, member: griffe.Object) -> str:
        if member.is_function:
            first = [each.name for each in member.parameters][:1]
            kind = "classmethod" if "classmethod" in member.labels else "staticmethod"
            options = [] if first == ["self"] else [f":{kind}:"]
            return _directive("method", member.name + self._signature(member), options, self._text(member))
        type_ = self._type(member.annotation)
        kind = "property" if "property" in member.labels else "attribute"
        return _directive(kind, member.name, [f":type: {type_}"] if type_ else [], self._text(member))

    def _signature(self, target: griffe.Function | griffe.Class) -> str:
        shown: list[str] = []
        keyword_only = False
        for each in target.parameters:
            if each.name in ("self", "cls"):
                continue
            star = {"variadic positional": "*", "variadic keyword": "**"}.get(each.kind.value, "")
            if each.kind.value == "keyword-only" and not keyword_only:
                shown.append("*")
            keyword_only |= each.kind.value in ("keyword-only", "variadic positional")
            type_ = self._type(each.annotation)
            equals = " = " if type_ else "="
            default = "" if each.default is None or star else f"{equals}{each.default}"
            shown.append(f"{star}{each.name}{f': {type_}' if type_ else ''}{default}")
        returns = self._type(target.returns) if target.is_function else ""
        return f"({', '.join(shown)})" + (f" -> {returns}" if returns else "")

    def _type(self, expression: str | griffe.Expr | None) -> str:
        if expression is None or isinstance(expression, str):
            return expression or ""
        if isinstance(expression, griffe.ExprName | griffe.ExprAttribute):
            return self._type_name(expression.canonical_path)
        return "".join(map(self._type, expression.iterate(flat=False)))

    @functools.cache  # noqa: B019 - one object, as long as the build
    def _type_name(self, path: str) -> str:
        path = path.removeprefix("builtins.")
        if not path.startswith("loaderkit."):
            return path
        with contextlib.suppress(KeyError, AttributeError):  # of a type variable
            path = self._object(path).path
        # conf.py makes no link of a name without a module.
        return self.shown.get(path) or path.rpartition(".")[2]

    def _text(self, target: griffe.Object) -> str:
        if target.docstring is None:
            return ""
        parts = []
        for section in target.docstring.parse("google", warnings=False):
            if section.kind.value == "text":
                parts.append(_markdown(section.value))
                continue
            field = {"parameters": "param", "attributes": "ivar"}[section.kind.value]
            # Several arguments may have one text; a field of Sphinx has one name.
            named = [(name, each.description) for each in section.value for name in each.name.split(", ")]
            parts.append("\n".join(f":{field} {name}: {_indented(text)}" for name, text in named))
        return "\n\n".join(parts)


def _indented(text: str) -> str:
    return textwrap.indent(_markdown(text), "    ").strip()


def _markdown(docstring: str) -> str:
    """A docstring as Markdown: its examples are blocks, and a star, as in 2**64, is one."""
    return _PARTS.sub(_marked, docstring)


def _marked(part: re.Match[str]) -> str:
    return f"```python\n{part['example']}\n```" if part["example"] else part["code"] or "\\*"


def _directive(kind: str, head: str, options: list[str], text: str, ticks: str = "`````") -> str:
    return "\n".join([f"{ticks}{{py:{kind}}} {head}", *options, "", text, ticks])
