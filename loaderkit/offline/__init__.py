"""What is computed once of a whole data set, before a run: array files of lengths, labels, flags, and packing plans.

It runs loaders. No loader imports it, and no worker.
"""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
