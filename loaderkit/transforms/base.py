"""What a user does to elements, one at a time: subclass one of these, or give it a function.

A subclass may name its attributes as it likes, `label` and `function` included, and needn't call `__init__`:
so what the engine asks an operation for are functions beside the classes, `function_of` and `label_of`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from reprlib import repr as _short
from typing import Any, ClassVar, Self

import numpy as np

from loaderkit._base.hints import refusing_foreign_arguments

from .stack import Block, stack


class Transformation:
    """Base of all operations; what a user writes derives from one of its subclasses.

    >>> isinstance(Map(abs), Transformation)
    True
    """

    # The method that a subclass defines, with its arguments as they stand in an error.
    _method: ClassVar[str] = ""
    _arguments: ClassVar[str] = "element"
    _function: Callable[..., Any] | None = None
    # What stands in the list that the user gave, where that was another list than the loader's: see operation_names.py.
    _written: tuple[Any, ...] = ()

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        # Here and not in __init__: a subclass with an __init__ of its own needn't call ours.
        kinds = _kinds_of(cls)
        if len(kinds) != 1:
            known = "Map, MapWithIndex, RandomMap, Filter and FlatMap"
            raise TypeError(f"{cls.__name__}: derive it from exactly one of {known}")
        (kind,) = kinds
        if cls is not kind and kind._method and getattr(cls, kind._method) is getattr(kind, kind._method):
            raise TypeError(
                f"{cls.__name__} derives from {kind.__name__} and must define the method "
                f"{kind._method}(self, {kind._arguments}); or give a function: {kind.__name__}(function)"
            )
        return super().__new__(cls)

    def _take(self, function: Any) -> None:
        kind = _kind_of(self)
        if type(self) is not kind:
            if function is not None:
                raise TypeError(
                    f"{type(self).__name__} defines {kind._method} and takes no function besides, "
                    f"{_short(function)} came"
                )
        elif isinstance(function, type) and issubclass(function, Transformation):
            raise TypeError(
                f"{kind.__name__}: expected a function, the class {function.__name__} came; "
                f"it is an operation itself: write {function.__name__}() in its place"
            )
        elif not callable(function):
            raise TypeError(
                f"{kind.__name__}: expected a function of ({kind._arguments}), {_short(function)} came"
            )
        else:
            self._function = function

    def __repr__(self) -> str:
        return label_of(self)


class Map(Transformation):
    """One element in, one out; what comes out must depend on the element alone.

    Args:
        function: takes an element, returns the new one. A subclass defines `map(self, element)` instead.
        seed_globals: seed `random`, `numpy.random` and, where imported, torch from the record before each
            call, for functions that draw from them. A subclass may set it as an attribute.

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
    seed_globals: bool = False

    def __init__(
        self, function: Callable[[Any], Any] | None = None, *, seed_globals: bool | None = None
    ) -> None:
        self._take(function)
        if seed_globals is None:
            return
        if not isinstance(seed_globals, bool):
            raise TypeError(f"seed_globals: expected True or False, {_short(seed_globals)} came")
        self.seed_globals = seed_globals

    def map(self, element: Any) -> Any:
        """The element that takes this one's place."""
        return function_of(self)(element)


class MapWithIndex(Transformation):
    """As Map, with the element's index: its global place in the endless stream of all epochs.

    Args:
        function: takes (index, element), returns the new element. A subclass defines
            `map_with_index(self, index, element)` instead.

    >>> MapWithIndex(lambda index, element: (index, element)).map_with_index(7, "x")
    (7, 'x')
    """

    _method = "map_with_index"
    _arguments = "index, element"

    def __init__(self, function: Callable[[int, Any], Any] | None = None) -> None:
        self._take(function)

    def map_with_index(self, index: int, element: Any) -> Any:
        """The element that takes this one's place."""
        return function_of(self)(index, element)


class RandomMap(Transformation):
    """As Map, with a random generator that belongs to the element and the operation, whoever runs it.

    Args:
        function: takes (element, rng), returns the new element; `rng` is valid during the call. A subclass
            defines `random_map(self, element, rng)` instead.

    >>> flip = RandomMap(lambda image, rng: image[::-1] if rng.random() < 0.5 else image)
    >>> flip.random_map("abc", np.random.Generator(np.random.Philox(key=3)))
    'abc'
    """

    _method = "random_map"
    _arguments = "element, rng"

    def __init__(self, function: Callable[[Any, np.random.Generator], Any] | None = None) -> None:
        self._take(function)

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element that takes this one's place."""
        return function_of(self)(element, rng)


class Filter(Transformation):
    """Keeps the elements for which the answer is true.

    Args:
        function: takes an element, returns a bool. A subclass defines `filter(self, element)` instead.

    >>> Filter(lambda element: element > 2).filter(1)
    False
    """

    _method = "filter"

    def __init__(self, function: Callable[[Any], bool | np.bool_] | None = None) -> None:
        self._take(function)

    def filter(self, element: Any) -> bool | np.bool_:
        """Whether the element stays."""
        return bool(function_of(self)(element))


class FlatMap(Transformation):
    """One element in, any number out, none included.

    Args:
        function: takes an element, returns the elements that take its place, finitely many. A subclass
            defines `flat_map(self, element)` instead.
        max_fan_out: if set, more elements out of one are an error. A subclass may set it as an attribute.

    >>> list(FlatMap(range).flat_map(3))
    [0, 1, 2]
    """

    _method = "flat_map"
    max_fan_out: int | None = None

    def __init__(
        self, function: Callable[[Any], Iterable[Any]] | None = None, *, max_fan_out: int | None = None
    ) -> None:
        self._take(function)
        if max_fan_out is None:
            return
        if isinstance(max_fan_out, bool) or not isinstance(max_fan_out, int | np.integer):
            raise TypeError(f"max_fan_out: expected an int, {_short(max_fan_out)} came")
        if max_fan_out < 1:
            raise ValueError(f"max_fan_out: expected at least 1, {max_fan_out} came")
        self.max_fan_out = int(max_fan_out)

    def flat_map(self, element: Any) -> Iterable[Any]:
        """The elements that take this one's place."""
        answer: Iterable[Any] = function_of(self)(element)
        return answer


def _size(name: str, size: Any) -> int | None:
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise TypeError(f"{name}: expected an int, {_short(size)} came")
    if size < 1:
        raise ValueError(f"{name}: expected at least 1, {size} came")
    return int(size)


class Batch(Transformation):
    """Consecutive elements stacked, leaf by leaf as `np.stack` does; bytes give an array of objects.

    Args:
        batch_size: rows of one shard's batch. Exactly one of the two sizes is given.
        global_batch_size: rows of the batches of all shards together; only for the last Batch.
        remainder: what becomes of the last rows where they fill no whole batch: "keep", "drop", "pad" (zeros in place
            of the missing rows, and a boolean leaf "valid"; an element that is no dict becomes (batch, valid)), or
            "wrap" (the stream's first elements again). An earlier Batch than the last takes keep or drop.
        drop_remainder: True says remainder="drop".
        batch_fn: takes the list of rows and returns the batch, in place of stacking.

    >>> Batch(32, drop_remainder=True)
    Batch(batch_size=32, remainder='drop')
    >>> Batch()
    Traceback (most recent call last):
    ValueError: Batch: expected exactly one of batch_size and global_batch_size, neither came
    """

    _method = ""

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
            came = "neither" if batch_size is None else "both"
            raise ValueError(f"Batch: expected exactly one of batch_size and global_batch_size, {came} came")
        if remainder not in ("keep", "drop", "pad", "wrap"):
            raise ValueError(
                f"remainder: only 'keep', 'drop', 'pad' and 'wrap' are known, {_short(remainder)} came"
            )
        if not isinstance(drop_remainder, bool | np.bool_):
            raise TypeError(f"drop_remainder: expected True or False, {_short(drop_remainder)} came")
        if batch_fn is not None and not callable(batch_fn):
            raise TypeError(f"batch_fn: expected a function of a list of rows, {_short(batch_fn)} came")
        if drop_remainder and remainder not in ("keep", "drop"):
            raise ValueError(
                f"drop_remainder: it says remainder='drop', {remainder!r} came besides; give one"
            )
        self.batch_size = _size("batch_size", batch_size)
        self.global_batch_size = _size("global_batch_size", global_batch_size)
        self.remainder = "drop" if drop_remainder else remainder
        self.batch_fn = batch_fn

    def stacked(self, parts: Sequence[Block | Sequence[Any]], describe: Callable[[int], str]) -> Any:
        """A batch of rows where there is no batch_fn, as `stack` makes it; a subclass may stack otherwise.

        Args:
            parts, describe: as `stack` takes them. Rows that hold only arrays and numbers, alike in structure, dtype
                and shape, may be written in place without asking here.
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


def _kinds_of(cls: type[Transformation]) -> list[type[Transformation]]:
    return [
        base
        for base in cls.__mro__
        if issubclass(base, Transformation) and base is not Transformation and "_method" in vars(base)
    ]


def _kind_of(operation: Transformation) -> type[Transformation]:
    return _kinds_of(type(operation))[0]


def name_of(function: Callable[..., Any]) -> str:
    """A short name of a callable, without addresses.

    >>> name_of(partial(abs))
    'abs'
    """
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def function_of(operation: Transformation) -> Callable[..., Any]:
    """What to call for each element: the function as it was given, or the subclass's method.

    Args:
        operation: any but Batch.

    >>> function_of(Map(abs)) is abs
    True
    """
    kind = _kind_of(operation)
    if type(operation) is kind and operation._function is not None:
        return operation._function
    method: Callable[..., Any] = getattr(operation, kind._method)
    return method


def label_of(operation: Transformation) -> str:
    """A short name for errors and state, without addresses: it is the same in every process.

    Args:
        operation: any.

    >>> label_of(Filter(str.isalpha)), label_of(Batch(8))
    ('Filter(isalpha)', 'Batch(batch_size=8)')
    """
    kind = _kind_of(operation)
    if isinstance(operation, Batch):
        return repr(operation)
    if type(operation) is kind and operation._function is not None:
        return f"{kind.__name__}({name_of(operation._function)})"
    return type(operation).__name__


def draws(op: Transformation) -> bool:
    """Whether the operation draws random numbers, and so needs a seed and an ordinal.

    >>> draws(RandomMap(lambda x, rng: x)), draws(Map(abs))
    (True, False)
    """
    return isinstance(op, RandomMap) or (isinstance(op, Map) and bool(op.seed_globals))
