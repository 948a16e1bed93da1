"""A script: holds what this package makes in every place that Python empties late, and ends with 7.

Sources, buffers, batches and iterators; batches on devices; arrays and lists in named shared memory.
"""

import builtins
import functools
import os
import sys
import threading
import types
import warnings

import jax
import numpy as np

import loaderkit as lk
from loaderkit._base.system.shared_memory import SharedBuffer
from loaderkit.interop.grain import _shared_memory
from loaderkit.interop.jax import device_iterator


def loader(source, workers, threads=0):
    return lk.DataLoader(
        data_source=source,
        sampler=lk.SequentialSampler(len(source)),
        operations=[lk.Batch(4)],
        worker_count=workers,
        worker_kind="thread",
        read_options=lk.ReadOptions(num_threads=threads),
    )


def made():
    memory = lk.InMemoryDataSource([{"x": np.full(64, k, np.float32)} for k in range(16)])
    arrays = lk.ArrayDataSource({"x": np.arange(64.0).reshape(16, 4)})
    running = [iter(loader(memory, 0, threads=2)), iter(loader(arrays, 1))]
    running.append(device_iterator(iter(loader(memory, 0))))
    batches = [next(it) for it in running]
    return [SharedBuffer(8), memory, arrays, memory[3], arrays[3], running, batches, *named()]


def named():
    warnings.simplefilter("ignore", DeprecationWarning)
    array = _shared_memory.SharedMemoryArray((4, 4), np.float32)
    array.unlink_on_del()
    opened = _shared_memory.SharedMemoryArray.from_metadata(array.metadata)
    values = _shared_memory.SharedMemoryDataSource([1, 2, 3])
    values.unlink()
    return array, array[1:], opened, opened[3:], values


@functools.lru_cache
def cached():
    return made()


def function():
    pass


class Node:
    pass


class Ends:
    """Uses what it holds in its own end."""

    def __init__(self):
        self.held = made()

    def __del__(self):
        self.held[0].writable()[0] = 7


if __name__ == "__main__":
    held = made()
    cached()
    function.held = made()
    node = Node()
    node.itself, node.held = node, made()
    local = threading.local()
    local.held = made()
    module = sys.modules["of_the_user"] = types.ModuleType("of_the_user")
    module.held = made()
    for place in (lk, sys, np, os, builtins, lk.DataLoader, lk.sources, _shared_memory, jax):
        place.of_the_user = made()
    _shared_memory.SharedMemoryArray.enable_async_del(2, 5)
    named()
    ends = Ends()
    sys.exit(7)
