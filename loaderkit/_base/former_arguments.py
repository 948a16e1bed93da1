"""Former ways of calling a function, and classes that go: each works until 0.3, with a warning."""

import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import wraps
from reprlib import repr as _short
from typing import Any, TypeVar, cast

_Callable = TypeVar("_Callable", bound=Callable[..., Any])


def former_arguments(
    *,
    removed_in: str,
    by_place: Sequence[str] = (),
    renamed: Mapping[str, str] | None = None,
    left_out: Mapping[str, Any] | None = None,
) -> Callable[[_Callable], _Callable]:
    """A decorator: a call in a former way works as before, with a DeprecationWarning at the line of the call.

    The signature is that of the function: the new way, which help() shows and a type checker demands.

    Args:
        removed_in: the release that takes only the new way.
        by_place: arguments that are given by name now, and were given by place behind those that still are.
        renamed: {former name: name}.
        left_out: {name: value} of arguments that are required now, and the value that each had without.

    For a function, an `__init__`, or a class whose `__init__` is written by dataclass.

    >>> @former_arguments(removed_in="0.3.0", by_place=["fields"], renamed={"urls": "paths"})
    ... def read(paths, *, fields=None):
    ...     return paths, fields
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     read("a.tar", "jpg")
    ('a.tar', 'jpg')
    >>> print(told[0].message)
    read(): write fields='jpg'; 0.3.0 takes fields by name only
    """

    def decorated(function: _Callable) -> _Callable:
        if isinstance(function, type):
            function.__init__ = decorated(function.__init__)  # type: ignore[misc] # of this class, no other's
            return function
        name = function.__qualname__.removesuffix(".__init__")
        code = getattr(function, "__wrapped__", function).__code__
        words = code.co_varnames[: code.co_argcount]

        @wraps(function)
        def called(*arguments: Any, **keywords: Any) -> Any:
            told = []
            more = arguments[len(words) :]
            if 0 < len(more) <= len(by_place):
                given = dict(zip(by_place, more, strict=False))
                _refuse_twice(name, given, keywords)
                arguments, keywords = arguments[: len(words)], given | keywords
                shown = ", ".join(f"{word}={_short(value)}" for word, value in given.items())
                told.append(f"write {shown}; {removed_in} takes {' and '.join(given)} by name only")
            for former, word in (renamed or {}).items():
                if former in keywords:
                    _refuse_twice(name, {word}, {*keywords, *words[: len(arguments)]})
                    keywords[word] = keywords.pop(former)
                    told.append(f"write {word}=...; {removed_in} drops {former}, its former name")
            for word, value in (left_out or {}).items():
                if word not in keywords:
                    keywords[word] = value
                    told.append(f"write {word}={value!r}, its value without; {removed_in} requires {word}")
            for text in told:
                warnings.warn(f"{name}(): {text}", DeprecationWarning, stacklevel=2)
            return function(*arguments, **keywords)

        return cast(_Callable, called)

    return decorated


def _refuse_twice(name: str, given: Iterable[str], known: Container[str]) -> None:
    for word in given:
        if word in known:
            raise TypeError(f"{name}(): expected {word} once, got it twice; leave one out")


def warn_of_former(former: str, instead: str, *, stacklevel: int) -> None:
    """A DeprecationWarning of a class that goes with 0.3.

    Args:
        former: as it is called, such as "VocXml()".
        instead: what to write.
        stacklevel: 1 for the line that calls this function.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn_of_former("VocXml()", "a Map", stacklevel=1)
    >>> print(told[0].message)
    VocXml(): write a Map; 0.3.0 drops it
    """
    warnings.warn(f"{former}: write {instead}; 0.3.0 drops it", DeprecationWarning, stacklevel=stacklevel + 1)
