"""The first messages to worker processes, packed once for all of them; errors name what can't be sent."""

import os
import pickle
import sys
from dataclasses import replace
from secrets import token_hex
from typing import Any, NamedTuple

import cloudpickle

from loaderkit._base.system.platform import worker_environment
from loaderkit._base.system.shared_memory import mapped, sending
from loaderkit._runtime.transport import wire
from loaderkit._runtime.transport.pickling import Packer, teach
from loaderkit._runtime.worker.program import Program
from loaderkit.errors import TransportError
from loaderkit.transforms.base import named_operations

from .launch import check_start
from .preparation import Preparation

MOST_ELSEWHERE = 256 << 20  # bytes of a program for other machines, which each of them is sent
_HEAP_TYPE = 1 << 9  # of a class's flags: made by a class statement


def pack_first_messages(program: Program, packer: Packer, level: str | None) -> tuple[bytes, list[int]]:
    """The first messages to workers on processors of a level, and the descriptors that they refer to.

    Raises TransportError naming the part that can't be sent, and WorkerError where this process can't start worker
    processes.
    """
    check_start()
    return _packed(program, packer, worker_environment(level))


class Parcel(NamedTuple):
    """A program for workers on other machines.

    name: that no other has. parts: the first messages, and the contents of the buffers that their pickle refers to.
    """

    name: str
    parts: tuple[bytes | memoryview, ...]


def pack_parcel(program: Program, packer: Packer) -> Parcel:
    """A program for workers on other machines, which open files by their names there.

    Raises TransportError naming the part that can't be sent, or where it is too much.
    """
    packed, descriptors = _packed(replace(program, files={}), packer, None)
    buffers = [mapped(fd, os.fstat(fd).st_size).toreadonly() for fd in descriptors]
    parts: tuple[bytes | memoryview, ...] = (packed, *buffers)
    nbytes = sum(map(len, parts))
    if nbytes > MOST_ELSEWHERE:
        raise TransportError(
            f"data_source and operations: expected at most {MOST_ELSEWHERE:,} bytes for workers on other machines, "
            f"got {nbytes:,}. Put the data on storage that all machines see, with lk.write, and open it there"
        )
    return Parcel(token_hex(16), parts)


def _packed(program: Program, packer: Packer, environment: dict[str, str] | None) -> tuple[bytes, list[int]]:
    elsewhere = environment is None
    with sending(elsewhere=elsewhere) as descriptors:
        named: list[tuple[str, Any]] = [("data_source", program.source)]
        for number, operation in enumerate(program.operations):
            named += [(each.label, each.operation) for each in named_operations(number, operation)]
        pickled = teach(packer, program, named)
    check_classes(packer)
    preparation = Preparation.of_this_process(packer.by_value, environment=environment, elsewhere=elsewhere)
    prepare = wire.frame(wire.PREPARE, pickle.dumps(preparation))
    return prepare + wire.frame(wire.PROGRAM, pickled), list(descriptors)


def check_classes(packer: Packer) -> None:
    """TransportError for a class that went by value and is registered with JAX."""
    for cls in packer.classes():
        if _registered(cls):
            raise TransportError(
                f"{cls.__qualname__} is registered with JAX as a pytree, and worker processes would get it without "
                "that: they can't import it. Put it into a module"
            )


def operations_now(program: Program) -> bytes:
    """A pickle of the operations as they are now, to compare with one made when the program was sent."""
    with sending():
        operations: bytes = cloudpickle.dumps(program.operations)
    return operations


def _registered(cls: type) -> bool:
    jax = sys.modules.get("jax.tree_util")
    if jax is None or issubclass(cls, tuple):  # a named tuple is a pytree everywhere
        return False
    try:
        made_by: Any = next(each for each in cls.__mro__ if not each.__flags__ & _HEAP_TYPE)
        return not jax.all_leaves([made_by.__new__(cls)])
    except TypeError:  # abstract, or with memory of its own as an array
        return False
