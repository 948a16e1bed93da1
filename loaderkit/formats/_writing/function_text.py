"""What the user's functions do, as text, by which a run is compared with the one that it goes on for.

Of a function it is the source without comments, docstrings and layout, and with it the defaults, what the closure and
the globals hold, and all of the user's own functions that are called. Of an object it is what pickle would write. Of
libraries it is their versions. Of a tokenizer of another library it is what `known_tokenizer` says.
"""

import ast
import copyreg
import functools
import hashlib
import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from loaderkit._base.canonical_json import canonical
from loaderkit._source.version import attributes_of, version_of
from loaderkit.transforms.base import Transformation
from loaderkit.transforms.known_tokenizer import KnownTokenizer, known_tokenizer

_MOST_TEXT = 200  # of a value that is kept as it is
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
_SITE = re.compile(r"[/\\](site|dist)-packages[/\\]")
_LOADERKIT = __name__.partition(".")[0]
# A folder beside them may have a name that begins with theirs.
_INSTALLED = tuple(
    os.path.join(folder, "") for folder in (os.path.dirname(os.__file__), Path(__file__).parents[2])
)


class FunctionText:
    """The text of functions and of what they use.

    Args:
        functions: by name, each a function, another object that can be called, or None.
        source: a data source of which the functions are looked for, as of a MapDataSource; the records are no part.

    Attributes:
        code: the source of each of the user's functions, by the way that leads to it.
        values: what else they use, likewise. tokenizers: the tokenizers among it.
        libraries: versions of the libraries that they use.
        not_compared: ways to objects of which a change isn't seen.

    >>> shift = 3
    >>> told = FunctionText({"function": lambda x: x + shift})
    >>> told.values
    {'function.shift': '3'}
    """

    def __init__(self, functions: Mapping[str, Any], source: Any = None) -> None:
        self.code: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.tokenizers: dict[str, str] = {}
        self.libraries: dict[str, str] = {}
        self.not_compared: list[str] = []
        self._told: dict[int, tuple[Any, str]] = {}  # by id, with the object, which lives on
        for name, function in functions.items():
            if function is not None:
                self._add(name, function)
        self._add_source("source", source)

    def as_json(self) -> dict[str, Any]:
        """All but the libraries and tokenizers, as JSON values."""
        return {"code": self.code, "values": self.values, "not compared": self.not_compared}

    def _add(self, way: str, value: Any) -> None:
        text = self._text(way, value)
        if text != way:  # as of a function, of which the text is in `code`
            self.values[way] = text

    def _text(self, way: str, value: Any) -> str:
        if isinstance(value, _PLAIN):
            return _short(repr(value))
        if id(value) not in self._told:
            self._told[id(value)] = value, way  # where it holds itself
            try:
                text = _short(self._described(way, value))
            except Exception:  # noqa: BLE001 - the user's objects may raise anything
                self.not_compared.append(f"{way}: {type(value).__module__}.{type(value).__qualname__}")
                text = "not compared"
            self._told[id(value)] = value, text
        return self._told[id(value)][1]

    def _described(self, way: str, value: Any) -> str:
        if isinstance(value, ModuleType):
            return self._library(value.__name__)
        if isinstance(value, FunctionType | type):
            if not _is_own(value):
                return self._library(value.__module__, value.__qualname__)
            return self._function(way, value) if isinstance(value, FunctionType) else self._class(way, value)
        if hasattr(value, "__wrapped__") or isinstance(value, property):  # as of functools.cache, jax.jit
            return self._text(way, value.fget if isinstance(value, property) else value.__wrapped__)
        if isinstance(value, CodeType):
            told = f"{value.co_code!r} {value.co_names} {self._text(way, value.co_consts)}"
            return f"code of {sys.implementation.cache_tag}: {_hash(told.encode('utf-8', 'replace'))}"
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return f"array of {value.dtype.str} {value.shape} {_hash(np.ascontiguousarray(value).tobytes())}"
        if type(value) in (list, tuple):
            begin, end = "[]" if type(value) is list else "()"
            return f"{begin}{', '.join(self._text(way, part) for part in value)}{end}"
        if type(value) in (set, frozenset):
            return f"set of {sorted(self._text(way, part) for part in value)}"
        if type(value) is dict:
            parts = (
                (self._text(way, key), self._text(f"{way}[{key!r:.40}]", part)) for key, part in value.items()
            )
            return f"{{{', '.join(sorted(': '.join(pair) for pair in parts))}}}"
        return self._object(way, value)

    def _object(self, way: str, value: Any) -> str:
        cls = type(value)
        name = self._text(f"{way}.{cls.__name__}", cls)
        known = value if isinstance(value, KnownTokenizer) else known_tokenizer(value)
        if known is not None:
            self._library(known.kind)
            self._library("tokenizers")  # which transformers calls
            self.tokenizers[way] = str(known)
            return way
        ours = cls.__module__.startswith(f"{_LOADERKIT}.")
        if ours and issubclass(cls, Transformation) and (fields := getattr(cls, "__dataclass_fields__", ())):
            for field in fields:
                self._add(f"{way}.{field}", getattr(value, field))
            return name
        if ours and hasattr(value, "fingerprint"):
            return f"{name} {canonical(version_of(value))}"
        if hasattr(value, "__array__") and hasattr(value, "detach"):  # pickle writes a tensor's address
            return f"{name} {self._text(way, np.asarray(value.detach().cpu()))}"
        reduce: Any = copyreg.dispatch_table.get(cls)
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(reduced, str):
            return self._library(getattr(value, "__module__", None) or cls.__module__, reduced)
        made, arguments, *held = reduced
        held[1:] = [each and [*each] for each in held[1:3]]  # the items of a list and of a dict
        return f"{name} {self._text(way, (made, *arguments, *held))}"

    def _function(self, way: str, function: FunctionType) -> str:
        way += f" ({len(self.code)})" if way in self.code else ""
        self.code[way] = _source_of(function.__code__) or self._text(way, function.__code__)
        names = {*_names(function.__code__)}
        used = {name: value for name, value in function.__globals__.items() if name in names}
        used |= {"defaults": function.__defaults__} if function.__defaults__ else {}
        used |= function.__kwdefaults__ or {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                used[name] = cell.cell_contents
            except ValueError:  # empty yet
                continue
        for name, value in sorted(used.items()):
            if isinstance(value, ModuleType) and _is_own(value):
                used |= {f"{name}.{each}": vars(value)[each] for each in names & vars(value).keys()}
        for name, value in sorted(used.items()):
            self._add(f"{way}.{name}", value)
        return way

    def _class(self, way: str, cls: type) -> str:
        members = {name: each for name, each in vars(cls).items() if name[:2] != "__" or callable(each)}
        members.pop("_abc_impl", None)
        for name, value in (members | {base.__name__: base for base in cls.__bases__}).items():
            self._add(f"{way}.{name}", value)
        return way

    def _library(self, module: str, name: str = "") -> str:
        library = module.partition(".")[0]
        version = getattr(sys.modules.get(library), "__version__", None)
        if version is not None and library not in (*sys.stdlib_module_names, _LOADERKIT):
            self.libraries[library] = str(version)
        return f"{module}.{name}".rstrip(".")

    def _add_source(self, way: str, source: Any) -> None:
        """The functions of a source: those that it holds, and the methods of a class of the user's."""
        if _is_own(type(source)):
            self._add(way, type(source))
        elif not type(source).__module__.startswith(_LOADERKIT):
            return
        for name, part in attributes_of(source):
            if hasattr(type(part), "__getitem__") and not isinstance(part, _PLAIN):
                self._add_source(f"{way}.{name.lstrip('_')}", part)
            elif callable(part) and (_is_operation(part) or not _module_of(part).startswith(_LOADERKIT)):
                self._add(f"{way}.{name.lstrip('_')}", part)


def _is_own(value: Any) -> bool:
    """Whether a module, function or class is the user's, not of Python, of an installed library or of loaderkit."""
    module = value if isinstance(value, ModuleType) else sys.modules.get(value.__module__ or "")
    if module is None or module.__name__ == "__main__" or getattr(value, "__name__", None) == "<lambda>":
        return True
    file = getattr(module, "__file__", None)
    return file is not None and not file.startswith(_INSTALLED) and not _SITE.search(file)


def _is_operation(part: Any) -> bool:
    """Whether it is an operation, or a method of one: of ours, too, it has what the user gave it."""
    return isinstance(getattr(part, "__self__", part), Transformation)


def _module_of(part: Any) -> str:
    return getattr(part, "__module__", None) or ""


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:40]}... {_hash(text.encode('utf-8', 'replace'))}"


def _hash(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()[:32]}"


def _source_of(code: CodeType) -> str | None:
    try:
        lines, _ = inspect.findsource(code)
        # The last one is the innermost.
        return [ast.unparse(node) for node in _functions_in("".join(lines)) if _is_of(node, code)][-1]
    except (OSError, SyntaxError, TypeError, IndexError):
        return None


@functools.lru_cache(maxsize=16)
def _functions_in(text: str) -> list[ast.AST]:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS) and ast.get_docstring(node) is not None:
            node.body[:1] = [] if len(node.body) > 1 else [ast.copy_location(ast.Pass(), node.body[0])]
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda | _DEFINITIONS)]


def _is_of(node: Any, code: CodeType) -> bool:
    """Whether the node has the code's name and place; of lambdas of one line it is the one whose body has the code."""
    first = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
    if (getattr(node, "name", "<lambda>"), first) != (code.co_name, code.co_firstlineno):
        return False
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    begin, end = (body[0].lineno, body[0].col_offset), (body[-1].end_lineno, body[-1].end_col_offset)
    return all(begin <= (line, column) <= end for line, _, column, _ in code.co_positions() if column)
