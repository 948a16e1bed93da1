"""Whether what limits a loader is a tokenizer, whose work can be done once, ahead of the training."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from loaderkit._engine.stats.stats import Stats
from loaderkit._source.version import attributes_of
from loaderkit.transforms.base import Batch, Transformation, function_of, operation_name
from loaderkit.transforms.known_tokenizer import is_tokenizer

from .analysis import Limit, share_of

_ADVICE = (
    "A tokenizer works there. Its tokens are the same in each epoch: write them once, ahead (loaderkit convert SRC DST "
    "--tokenizer FILE), or keep them (lk.CachedDataSource)"
)


def tokenising_notes(
    limit: Limit, source: Any, operations: Sequence[Transformation], stats: Stats
) -> list[str]:
    """A note with what to do, where the largest part of a record is a tokenizer's work; else none.

    Args:
        limit: of the loader.
        source, operations: the loader's.
        stats: of a run.
    """
    if limit.kind in ("trainer", "hand-over", "memory", "unknown"):
        return []
    functions = [*_functions_in(source)] if limit.part == "read" else []
    for place, operation in enumerate(operations):
        if operation_name(place, operation) == limit.part and not isinstance(operation, Batch):
            functions.append(function_of(operation))
    if not any(map(_tokenises, functions)):
        return []
    rest = 1 - share_of(stats, limit.part or "")
    return [
        f"{_ADVICE}: {f'at most {1 / rest:.2g} times as fast' if rest > 0.01 else 'next to nothing is left'}."
    ]


def _functions_in(source: Any) -> Iterator[Callable[..., Any]]:
    for _, part in attributes_of(source):
        if callable(part):
            yield part
        elif hasattr(type(part), "__getitem__") and hasattr(part, "__dict__"):
            yield from _functions_in(part)


def _tokenises(function: Any) -> bool:
    """Whether a function, or the object of a method, holds a tokenizer."""
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", function)
    held = [owner, *getattr(owner, "__dict__", {}).values()]
    if inspect.isfunction(function):
        found = inspect.getclosurevars(function)
        held += [*found.nonlocals.values(), *found.globals.values()]
    return any(map(is_tokenizer, held))
