"""Sources of records: those of loaderkit, and what any other object needs to be one.

A source gives the record of a key, `source[record_key]`. It knows nothing of order, steps and workers.
"""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
