"""A script: arrays and lists in named shared memory, held in every place that Python empties late; ends with 7."""

import functools
import os
import sys

import numpy as np

from loaderkit.interop.grain import _put_away, _shared_array, _shared_list


def made():
    array = _shared_array.SharedMemoryArray((4, 4), np.float32)
    array.unlink_on_del()
    away = _put_away.copy_to_shm({"x": np.ones(1000)})
    opened = _put_away.open_from_shm(_put_away.copy_to_shm({"x": np.ones(1000)}))
    values = _shared_list.SharedMemoryDataSource([1, 2, 3])
    values.unlink()
    return array, array[1:], away, opened, opened["x"][3:], values


class Node:
    pass


@functools.lru_cache
def cached():
    return made()


held = made()
cached()
node = Node()
node.itself, node.held = node, made()
for place in (sys, np, os, _shared_array, _put_away):
    place.of_the_user = made()
_shared_array.SharedMemoryArray.enable_async_del(2, 5)
made()
sys.exit(7)
