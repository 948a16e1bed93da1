"""What the user's functions do, as text, by which a run is compared with the one that it goes on for.

Of a function it is the source without comments, docstrings and layout, and with it the defaults, what the closure and
the globals hold, and all of the user's own functions that are called. Of libraries it is their versions.
"""

import ast
import functools
import hashlib
import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .content import content_hash, stable_repr

_MOST_PARTS = 256  # of a list or dict that is looked through
_MOST_TEXT = 200  # of a value that is kept as it is
_OF_ARRAYS = ("jaxlib", "torch", "pandas")  # whose arrays' repr leaves out the middle
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
_PATHS = sysconfig.get_paths()
_INSTALLED = tuple(
    os.path.join(folder, "")  # a folder beside them may have a name that begins with theirs
    for folder in {
        str(Path(__file__).parents[1]),
        *(_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


class FunctionText:
    """The text of functions and of what they use.

    Args:
        functions: by name, each a function, another object that can be called, or None.
        source: a data source of which the functions are looked for, as of a MapDataSource; the records are no part.

    Attributes:
        code: the source of each of the user's functions, by the way that leads to it.
        values: what else they use, likewise.
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
        self.libraries: dict[str, str] = {}
        self.not_compared: list[str] = []
        self._seen: dict[int, Any] = {}  # by id; the objects live on
        for name, function in functions.items():
            if function is not None:
                self._add(name, function)
        self._add_source("source", source)

    def as_json(self) -> dict[str, Any]:
        """All but the libraries, as JSON values."""
        return {"code": self.code, "values": self.values, "not compared": self.not_compared}

    def _add(self, way: str, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self.values[way] = _text_of(value)
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        try:
            self._add_parts(way, value)
        except Exception:  # noqa: BLE001 - attributes of the user's objects may raise anything
            self.not_compared.append(f"{way}: {type(value).__qualname__}")

    def _add_parts(self, way: str, value: Any) -> None:
        if isinstance(value, functools.partial):
            self._add_each(way, {"": value.func, "args": value.args, "keywords": value.keywords})
        elif isinstance(value, MethodType):
            self._add_each(way, {"": value.__func__, "self": value.__self__})
        elif isinstance(value, property):
            self._add(way, value.fget)
        elif not isinstance(value, FunctionType) and hasattr(
            value, "__wrapped__"
        ):  # as of functools.cache, jax.jit
            self._add(way, value.__wrapped__)
        elif isinstance(value, ModuleType):
            if not _is_own(value):
                self._add_library(value.__name__)
        elif not _is_own(value if isinstance(value, FunctionType | type) else type(value)):
            self._add_foreign(way, value)
        elif isinstance(value, FunctionType):
            self._add_function(way, value)
        elif isinstance(value, type):
            members = {name: each for name, each in vars(value).items() if name[:2] != "__" or callable(each)}
            members.pop("_abc_impl", None)
            self._add_each(
                way, members | {base.__name__: base for base in value.__bases__ if base is not object}
            )
        else:
            self._add_each(way, {type(value).__name__: type(value)} | _attributes(value))

    def _add_each(self, way: str, parts: dict[str, Any]) -> None:
        for name, value in parts.items():
            self._add(f"{way}.{name}" if name[:1].isidentifier() else way + name, value)

    def _add_function(self, way: str, function: FunctionType) -> None:
        self.code[way] = _source_of(function.__code__)
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
        self._add_each(way, dict(sorted(used.items())))

    def _add_foreign(self, way: str, value: Any) -> None:
        """An object of a library's class, a library's function, or a container."""
        if type(value) in (list, tuple, dict):
            parts = value if isinstance(value, dict) else dict(enumerate(value))
            if len(parts) > _MOST_PARTS:
                self.values[way] = _text_of(value)
            else:
                self._add_each(way, {f"[{key!r}]": part for key, part in parts.items()})
            return
        module = getattr(value, "__module__", None) or type(value).__module__
        self._add_library(module)
        if isinstance(value, np.ndarray | set | frozenset | bytearray):
            self.values[way] = _text_of(value)
        elif callable(value) and hasattr(value, "__qualname__"):
            self.values[way] = f"{module}.{value.__qualname__}"
        elif module.partition(".")[0] in _OF_ARRAYS and hasattr(value, "__array__"):
            self.values[way] = f"{repr(value)[:_MOST_TEXT]} {_text_of(np.asarray(value))}"
        elif (text := _whole_repr(value, module)) is not None:
            self.values[way] = text
        else:
            self.not_compared.append(f"{way}: {type(value).__module__}.{type(value).__qualname__}")

    def _add_library(self, module: str) -> None:
        name = module.partition(".")[0]
        if name in sys.stdlib_module_names or name == "loaderkit":
            return
        self.libraries[name] = str(getattr(sys.modules.get(name), "__version__", "of no version"))

    def _add_source(self, way: str, source: Any) -> None:
        """The functions of a source: those that it holds, and the methods of a class of the user's."""
        if _is_own(type(source)):
            self._add(way, type(source))
        elif not type(source).__module__.startswith("loaderkit."):
            return
        for name, value in _attributes(source).items():
            for number, part in enumerate(value if type(value) in (list, tuple) else [value]):
                if number == _MOST_PARTS:
                    break
                if hasattr(type(part), "__getitem__") and not isinstance(part, _PLAIN):
                    self._add_source(f"{way}.{name.lstrip('_')}", part)
                elif callable(part):
                    self._add(f"{way}.{name.lstrip('_')}", part)


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    return {
        **{name: getattr(value, name) for name in slots if hasattr(value, name)},
        **getattr(value, "__dict__", {}),
    }


def _is_own(value: Any) -> bool:
    """Whether a module, function or class is the user's, not of Python, of an installed library or of loaderkit."""
    module = value if isinstance(value, ModuleType) else sys.modules.get(value.__module__ or "")
    if module is None or module.__name__ == "__main__" or getattr(value, "__name__", None) == "<lambda>":
        return True
    file = getattr(module, "__file__", None)
    return file is not None and not file.startswith(_INSTALLED) and "site-packages" not in file


def _whole_repr(value: Any, module: str) -> str | None:
    """The repr of an object of a library; None where it may leave out some of what the object holds."""
    text, of_python = stable_repr(value), module.partition(".")[0] in sys.stdlib_module_names
    holds_more = bool(getattr(value, "__dict__", None)) and not of_python
    return None if text is None or text != repr(value) or "..." in text or holds_more else text


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _text_of(value: Any) -> str:
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return (
            f"array of {value.dtype.str} {value.shape} {_short_hash(np.ascontiguousarray(value).tobytes())}"
        )
    if not isinstance(value, _PLAIN):
        return content_hash([value.tolist() if isinstance(value, np.ndarray) else value])
    text = repr(value)
    if len(text) <= _MOST_TEXT:
        return text
    return f"{text[:40]}... {_short_hash(text.encode('utf-8', 'replace'))}"


def _short_hash(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()[:32]}"


def _source_of(code: CodeType) -> str:
    try:
        lines, _ = inspect.findsource(code)
        # The last one is the innermost.
        return [ast.unparse(node) for node in ast.walk(_parsed("".join(lines))) if _is_of(node, code)][-1]
    except (OSError, SyntaxError, TypeError, IndexError):
        pass
    told = f"{code.co_code!r}{[each for each in code.co_consts if not isinstance(each, CodeType)]}{code.co_names}"
    told += "".join(_source_of(each) for each in code.co_consts if isinstance(each, CodeType))
    return f"code of {sys.implementation.cache_tag}: {_short_hash(told.encode('utf-8', 'replace'))}"


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    return tree


def _is_of(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    if not isinstance(node, ast.Lambda) or code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
        return False
    # Of several lambdas in a line it is the one whose body has the code.
    body = (node.body.lineno, node.body.col_offset)
    end = (node.body.end_lineno or 0, node.body.end_col_offset or 0)
    places = [(line, column) for line, _, column, _ in code.co_positions() if column]
    return all(body <= place <= end for place in places if place[0])
