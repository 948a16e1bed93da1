"""A script: holds sources, buffers, batches and iterators in every place that Python empties late, and ends with 7."""

import builtins
import functools
import os
import sys
import threading
import types

import numpy as np

import loaderkit as lk
from loaderkit._memory import SharedBuffer


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
    return [SharedBuffer(8), memory, arrays, memory[3], arrays[3], running, [next(it) for it in running]]


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


held = made()
cached()
function.held = made()
node = Node()
node.itself, node.held = node, made()
local = threading.local()
local.held = made()
module = sys.modules["of_the_user"] = types.ModuleType("of_the_user")
module.held = made()
for place in (lk, sys, np, os, builtins, lk.DataLoader, lk.sources):
    place.of_the_user = made()
ends = Ends()
sys.exit(7)
