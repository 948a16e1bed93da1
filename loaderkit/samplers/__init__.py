"""Samplers: which record each index of the stream reads.

A sampler is arithmetic on the index; it never reads a record.
"""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
