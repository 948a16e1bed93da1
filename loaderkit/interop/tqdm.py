"""tqdm: a bar over a loader or its iterator."""

from loaderkit.observe.progress import progress

__all__ = ["progress"]
