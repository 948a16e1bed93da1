"""Transforms that draw from generators of their own, made a function of the record."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from reprlib import repr as _short
from typing import Any

from .base import Map, Transformation, given_function
from .foreign import ForeignTransform, library_of
from .leaf import leaf_key


class Seeded(Map):
    """A Map whose function draws from generators that it isn't given: they are seeded from the record before each call.

    They are Python's `random`, numpy's global one, torch's where it is imported, and those that the function keeps: in
    its attributes, in those of transforms inside, or as names from around it. After the calls each is where it was.
    One that the first call makes is an error. `check_pipeline` finds out any that isn't reached, such as OpenCV's.

    Args:
        transform: takes an element, returns the new one. One of albumentations gets arrays by their names, one of
            torchvision or keras gets arrays (H, W, C) in the form that it wants; pictures come back as arrays. A
            subclass defines `map(self, element)` instead.
        key: of the part of an element that it gets: a dict's key, a position, the name of a field, or a path of these
            as a tuple. None for the whole element.

    A loader refuses it with worker_kind="thread", since threads would share the generators.

    >>> import random
    >>> import loaderkit as lk
    >>> jitter = Seeded(lambda x: x + random.random(), key="x")
    >>> loader = lk.load([{"x": 1.0, "y": 2}], operations=[jitter], seed=0, num_epochs=1)
    >>> list(loader) == list(loader)
    True
    """

    _seeds = True

    def __init__(self, transform: Callable[..., Any] | None = None, key: Hashable = None) -> None:
        if type(self) is not Seeded:
            self._take(transform)
        elif isinstance(transform, Transformation):
            raise TypeError(
                f"Seeded: expected a transform of another library, got {transform!r}, which is an operation; write it "
                "itself"
            )
        elif not callable(transform) or isinstance(transform, type):
            raise TypeError(
                f"Seeded: expected a function or a transform of another library, got {_short(transform)}; for an "
                "operation of your own derive it from lk.transforms.Seeded in place of lk.Map"
            )
        else:
            leaf_key("key", key)
            plain = key is None and not library_of(transform)
            self._set(_function=transform if plain else ForeignTransform(transform, key))

    def map(self, element: Any) -> Any:
        """The element that takes this one's place; no generator is seeded here."""
        if (function := given_function(self)) is None:
            raise TypeError(f"{type(self).__name__}: expected the method map(self, element), got none")
        return function(element)
