"""The pages of the reference: each public name once, with its signature, its docstring and its documented members.

The package is read, not imported: the pages are the same whatever libraries are installed. A signature says types as a
user reads them: an alias is what it stands for, where that is short. Classes and longer aliases that aren't public,
such as what `it.stats()` gives, have a page of their own.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import griffe

from .names import PublicName, modules, public_names
from .pages import ROOT

_PARTS = re.compile(r"(?P<example>^>>> .*(?:\n.+)*)|(?P<code>`[^`]*`)|\*", re.MULTILINE)
_SHORT = 50  # letters of an alias's meaning, without the modules of its names, that stand in its place
_TYPES = """# Types in signatures

Classes and aliases that signatures name and that have no public path: don't import them, their place may change in any
release. A value of one comes from what names it."""


class _StandardDataclasses(griffe.Extension):
    """Our dataclasses, which take the standard library's arguments, are those to griffe, too."""

    def on_alias_instance(self, *, alias: griffe.Alias, **_: Any) -> None:
        """Takes our module out of the path of what was imported."""
        if alias.target_path.startswith("loaderkit._base.system.dataclasses."):
            alias.target_path = alias.target_path.removeprefix("loaderkit._base.system.")


class Reference:
    """The pages, made from the package's files."""

    def __init__(self) -> None:
        extensions = griffe.load_extensions(_StandardDataclasses())
        self.package = griffe.load(
            "loaderkit", search_paths=[str(ROOT)], resolve_aliases=True, extensions=extensions
        )
        self.names = public_names()
        self.shown = {self._object(each.defined).path: each.shown for each in reversed(self.names)}
        # Those of the last page, found as signatures of public names, and fields of such types, name them.
        self.types: dict[str, griffe.Object] = {}
        self._of_types = False  # whether methods of such types are read, which give others no place

    def pages(self) -> dict[str, str]:
        """The text of each page, by its place."""
        pages = {
            f"reference/{module.removeprefix('loaderkit.')}.md": self._page(module) for module in modules()
        }
        blocks: dict[str, str] = {}
        while left := self.types.keys() - blocks.keys():
            blocks |= {name: f"## {name}\n\n{self._type_block(self.types[name])}" for name in left}
        return {**pages, "reference/types.md": "\n\n".join([_TYPES, *map(blocks.get, sorted(blocks))]) + "\n"}

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
        kind, signature, members = "data", "", []
        if target.is_function:
            kind, signature = "function", self._signature(target)
        elif target.is_class:
            kind = "exception" if name.page == "loaderkit.errors" else "class"
            # Without `Args:` it takes nothing, or what the docstring names makes it.
            signature = self._signature(target) if ":param " in self._text(target) else ""
            bases = [self.shown[base.path] for base in target.resolved_bases if base.path in self.shown]
            members = ["Base: " + ", ".join(f"{{py:class}}`{path}`" for path in bases)] * bool(bases)
            members += [self._member(each) for each in self._members(target)]
        since = [f"Since {name.since}."] * (name.since is not None)
        text = "\n\n".join([self._text(target), *since, *members])
        canonical = [f":canonical: {path}" for path in name.others[:1]]
        return _directive(kind, name.shown + signature, canonical, text, ticks="``````")

    def _type_block(self, target: griffe.Object) -> str:
        if (meaning := self._meaning(target)) is not None:
            return _directive("type", target.name, [f":canonical: {self._type(meaning)}"], self._text(target))
        text = self._text(target)
        self._of_types = True
        text = "\n\n".join([text, *map(self._member, self._members(target))])
        self._of_types = False
        return _directive("class", target.name, [], text, ticks="``````")

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
            default = "" if each.default is None or star else equals + self._default(each.default)
            shown.append(f"{star}{each.name}{f': {type_}' if type_ else ''}{default}")
        returns = self._type(target.returns) if target.is_function else ""
        return f"({', '.join(shown)})" + (f" -> {returns}" if returns else "")

    def _default(self, value: str | griffe.Expr) -> str:
        """As a user would write it: a constant of ours by its value."""
        if isinstance(value, griffe.ExprCall) and value.canonical_path == "typing.cast":
            value = value.arguments[1]
        if isinstance(value, griffe.ExprName) and value.canonical_path.startswith("loaderkit."):
            found = self._object(value.canonical_path)
            value = found.value if found.is_attribute else value
        return str(value)

    def _type(self, expression: str | griffe.Expr | None) -> str:
        if expression is None or isinstance(expression, str):
            return expression or ""
        if isinstance(expression, griffe.ExprName | griffe.ExprAttribute):
            return self._type_name(expression.canonical_path)
        if (
            isinstance(expression, griffe.ExprSubscript)
            and expression.canonical_path == "dataclasses.InitVar"
        ):
            return self._type(expression.slice)
        return "".join(map(self._type, expression.iterate(flat=False)))

    def _type_name(self, path: str) -> str:
        path = path.removeprefix("builtins.")
        if not path.startswith("loaderkit."):
            return path
        try:
            found = self._object(path)
        except (KeyError, AttributeError):  # of a type variable of a class
            return path.rpartition(".")[2]
        if found.is_module:  # griffe looks for the built-in `range` in the package around, too
            return found.name
        if found.path in self.shown:
            return self.shown[found.path]
        if found.is_attribute:
            meaning = self._meaning(found)
            if meaning is None:
                return found.name
            text = self._type(meaning)
            if len(re.sub(r"\w+\.", "", text)) <= _SHORT:
                return text
        if not self._of_types:
            self.types[found.name] = found
        return found.name

    def _meaning(self, target: griffe.Object) -> griffe.Expr | None:
        """What an alias stands for; None for a class and for a type variable."""
        value = target.value if target.is_attribute else None
        if isinstance(value, str):  # written in quotes
            value = griffe.get_expression(ast.parse(ast.literal_eval(value), mode="eval").body, target.parent)
        return None if isinstance(value, griffe.ExprCall) else value

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
            lines = [f":{field} {name}: {_indented(text)}" for name, text in named]
            if field == "ivar":
                fields = [(name, target.members[name]) for name, _ in named if name in target.members]
                types = [(name, self._type(each.annotation)) for name, each in fields if each.is_attribute]
                lines += [f":vartype {name}: {type_}" for name, type_ in types if type_]
            parts.append("\n".join(lines))
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
