"""Operations on elements between the source and the trainer, and how a worker runs a list of them.

Nothing here depends on the worker that runs it or on the indices of other records.
"""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
