"""Ray: shards of a map-reduce, and the workers of a loader, on the hosts of a cluster."""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
