from .device import DeviceIterator as DeviceIterator
from .device import device_iterator as device_iterator
from .sharding import ShardByJaxProcess as ShardByJaxProcess
from .sharding import ShardBySharding as ShardBySharding
