"""A script: global and cached batches on devices, and what they come from; ends with 7."""

import functools
import sys

import jax
import numpy as np

import loaderkit as lk
from loaderkit.interop.jax import device_iterator

one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
memory = lk.InMemoryDataSource([{"x": np.full(64, k, np.float32)} for k in range(16)])
arrays = lk.ArrayDataSource({"x": np.arange(64, dtype=np.float32).reshape(16, 4)})
options = {"batch_size": 4, "worker_kind": "thread"}
iterators = [
    device_iterator(iter(lk.load(source, worker_count=count, **options)), one)
    for source in (memory, arrays)
    for count in (0, 1)
]
batches = [next(it) for it in iterators]


@functools.lru_cache
def cached():
    return iterators, batches, memory, arrays


cached()
sys.exit(7)
