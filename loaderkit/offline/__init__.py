"""What is computed once of a whole data set, before a run: array files of lengths, labels, flags, and packing plans.

It runs loaders. No loader imports it; a worker imports `pack_plan`, which runs none, where its source has a plan.
"""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
