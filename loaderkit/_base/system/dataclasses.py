"""Dataclasses whose `__init__` is compiled when it is first called, and whose other methods aren't compiled at all.

The standard library writes the text of six methods for each class and compiles it, which takes ten times as long as the
rest: for all classes that a loader imports, as long as half of numpy's import. Most of them no process ever calls.
Public classes are the standard library's, so that their signatures are there at once.
"""

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, asdict, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, init=True, repr=True, eq=True, frozen=False, slots=False, kw_only=False):  # noqa: A002 - its names
        """The standard library's, with the same arguments.

        >>> @dataclass(frozen=True, slots=True)
        ... class Place:
        ...     row: int = 0
        >>> Place(3), Place(3) == Place(3), hash(Place(3)) == hash(Place(3))
        (Place(row=3), True, True)
        """
        options = {"init": False, "repr": False, "eq": False, "slots": slots, "kw_only": kw_only}
        methods = {"__init__": _init} if init else {}
        methods |= {"__repr__": _repr} if repr else {}
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None} if eq else {}

        def make(cls):
            # Below a frozen class only the standard library may freeze another.
            below = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
            cls.__doc__ = cls.__doc__ or cls.__name__  # else its signature, which `inspect` makes slowly
            made = dataclasses.dataclass(frozen=below and frozen, **options)(cls)
            for name, method in methods.items():
                if vars(cls).get(name) is None:  # Python's own __hash__ beside an __eq__ is None, too
                    setattr(made, name, method and method(made))
            if frozen and not below:
                _freeze(made)
            return made

        return make if cls is None else make(cls)


def _init(made: Any) -> Any:
    def first(self: Any, *arguments: Any, **named: Any) -> None:
        made.__init__ = _compiled_init(made)
        made.__init__(self, *arguments, **named)

    return first


def _compiled_init(made: Any) -> Any:
    frozen = made.__dataclass_params__.frozen
    known: dict[str, Any] = {"_put_": object.__setattr__, "_absent_": object()}
    by_place, by_name, body = ["self"], list[str](), ["pass"]
    for each in fields(made):
        name = value = each.name
        argument = name
        if each.default is not MISSING:
            argument = f"{name}=_default_{name}"
            known[f"_default_{name}"] = each.default
        elif each.default_factory is not MISSING:
            argument, value = f"{name}=_absent_", f"_make_{name}() if {name} is _absent_ else {name}"
            known[f"_make_{name}"] = each.default_factory
        if each.init:
            (by_name if each.kw_only else by_place).append(argument)
        elif argument.endswith("=_absent_"):
            value = f"_make_{name}()"
        else:
            continue
        body.append(f"_put_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = ", ".join([*by_place, *(["*", *by_name] if by_name else [])])
    text = f"def __init__({arguments}):\n  " + "\n  ".join(body)
    # Run as text, Python would forget that a Ctrl-C ends the process.
    exec(compile(text, "<dataclass>", "exec"), known)
    known["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    return known["__init__"]


def _compared(made: Any) -> Any:
    """A function that gives the values of an object."""
    names = [each.name for each in fields(made) if each.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _eq(made: Any) -> Any:
    values = _compared(made)

    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(made: Any) -> Any:
    values = _compared(made)
    return lambda self: hash(values(self))


def _repr(made: Any) -> Any:
    names = [each.name for each in fields(made) if each.repr]

    def text(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return text


def _freeze(made: Any) -> None:
    made.__setattr__ = _refusing(made, "__setattr__", "assign to")
    made.__delattr__ = _refusing(made, "__delattr__", "delete")
    made.__dataclass_params__.frozen = True
    if "__slots__" in vars(made):
        made.__getstate__, made.__setstate__ = _state, _set_state


def _refusing(made: Any, method: str, what: str) -> Any:
    names = [each.name for each in fields(made)]

    def refuse(self: Any, name: str, *value: Any) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot {what} field {name!r}")
        getattr(super(made, self), method)(name, *value)

    return refuse


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
