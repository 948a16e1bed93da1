"""A call whose generators are seeded from a record: those of the process, and those that the function itself keeps."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

_MOST_OBJECTS = 10_000  # looked at in a function: a walk takes some milliseconds, once a process
_MOST_OF_ONE = 1_000  # values of a container that is looked into; longer ones are data


class _Generator(NamedTuple):
    """A generator that a function keeps: its state, put back, and seeded with two numbers of 32 bits."""

    state: Callable[[], Any]
    set_state: Callable[[Any], None]
    seed: Callable[[int, int], None]


class SeededCall:
    """A function that draws from generators as one of a record and a generator, which seeds them.

    They are `random`, `numpy.random`, torch where it is imported, and those found in the function: attributes of an
    object and of the objects in it, and what a function has from around it.

    Args:
        function: takes one element.

    >>> draw = SeededCall(lambda _: random.random())
    >>> with draw.kept():
    ...     one, two = (draw(None, np.random.Generator(np.random.Philox(key=1))) for _ in range(2))
    >>> one == two
    True
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self._called = False
        # Found in each process, since it isn't the function's copy's.
        self._own: list[_Generator] | None = None

    @property
    def own(self) -> list[_Generator]:
        """The generators that are found in the function, in the order in which it names them."""
        if self._own is None:
            self._own = _found_in(self.function)
        return self._own

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Behind the block all generators are where they were before, also after an error.

        So code that runs later in the process, the trainer's at worker_count=0, isn't affected. The calls of many
        records share one block: numpy takes 80 us to give a state and to take it back.
        """
        with ExitStack() as stack:
            stack.callback(random.setstate, random.getstate())
            stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002 - the point is the global generator
            # Used only where the user's code has imported it: an import here would take each worker about a second.
            if (torch := sys.modules.get("torch")) is not None:
                stack.callback(torch.random.set_rng_state, torch.random.get_rng_state())
            for generator in self.own:
                stack.callback(generator.set_state, generator.state())
            yield

    def __call__(self, element: Any, rng: "np.random.Generator") -> Any:
        """What the function makes of an element; within `kept`."""
        # The numbers that rng.integers gives of a generator in its first state, in a sixth of its time.
        drawn = rng.bit_generator.random_raw(2 + len(self.own)).view(np.uint32)  # (4 + 2 * generators,)
        words = drawn.tolist()
        random.seed(words[0])
        np.random.seed(drawn[1:3])  # noqa: NPY002 - the point is the global generator
        if (torch := sys.modules.get("torch")) is not None:
            torch.random.default_generator.manual_seed(words[3])
        for place, generator in enumerate(self.own):
            generator.seed(words[4 + 2 * place], words[5 + 2 * place])
        made = self.function(element)
        if not self._called:
            self._called = True
            if len(found := _found_in(self.function)) > len(self.own):
                raise ValueError(
                    f"expected the generators before the first call, got {len(found) - len(self.own)} that it made, "
                    "which no record has seeded; make them in __init__"
                )
        return made

    def __reduce__(self) -> tuple[type["SeededCall"], tuple[Any]]:
        return SeededCall, (self.function,)


def _found_in(function: Any) -> list[_Generator]:
    found: list[_Generator] = []
    seen: dict[int, Any] = {}  # by id; kept, so that no other object gets an id of them
    todo = [function]
    while todo and len(seen) < _MOST_OBJECTS:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if (generator := _generator_of(value)) is not None:
            found.append(generator)
        else:
            todo += reversed(_parts_of(value))
    return found or [_reseeded(value) for value in seen.values() if hasattr(type(value), "set_random_seed")]


def _reseeded(value: Any) -> _Generator:
    """An object of compiled code that takes a seed, shows no generator, and so isn't put back."""
    return _Generator(lambda: None, lambda _: None, lambda one, _: value.set_random_seed(one))


def _parts_of(value: Any) -> list[Any]:
    """What may be a generator, or have one, in an object: in an order that is the same in each process."""
    if isinstance(value, ModuleType | type | np.ndarray | str | bytes | int | float | None):
        return []
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, FunctionType):
        named = [value.__globals__[name] for name in _names_in(value.__code__) if name in value.__globals__]
        around = [each for cell in value.__closure__ or () for each in _contents_of(cell)]
        return [*around, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *named]
    parts: list[Any] = []
    if isinstance(value, list | tuple | dict) and len(value) <= _MOST_OF_ONE:
        parts += value.values() if isinstance(value, dict) else value
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        parts += [getattr(value, name, None) for name in ([slots] if isinstance(slots, str) else slots)]
    parts += (getattr(value, "__dict__", None) or {}).values()
    # What the calls of an object name, such as a generator of its module.
    return [*parts, *(each for name in ("__call__", "map") if (each := type(value).__dict__.get(name)))]


def _contents_of(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # empty: the name has no value yet
        return []


def _names_in(code: CodeType) -> list[str]:
    """The names of globals in a function and in those that it makes, each once."""
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names_in(each)]
    return [*dict.fromkeys([*code.co_names, *inner])]


def _generator_of(value: Any) -> _Generator | None:
    """How an object is seeded that is a generator of its own; None for another, and for a global one."""
    kind = type(value)
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        return _Generator(
            partial(getattr, bits, "state"), partial(setattr, bits, "state"), partial(_seed_bits, bits)
        )
    if isinstance(value, np.random.RandomState) and value is not np.random.mtrand._rand:
        return _Generator(value.get_state, value.set_state, lambda one, two: value.seed([one, two]))
    if kind.__name__ == "Generator" and kind.__module__.partition(".")[0] == "torch":
        if value is sys.modules["torch"].random.default_generator:
            return None
        return _Generator(
            value.get_state, value.set_state, lambda one, two: value.manual_seed(one << 31 | two)
        )
    if kind.__name__ == "SeedGenerator" and hasattr(value, "state"):  # Keras's: two numbers in a variable
        variable = value.state
        return _Generator(
            lambda: np.asarray(variable),
            variable.assign,
            lambda one, two: variable.assign(np.array([one, two], np.uint32)),
        )
    if isinstance(value, random.SystemRandom) or value is _GLOBAL:
        return None
    if all(hasattr(kind, name) for name in ("getstate", "setstate", "seed")):
        # random.Random, and what is like it
        return _Generator(value.getstate, value.setstate, lambda one, two: value.seed(one << 32 | two))
    return None


_GLOBAL = getattr(random.random, "__self__", None)


def _seed_bits(bits: Any, one: int, two: int) -> None:
    if type(bits) not in (np.random.PCG64, np.random.PCG64DXSM):
        bits.state = type(bits)([one, two]).state
        return
    # Any number is a state, and any odd one an increment; a new generator of a seed would take 10 us.
    bits.state = {
        "bit_generator": type(bits).__name__,
        "state": {"state": (one + 1) * _SPREAD & _LOW, "inc": (two + 1) * _SPREAD & _LOW | 1},
        "has_uint32": 0,
        "uinteger": 0,
    }


_LOW = (1 << 128) - 1
_SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835  # all of 128 bits depend on a word
