"""JAX: the rows that each process loads, and batches as global arrays on devices."""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
