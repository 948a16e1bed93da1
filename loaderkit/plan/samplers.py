"""The old name of `loaderkit.samplers`: its names come from there, with a warning. It goes with 0.2.0."""

import warnings
from typing import TYPE_CHECKING, Any

from loaderkit import samplers as _samplers

if TYPE_CHECKING:
    from loaderkit.samplers import IndexSampler, Sampler, SequentialSampler

__all__ = ["IndexSampler", "Sampler", "SequentialSampler"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        warnings.warn(
            f"loaderkit.plan.samplers.{name} is loaderkit.samplers.{name} now; the old name goes with 0.2.0",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(_samplers, name)
