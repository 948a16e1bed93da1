"""JAX: the rows that each process loads, and batches as global arrays on devices."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device import DeviceIterator as DeviceIterator
    from .device import device_iterator as device_iterator
    from .sharding import ShardByJaxProcess as ShardByJaxProcess
    from .sharding import ShardBySharding as ShardBySharding
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "DeviceIterator": "loaderkit.interop.jax.device",
        "ShardByJaxProcess": "loaderkit.interop.jax.sharding",
        "ShardBySharding": "loaderkit.interop.jax.sharding",
        "device_iterator": "loaderkit.interop.jax.device",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
