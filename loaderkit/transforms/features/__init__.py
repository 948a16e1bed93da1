"""Features of columns: numbers scaled and put in buckets, words numbered, values hashed, crossed and one-hot.

Each is a Map on a dict: of a batch's columns behind a Batch, or of one record's values before it, with one result.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .bucketized import Bucketized as Bucketized
    from .hashed import Crossed as Crossed
    from .hashed import Hashed as Hashed
    from .numeric import Numeric as Numeric
    from .one_hot import MultiHot as MultiHot
    from .one_hot import OneHot as OneHot
    from .vocabulary import Vocabulary as Vocabulary
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "Bucketized": "loaderkit.transforms.features.bucketized",
        "Crossed": "loaderkit.transforms.features.hashed",
        "Hashed": "loaderkit.transforms.features.hashed",
        "MultiHot": "loaderkit.transforms.features.one_hot",
        "Numeric": "loaderkit.transforms.features.numeric",
        "OneHot": "loaderkit.transforms.features.one_hot",
        "Vocabulary": "loaderkit.transforms.features.vocabulary",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
