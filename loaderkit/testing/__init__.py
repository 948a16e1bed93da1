"""Checks that users run on what they write: `check_pipeline` on a whole loader, the others on one part of it.

`check_source`, `check_sampler`, `check_operation`, `check_format` and `check_iter_dataset` say whether a user's own
part keeps what loaderkit relies on.
"""

from loaderkit._base.lazy_package import lazy_names as _lazy_names

__getattr__, __dir__ = _lazy_names(globals())
