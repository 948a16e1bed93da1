"""What MapDataset and IterDataset share: their parents, seeds of random steps that were given none, and the steps.

A default seed is that of Grain: `SeedSequence([seed, depth, seed, depth, ...])` over the nearest nodes that have a
seed, in the order of a breadth-first walk; `depth` counts the nodes between.

The classes of steps are in files that import the one with the methods, such as `shuffle`, that make them. So a class
says which step it is, `class ShuffleMapDataset(MapNode, step="MapDataset.shuffle")`, and the methods call `made`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from types import GenericAlias
from typing import Any, ClassVar, Self

import numpy as np

from loaderkit.interop.grain import transforms
from loaderkit.interop.grain._installed import is_of_grain

# Which method applies a transformation of a list, in the order in which Grain tries them.
_METHODS = {
    "Map": "map",
    "RandomMap": "random_map",
    "MapWithIndex": "map_with_index",
    "FlatMap": "flat_map",
    "Filter": "filter",
}


class Dataset:
    """A node of a tree of steps.

    Args:
        parents: the node or the nodes before this one.
    """

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)  # scripts write MapDataset[int]
    _steps: ClassVar[dict[str, Callable[..., Any]]] = {}  # step -> the class of its nodes
    _seed_rng_seed: int | None = None  # of the steps after this one that are given no seed
    _parents: Sequence[Any] = ()  # of a user's class that doesn't call __init__

    def __init_subclass__(cls, *, step: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        if step:
            Dataset._steps[step] = cls

    def __init__(self, parents: Any = ()) -> None:
        self._parents = tuple(parents) if isinstance(parents, Sequence) else (parents,)

    @property
    def parents(self) -> Sequence[Any]:
        """The nodes before this one."""
        return self._parents

    @property
    def _parent(self) -> Any:
        (parent,) = self._parents
        return parent

    @cached_property
    def _default_seed(self) -> int | None:
        found: list[int] = []
        nodes = deque[tuple[Any, int]]([(self, 0)])
        while nodes:
            node, depth = nodes.popleft()
            seed = getattr(node, "_seed_rng_seed", None)
            if seed is None:
                nodes.extend((parent, depth + 1) for parent in getattr(node, "_parents", ()))
            else:
                found += [seed, depth]
        return int(np.random.SeedSequence(found).generate_state(1, np.uint32)[0]) if found else None

    def _seed_or_default(self, step: str, seed: int | None) -> int:
        """The seed that was given, else the default one; ValueError where there is none."""
        seed = self._default_seed if seed is None else seed
        if seed is None:
            raise ValueError(f"`{step}` requires a seed: give it one, or write .seed(seed) before it")
        return int(seed)

    def pipe(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """`func(self, *args, **kwargs)`, written after the data set.

        Args:
            func: takes the data set first.
            args, kwargs: what else it gets.
        """
        return func(self, *args, **kwargs)

    def apply(self, transformations: Any) -> Self:
        """The data set with transformations applied.

        Args:
            transformations: one, or a list of them; NotImplementedError for what is none.
        """
        ds: Any = self
        given = transformations if isinstance(transformations, Sequence) else (transformations,)
        for each in given:
            if _is(each, "Batch"):
                ds = ds.batch(each.batch_size, drop_remainder=each.drop_remainder, batch_fn=each.batch_fn)
                continue
            method = next((method for kind, method in _METHODS.items() if _is(each, kind)), None)
            if method is None:
                raise NotImplementedError(f"transformations: expected Grain's transforms, got {each!r:.80}")
            is_method = hasattr(ds, method)  # flat_map is none
            ds = getattr(ds, method)(each) if is_method else ds._made(method, each)
        return ds  # type: ignore[no-any-return]

    _kind: ClassVar[str] = ""  # "MapDataset" or "IterDataset"

    def _made(self, step: str, *args: Any, **kwargs: Any) -> Any:
        """The node of a step after this one."""
        return made(f"{self._kind}.{step}", self, *args, **kwargs)


def made(step: str, *args: Any, **keywords: Any) -> Any:
    """The node of a step, such as "MapDataset.range"."""
    if step not in Dataset._steps:
        import_module(f"{__package__}.all_steps")
    return Dataset._steps[step](*args, **keywords)


def _is(transform: Any, kind: str) -> bool:
    return isinstance(transform, getattr(transforms, kind)) or is_of_grain(transform, kind)


def function_of(transform: Any, kind: str) -> Callable[..., Any]:
    """What a step calls: the method of a transform of a kind, or the function that was given.

    >>> function_of(abs, "Map")(-2)
    2
    """
    function: Callable[..., Any] = getattr(transform, _METHODS[kind]) if _is(transform, kind) else transform
    return function
