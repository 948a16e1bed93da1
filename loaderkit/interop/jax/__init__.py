"""JAX: which rows a process loads, and batches as global arrays on its devices."""

from .device import DeviceIterator as DeviceIterator
from .device import device_iterator as device_iterator
from .sharding import ShardByJaxProcess as ShardByJaxProcess
from .sharding import ShardBySharding as ShardBySharding
