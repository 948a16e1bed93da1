"""Features of columns: numbers normalised, and categories as ids, for batches and for single records.

Each operation replaces one leaf, or adds one, and never looks at other rows: a batch gives what its records would.
"""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
