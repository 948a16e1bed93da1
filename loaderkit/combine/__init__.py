"""Short forms that make one data source and its sampler out of several sources, or of one and its labels.

They return `(source, sampler)` for a DataLoader, and read nothing.
"""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
