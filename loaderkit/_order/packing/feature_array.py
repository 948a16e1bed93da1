"""The array of tokens that a document has for a feature, for sources and operations that pack."""

from collections.abc import Callable, Mapping
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt


def feature_array(
    document: Any, name: str, place: int, describe: Callable[[int], str], *, bare: bool, advice: str
) -> npt.NDArray[Any]:
    """The array (tokens, ...) of a feature.

    Args:
        document: a dict of arrays by feature, or one array.
        name: of the feature.
        place: of the document.
        describe: names a document in an error, by its place.
        bare: whether a document may be the array itself.
        advice: what to do where there is no array; the end of the error's text.

    Raises ValueError for a dict without the feature, TypeError for what is no array of numbers.

    >>> feature_array({"tokens": [1, 2]}, "tokens", 0, "document {}".format, bare=True, advice="")
    array([1, 2])
    """
    values = document
    if isinstance(document, Mapping):
        if name not in document:
            raise ValueError(
                f"feature: expected one of {list(document)}, which {describe(place)} has, got {name!r}; "
                f"write feature={next(iter(document), name)!r}"
            )
        values = document[name]
    array = np.asarray(values)
    if array.ndim == 0 or array.dtype.hasobject or (values is document and not bare):
        raise TypeError(
            f"{describe(place)}: expected an array (tokens, ...) for {name!r}, got {_short(values)}; {advice}"
        )
    return array


def shown(array: npt.NDArray[Any]) -> str:
    """The dtype of an array, and its shape but for the number of tokens, for errors.

    >>> shown(np.zeros((5, 2), np.uint8))
    'uint8 of shape (tokens, 2)'
    """
    return f"{array.dtype} of shape {('tokens', *array.shape[1:])}".replace("'", "")
