"""Transforms of other libraries called on what records have: numpy arrays and dicts of them.

Each library wants another form of a picture, and gives back another one:

    albumentations     arrays by name, `transform(image=...)`, and gives a dict
    torchvision v2     a tree with tensors (C, H, W) or PIL images; numpy's arrays it would leave as they are
    torchvision before PIL images; of float arrays tensors
    keras              arrays, and gives those of its backend
"""

import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.optional_library import library
from loaderkit._base.tree import flatten, map_leaves, unflatten

from .base import name_of
from .leaf import with_leaf


@dataclass(frozen=True, slots=True)
class ForeignTransform:
    """A function of an element that calls a transform, of this or of another library, on the element or a part of it.

    transform: a callable. key: of the part, as `with_leaf` takes it; None for the whole.

    >>> ForeignTransform(abs, "x")({"x": -3, "y": -4})
    {'x': 3, 'y': -4}
    """

    transform: Callable[..., Any]
    key: Hashable = None

    def __call__(self, element: Any) -> Any:
        return self._applied(element) if self.key is None else with_leaf(element, self.key, self._applied)

    def _applied(self, part: Any) -> Any:
        """What the transform gives of a part, in the form that the part has."""
        match library_of(self.transform):
            case "albumentations":
                if isinstance(part, dict):
                    return {**part, **self.transform(**part)}
                return self.transform(image=np.asarray(part))["image"]
            case "torchvision":
                return _by_torchvision(self.transform, part)
            case "keras":
                return map_leaves(_as_array, self.transform(part))
        return self.transform(part)

    @property
    def __name__(self) -> str:
        return name_of(self.transform)


def library_of(transform: Any) -> str:
    """The library that knows how a transform is called, by the modules of its class; "" for any other callable.

    >>> library_of(abs)
    ''
    """
    roots = {kind.__module__.partition(".")[0] for kind in type(transform).__mro__}
    return next((name for name in ("albumentations", "torchvision", "keras") if name in roots), "")


def _by_torchvision(transform: Callable[..., Any], part: Any) -> Any:
    v2 = ".v2" in type(transform).__module__
    alone = isinstance(part, np.ndarray)
    leaves, structure = flatten(part)
    pictures = [_is_picture(leaf, alone=alone) for leaf in leaves]
    if not any(pictures):
        if alone or not any(type(leaf).__module__.partition(".")[0] in _ITS_OWN for leaf in leaves):
            got = ", ".join(_told(leaf) for leaf in leaves)
            raise TypeError(
                f"{name_of(transform)}: expected a picture, an array (H, W, C) of uint8 or floats, a PIL image or a "
                f"tensor, got {got}: torchvision would leave it as it is"
            )
        return transform(part)
    given = [_as_torchvision(leaf, v2=v2) if is_one else leaf for leaf, is_one in zip(leaves, pictures)]
    made = transform(unflatten(structure, given))
    flat = alone and part.ndim == 2
    return map_leaves(lambda leaf: _from_torchvision(leaf, flat=flat), made)


_ITS_OWN = frozenset(("torch", "torchvision", "PIL"))


def _told(leaf: Any) -> str:
    return f"{leaf.dtype}{leaf.shape}" if isinstance(leaf, np.ndarray) else type(leaf).__name__


def _is_picture(leaf: Any, *, alone: bool) -> bool:
    """Whether an array is one; (H, W) is where it is all that is given, for it may be a mask else."""
    if not isinstance(leaf, np.ndarray) or not (leaf.dtype == np.uint8 or leaf.dtype.kind == "f"):
        return False
    return (leaf.ndim == 3 and leaf.shape[2] in (1, 3, 4)) or (alone and leaf.ndim == 2)


def _as_torchvision(array: np.ndarray, *, v2: bool) -> Any:
    if not v2 and array.dtype == np.uint8:
        image = library("PIL.Image", "transforms of torchvision need", "tar", package="pillow")
        return image.fromarray(array[:, :, 0] if array.shape[2:] == (1,) else array)
    torch = sys.modules["torch"]
    channels_first = array.reshape(*array.shape[:2], -1).transpose(2, 0, 1)
    # A copy of few bytes: torch may write into its tensors, and the record's array may be the source's.
    tensor = torch.from_numpy(channels_first.copy())
    return sys.modules["torchvision"].tv_tensors.Image(tensor) if v2 else tensor


def _from_torchvision(leaf: Any, *, flat: bool) -> Any:
    """A picture as an array (H, W, C); a tensor that is none any more as it lies."""
    torch = sys.modules["torch"]
    if isinstance(leaf, torch.Tensor):
        array = leaf.numpy()
        if hasattr(sys.modules["torchvision"], "tv_tensors") and isinstance(
            leaf, sys.modules["torchvision"].tv_tensors.Image
        ):
            array = np.ascontiguousarray(array.transpose(1, 2, 0))
    elif type(leaf).__module__.startswith("PIL."):
        array = np.asarray(leaf)
    else:
        return leaf
    return array[:, :, 0] if flat and array.ndim == 3 and array.shape[2] == 1 else array


def _as_array(leaf: Any) -> Any:
    return np.asarray(leaf) if hasattr(leaf, "__array__") and not isinstance(leaf, np.generic) else leaf
