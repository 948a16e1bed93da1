"""Short forms that make one data source and its sampler out of several sources, or of one and its labels.

They return `(source, sampler)` for a DataLoader, and read nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .balanced import balance as balance
    from .interleaved import interleave as interleave
    from .mixed import mix as mix
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "balance": "loaderkit.combine.balanced",
        "interleave": "loaderkit.combine.interleaved",
        "mix": "loaderkit.combine.mixed",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
