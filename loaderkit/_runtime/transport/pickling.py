"""Pickles between a trainer and its workers: by value for objects that aren't in an importable module (user scripts).

A class of the script is sent by value once, with the program. If it were sent by value again, in an element or an
exception, cloudpickle would find the other side's class by its number, but also set all its attributes again: methods
would see copies of their globals, and counters would jump back. So once both sides have a class, only its number is
sent.
"""

import contextlib
import copyreg
import pickle
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from io import BytesIO
from typing import Any

import cloudpickle
import numpy as np
from cloudpickle.cloudpickle import _DYNAMIC_CLASS_TRACKER_BY_CLASS as _NUMBERS
from cloudpickle.cloudpickle import _DYNAMIC_CLASS_TRACKER_BY_ID as _CLASSES
from cloudpickle.cloudpickle import _dynamic_class_reduce, dynamic_subimport

from loaderkit._base.notes import text_of
from loaderkit._base.system.byte_order import reduce_array
from loaderkit._base.system.importable import lives_here_alone
from loaderkit._base.system.shared_memory import sending
from loaderkit.errors import TransportError

_OF_IMPORTS = {"__builtins__", "__loader__", "__spec__", "__cached__"}
BufferCallback = Callable[[pickle.PickleBuffer], Any]


class Packer:
    """Pickles objects for the other side.

    Args:
        known: numbers of the classes that the other side has.

    >>> pickle.loads(Packer().dumps(lambda x: x + 1))(2)
    3
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        self.known = set(known)
        # modules that `teach` sent by value, which the other side can't import
        self.by_value: set[str] = set()

    def dumps(self, content: Any, buffer_callback: BufferCallback | None = None) -> bytes:
        """The pickle of `content`. buffer_callback: as pickle's, takes the buffers that are sent out of band."""
        out = BytesIO()
        _Pickler(out, self.known, buffer_callback).dump(content)
        return out.getvalue()

    def teach(self, content: Any) -> bytes:
        """The pickle of `content`; the other side has its classes from then on."""
        out = BytesIO()
        pickler = _Pickler(out, self.known, None)
        pickler.dump(content)
        self.known |= pickler.met
        self.by_value |= pickler.by_value
        return out.getvalue()

    def classes(self) -> list[type]:
        """Those that the other side has by value."""
        return [_CLASSES[number] for number in self.known]


def teach(packer: Packer, content: Any, named: Sequence[tuple[str, Any]]) -> bytes:
    """The pickle of `content`, whose classes the other side has from then on.

    Args:
        packer: for that side.
        content: of the named parts.
        named: TransportError with the name of the first that can't be pickled.
    """
    try:
        return packer.teach(content)
    except Exception as error:
        what = _what_cannot_travel(named, text_of(error))
        raise TransportError(f"{what}. Make it where it is used first") from error


def all_classes() -> set[str]:
    """Numbers of the classes that this process was sent or has sent."""
    return set(_CLASSES)


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]  # cloudpickle ships no types
    def __init__(self, out: BytesIO, known: set[str], buffer_callback: BufferCallback | None) -> None:
        super().__init__(out, protocol=5, buffer_callback=buffer_callback)
        self._known = known
        self.met: set[str] = set()
        self.by_value: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, np.ndarray) and type(obj) not in copyreg.dispatch_table:
            return reduce_array(obj)
        if isinstance(obj, types.FunctionType) and self._goes_by_value(obj.__module__):
            return self._dynamic_function_reduce(obj)
        if isinstance(obj, types.ModuleType) and self._goes_by_value(obj.__name__):
            return _module_by_value(obj)
        if not isinstance(obj, type):
            return super().reducer_override(obj)
        number = _NUMBERS.get(obj)
        if number in self._known:
            return _class_of, (number,)
        by_value = self._goes_by_value(obj.__module__)
        reduced = _dynamic_class_reduce(obj) if by_value else super().reducer_override(obj)
        number = _NUMBERS.get(obj)
        if number is not None:
            self.met.add(number)
        return reduced

    def _goes_by_value(self, module: str | None) -> bool:
        if module is None or module == "__main__" or not lives_here_alone(module):
            return False  # cloudpickle itself sends objects of __main__ by value
        self.by_value.add(module)
        return True


def _module_by_value(module: types.ModuleType) -> tuple[Any, ...]:
    # Without the attributes that an import or cloudpickle sets.
    own = {name: value for name, value in vars(module).items() if name not in _OF_IMPORTS}
    return dynamic_subimport, (module.__name__, own)


def _class_of(number: str) -> Any:
    return _CLASSES[number]


def _what_cannot_travel(named: Sequence[tuple[str, Any]], reason: str) -> str:
    for name, thing in named:
        if _travels(thing):
            continue
        parts = [
            f"its attribute {attribute!r}" for attribute, value in _attributes(thing) if not _travels(value)
        ]
        return f"{name} can't be sent to worker processes: {', '.join(parts) or type(thing).__qualname__}: {reason}"
    return f"the pipeline can't be sent to worker processes: {reason}"


def _travels(thing: Any) -> bool:
    try:
        with sending():
            Packer().dumps(thing)
    except Exception:  # noqa: BLE001 - the user's reduce may raise anything
        return False
    return True


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    function = getattr(thing, "_function", None) or thing
    for name, cell in zip(
        getattr(getattr(function, "__code__", None), "co_freevars", ()),
        getattr(function, "__closure__", None) or (),
        strict=False,
    ):
        with contextlib.suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents
