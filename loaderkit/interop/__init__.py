"""Other libraries, one a room, each imported when it is first asked for."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import grain as grain
    from . import jax as jax
    from . import keras as keras
    from . import tf as tf
    from . import torch as torch
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    __getattr__, __dir__ = _lazy_names(
        globals(),
        {},
        ["grain", "jax", "keras", "tf", "torch"],
    )
