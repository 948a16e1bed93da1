"""The operations on elements: a user subclasses one of these classes, or gives it a function.

A subclass may use any attribute names, `label` and `function` included, and needn't call `__init__`. So the engine
reads operations through functions of this module, `function_of` and `label_of`, not through attributes.

An operation is named in errors by its place in the user's list and by its own name. Usually the user's list is the
loader's. Code that makes a loader's operations of others (loaderkit/interop/grain) stores in `_written` which of the
user's operations each one stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from reprlib import repr as _short
from types import FunctionType
from typing import Any, ClassVar, Self

import numpy as np

from loaderkit._base.former_arguments import warn_of_former
from loaderkit._base.hints import foreign_operation, refusing_foreign_arguments
from loaderkit._base.numbers import at_least, true_or_false
from loaderkit._base.system.dataclasses import dataclass

from .stack import Block, stack


class Transformation:
    """Base of all operations; a user's class derives from one of its subclasses.

    >>> isinstance(Map(abs), Transformation)
    True
    """

    # The method that a subclass defines, and its arguments for errors.
    _method: ClassVar[str] = ""
    _arguments: ClassVar[str] = "element"
    _function: Callable[..., Any] | None = None
    _draws: ClassVar[bool] = False  # whether its function takes a generator
    # The user's operations that this one was made of, where the user's list isn't the loader's.
    _written: tuple[Any, ...] = ()
    _group: int = 0  # consecutive rows of a batch that it mixes
    _may_give_none: bool = False  # as in other libraries; else None is an error
    # The name that its generators follow from, in place of its number among the operations that draw.
    _drawn_as: str | None = None

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        # Checked in __new__, because a subclass with an __init__ of its own needn't call ours.
        kinds = _kinds_of(cls)
        if len(kinds) != 1:
            known = "Map, MapWithIndex, RandomMap, Filter, FlatMap and Window"
            raise TypeError(
                f"{cls.__name__}: expected exactly one base of {known}, got {[kind.__name__ for kind in kinds]}"
            )
        (kind,) = kinds
        if cls is not kind and kind._method and getattr(cls, kind._method) is getattr(kind, kind._method):
            raise TypeError(
                f"{cls.__name__}: expected the method {kind._method}(self, {kind._arguments}), as the class derives "
                f"from {kind.__name__}, got none; or give a function: {kind.__name__}(function)"
            )
        return super().__new__(cls)

    def _take(self, function: Any) -> None:
        kind = kind_of(self)
        if type(self) is not kind:
            if function is not None:
                raise TypeError(
                    f"{type(self).__name__}: expected no function, as the class defines {kind._method}, "
                    f"got {_short(function)}"
                )
        elif isinstance(function, type) and issubclass(function, Transformation):
            raise TypeError(
                f"{kind.__name__}: expected a function, got the class {function.__name__}; "
                f"it is an operation itself: write {function.__name__}() in its place"
            )
        elif not callable(function):
            ours = foreign_operation(type(function))
            raise TypeError(
                f"{kind.__name__}: expected a function of ({kind._arguments}), got {_short(function)}"
                + ("" if ours is None else f"; derive {type(function).__name__} from {ours}")
            )
        elif _needs_more(function, kind._arguments.count(",") + 1):
            import inspect  # no worker needs it

            raise TypeError(
                f"{kind.__name__}: expected a function of ({kind._arguments}), got {name_of(function)} of "
                f"{inspect.signature(function)}; lk.RandomMap or .random_map takes one of (element, rng), "
                "lk.MapWithIndex or .map_with_index of (index, element)"
            )
        else:
            self._function = function

    def _set(self, **values: Any) -> None:
        """Sets attributes, also those of a frozen dataclass."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return label_of(self)


class Map(Transformation):
    """One element in, one out; the result must depend on the element alone.

    Args:
        function: takes an element, returns the new one. A subclass defines `map(self, element)` instead.
        seed_globals: the former name of `Seeded(function)`; goes with 0.3.

    >>> class Scale(Map):
    ...     def __init__(self, factor):
    ...         self.factor = factor
    ...
    ...     def map(self, element):
    ...         return element * self.factor
    >>> Scale(3).map(2)
    6
    >>> Map(abs)
    Map(abs)
    """

    _method = "map"
    _seeds: ClassVar[bool] = False  # of Seeded
    seed_globals: bool = False
    # Of a list of elements what `map` makes of each, as a Block, or None where `map` must make it.
    _by_column: Callable[[list[Any]], Block | None] | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if vars(cls).get("seed_globals"):
            warn_of_former(f"{cls.__name__}.seed_globals", "the base lk.transforms.Seeded", stacklevel=2)

    @refusing_foreign_arguments
    def __init__(
        self, function: Callable[[Any], Any] | None = None, *, seed_globals: bool | None = None
    ) -> None:
        self._take(function)
        if seed_globals is None:
            return
        self.seed_globals = true_or_false("seed_globals", seed_globals)
        written = f"{name_of(function)}, " if function is not None else ""
        instead = f"lk.transforms.Seeded({written[:-2]})" if seed_globals else f"lk.Map({written[:-2]})"
        warn_of_former(f"Map({written}seed_globals={seed_globals})", instead, stacklevel=3)

    def map(self, element: Any) -> Any:
        """The element that takes this one's place."""
        return function_of(self)(element)


class MapWithIndex(Transformation):
    """A Map that also gets the element's index: its global place in the endless stream of all epochs.

    Args:
        function: takes (index, element), returns the new element. A subclass defines
            `map_with_index(self, index, element)` instead.

    >>> MapWithIndex(lambda index, element: (index, element)).map_with_index(7, "x")
    (7, 'x')
    """

    _method = "map_with_index"
    _arguments = "index, element"

    @refusing_foreign_arguments
    def __init__(self, function: Callable[[int, Any], Any] | None = None) -> None:
        self._take(function)

    def map_with_index(self, index: int, element: Any) -> Any:
        """The element that takes this one's place."""
        return function_of(self)(index, element)


class RandomMap(Transformation):
    """A Map that also gets a random generator, which depends on the seed, the element's place and the operation only.

    Args:
        function: takes (element, rng), returns the new element; `rng` is valid during the call only. A subclass defines
            `random_map(self, element, rng)` instead.

    >>> flip = RandomMap(lambda image, rng: image[::-1] if rng.random() < 0.5 else image)
    >>> flip.random_map("abc", np.random.Generator(np.random.Philox(key=3)))
    'abc'
    """

    _method = "random_map"
    _arguments = "element, rng"
    _draws = True

    @refusing_foreign_arguments
    def __init__(self, function: Callable[[Any, np.random.Generator], Any] | None = None) -> None:
        self._take(function)

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element that takes this one's place."""
        return function_of(self)(element, rng)


class Filter(Transformation):
    """Keeps the elements for which the function returns true.

    Args:
        function: takes an element, returns a bool. A subclass defines `filter(self, element)` instead.

    >>> Filter(lambda element: element > 2).filter(1)
    False
    """

    _method = "filter"

    @refusing_foreign_arguments
    def __init__(self, function: Callable[[Any], bool | np.bool_] | None = None) -> None:
        self._take(function)

    def filter(self, element: Any) -> bool | np.bool_:
        """Whether the element is kept."""
        return bool(function_of(self)(element))


class FlatMap(Transformation):
    """One element in, any number out, or none.

    Args:
        function: takes an element, returns a finite iterable of the elements in its place. A subclass defines
            `flat_map(self, element)` instead.
        max_fan_out: the most elements out of one; more are an error. None for no limit. A subclass may set it as an
            attribute.

    >>> list(FlatMap(range).flat_map(3))
    [0, 1, 2]
    """

    _method = "flat_map"
    max_fan_out: int | None = None

    @refusing_foreign_arguments
    def __init__(
        self, function: Callable[[Any], Iterable[Any]] | None = None, *, max_fan_out: int | None = None
    ) -> None:
        self._take(function)
        if max_fan_out is not None:
            self.max_fan_out = at_least("max_fan_out", max_fan_out, 1)

    def flat_map(self, element: Any) -> Iterable[Any]:
        """The elements in this one's place."""
        children: Iterable[Any] = function_of(self)(element)
        return children


class Window(Transformation):
    """A number of consecutive elements in, any number of elements out; nothing is kept from window to window.

    The last window of a stream that ends may have fewer elements. A saved state holds the place in the window, so a
    resumed stream reads the elements of one window again, and makes those after the place.

    Args:
        size: elements of a window. A subclass may set it as an attribute.
        function: takes a list of elements, returns a finite iterable of the elements in their place. A subclass defines
            `window(self, elements)` instead.

    >>> longest_first = Window(3, lambda words: sorted(words, key=len, reverse=True))
    >>> longest_first.window(["a", "bbb", "cc"])
    ['bbb', 'cc', 'a']
    """

    _method = "window"
    _arguments = "elements"
    makes_new_rows: ClassVar[bool] = (
        False  # whether its arrays are new memory, which no later call writes to (pack.py)
    )
    size: int = 0

    @refusing_foreign_arguments
    def __init__(
        self, size: int | None = None, function: Callable[[list[Any]], Iterable[Any]] | None = None
    ) -> None:
        self._take(function)
        if size is not None:
            self.size = at_least("size", size, 1)

    def window(self, elements: list[Any]) -> Iterable[Any]:
        """The elements in the place of these."""
        made: Iterable[Any] = function_of(self)(elements)
        return made

    def _identity(self) -> dict[str, Any]:
        """What saved states compare of it."""
        return {"op": "Window", "size": self.size}


class Batch(Transformation):
    """Consecutive elements stacked, leaf by leaf as `np.stack` does; bytes give an array of objects.

    Args:
        batch_size: rows of one shard's batch. Give exactly one of the two sizes.
        global_batch_size: rows of the batches of all shards together; only for the last Batch.
        remainder: what is done with last rows that don't fill a batch: "keep" makes a smaller batch; "drop" leaves them
            out; "pad" puts zeros in place of the missing rows and adds a boolean leaf "valid" (an element that isn't a
            dict becomes (batch, valid)); "wrap" takes the stream's first elements again. A Batch before the last takes
            keep or drop.
        drop_remainder: True is the same as remainder="drop".
        batch_fn: takes the list of rows and returns the batch, instead of stacking.

    >>> Batch(32, drop_remainder=True)
    Batch(batch_size=32, remainder='drop')
    >>> Batch()
    Traceback (most recent call last):
    ValueError: Batch: expected exactly one of batch_size and global_batch_size, got neither
    """

    _method = ""
    pads: ClassVar[bool] = False  # whether a subclass pads rows to lengths of its own (pad_batch.py)
    rows_padded: bool = False  # whether its rows are padded before they are stacked, as the plan says

    @refusing_foreign_arguments
    def __init__(
        self,
        batch_size: int | None = None,
        *,
        global_batch_size: int | None = None,
        remainder: str = "keep",
        drop_remainder: bool = False,
        batch_fn: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        if (batch_size is None) == (global_batch_size is None):
            got = "neither" if batch_size is None else "both"
            raise ValueError(f"Batch: expected exactly one of batch_size and global_batch_size, got {got}")
        if remainder not in ("keep", "drop", "pad", "wrap"):
            raise ValueError(f"remainder: expected 'keep', 'drop', 'pad' or 'wrap', got {_short(remainder)}")
        if not isinstance(drop_remainder, bool | np.bool_):
            raise TypeError(f"drop_remainder: expected True or False, got {_short(drop_remainder)}")
        if batch_fn is not None and not callable(batch_fn):
            raise TypeError(f"batch_fn: expected a function of a list of rows, got {_short(batch_fn)}")
        if drop_remainder and remainder not in ("keep", "drop"):
            raise ValueError(
                f"drop_remainder: expected False or remainder='drop', got True with remainder={remainder!r}; give one"
            )
        self.batch_size = None if batch_size is None else at_least("batch_size", batch_size, 1)
        self.global_batch_size = (
            None if global_batch_size is None else at_least("global_batch_size", global_batch_size, 1)
        )
        self.remainder = "drop" if drop_remainder else remainder
        self.batch_fn = batch_fn

    def stacked(self, parts: Sequence[Block | Sequence[Any]], describe: Callable[[int], str]) -> Any:
        """A batch of rows where there is no batch_fn, made by `stack`; a subclass may stack in another way.

        Args:
            parts, describe: as in `stack`. Rows that hold arrays and numbers only, and agree in structure, dtype and
                shape, may be written in place without a call of this method.
        """
        return stack(parts, describe)

    def __repr__(self) -> str:
        size = "batch_size" if self.global_batch_size is None else "global_batch_size"
        parts = [f"{size}={getattr(self, size)}"]
        if self.remainder != "keep":
            parts.append(f"remainder={self.remainder!r}")
        if self.batch_fn is not None:
            parts.append(f"batch_fn={name_of(self.batch_fn)}")
        return f"Batch({', '.join(parts)})"


def _needs_more(function: Callable[..., Any], count: int) -> bool:
    """Whether a function written in Python can't be called with so many arguments."""
    if not isinstance(function, FunctionType):
        return False
    return function.__code__.co_argcount - len(function.__defaults__ or ()) > count


def _kinds_of(cls: type[Transformation]) -> list[type[Transformation]]:
    return [
        base
        for base in cls.__mro__
        if issubclass(base, Transformation) and base is not Transformation and "_method" in vars(base)
    ]


def kind_of(operation: Transformation) -> type[Transformation]:
    """Which of Map, MapWithIndex, RandomMap, Filter, FlatMap, Window and Batch an operation is.

    >>> kind_of(Batch(8)).__name__
    'Batch'
    """
    return _kinds_of(type(operation))[0]


def name_of(function: Callable[..., Any]) -> str:
    """A short name of a callable, without memory addresses.

    >>> name_of(partial(abs))
    'abs'
    """
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def function_of(operation: Transformation) -> Callable[..., Any]:
    """The callable for each element: the function that was given, or the subclass's method.

    Args:
        operation: any operation but a Batch.

    >>> function_of(Map(abs)) is abs
    True
    """
    if (function := given_function(operation)) is not None:
        return function
    method: Callable[..., Any] = getattr(operation, kind_of(operation)._method)
    return method


def given_function(operation: Transformation) -> Callable[..., Any] | None:
    """The function that an operation was made of; None for one of a class that defines a method.

    >>> given_function(Map(abs)) is abs
    True
    """
    # A user's class may have an attribute of this name.
    ours = type(operation) is kind_of(operation) or "_seeds" in vars(type(operation))
    return operation._function if ours else None


def label_of(operation: Transformation) -> str:
    """A short name for errors and states, without memory addresses, so that it is the same in every process.

    Args:
        operation: any operation.

    >>> label_of(Filter(str.isalpha)), label_of(Batch(8))
    ('Filter(isalpha)', 'Batch(batch_size=8)')
    """
    if isinstance(operation, Batch):
        return repr(operation)
    if (function := given_function(operation)) is None:
        return type(operation).__name__
    size = f"{operation.size}, " if isinstance(operation, Window) else ""
    return f"{type(operation).__name__}({size}{name_of(function)})"


def draws(op: Transformation) -> bool:
    """Whether the operation draws random numbers, so that it needs a seed and an ordinal.

    >>> draws(RandomMap(lambda x, rng: x)), draws(Map(abs))
    (True, False)
    """
    return op._draws or seeds(op)


def seeds(op: Transformation) -> bool:
    """Whether the operation seeds generators from the record that others use too, which threads would share.

    >>> seeds(Map(abs))
    False
    """
    return isinstance(op, Map) and (type(op)._seeds or bool(op.seed_globals))


def group_of(op: Transformation) -> int:
    """How many consecutive rows of a batch the operation mixes with each other; 0 where it mixes none.

    >>> group_of(Map(abs))
    0
    """
    return op._group


@dataclass(frozen=True, slots=True)
class NamedOperation:
    """An operation as the user wrote it.

    label: for errors: its place in the list, and its name. operation: the object.
    """

    label: str
    operation: Any


def named_operations(place: int, operation: Transformation) -> tuple[NamedOperation, ...]:
    """The user's operations that an operation of a loader stands for; usually it is the user's own.

    Args:
        place: in the loader's list.
        operation: any operation.

    >>> [(it.label, it.operation) for it in named_operations(1, Map(abs))]
    [('operations[1] Map(abs)', Map(abs))]
    """
    return operation._written or (NamedOperation(f"operations[{place}] {label_of(operation)}", operation),)


def operation_name(place: int, operation: Transformation) -> str:
    """An operation's name in errors: its place in the user's list, and a short name.

    Args:
        place: in the loader's list.
        operation: any operation.

    >>> operation_name(1, Batch(8))
    'operations[1] Batch(batch_size=8)'
    """
    return ", ".join(it.label for it in named_operations(place, operation))
