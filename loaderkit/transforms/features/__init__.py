"""Features of columns: numbers normalised, and categories as ids, for batches and for single records.

Each operation replaces one leaf, or adds one, and never looks at other rows: a batch gives what its records would.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .bucketized import Bucketized as Bucketized
    from .crossed import Crossed as Crossed
    from .hashed import Hashed as Hashed
    from .identity import Identity as Identity
    from .numeric import Numeric as Numeric
    from .one_hot import MultiHot as MultiHot
    from .one_hot import OneHot as OneHot
    from .vocabulary import Vocabulary as Vocabulary
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "Bucketized": "loaderkit.transforms.features.bucketized",
        "Crossed": "loaderkit.transforms.features.crossed",
        "Hashed": "loaderkit.transforms.features.hashed",
        "Identity": "loaderkit.transforms.features.identity",
        "MultiHot": "loaderkit.transforms.features.one_hot",
        "Numeric": "loaderkit.transforms.features.numeric",
        "OneHot": "loaderkit.transforms.features.one_hot",
        "Vocabulary": "loaderkit.transforms.features.vocabulary",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
