"""Which last bits this processor and these libraries compute: other ones may compute others with the same versions.

Bits and versions are written to saved states and compared between the processes of a run. numpy has loops for each kind
of processor, OpenBLAS and OpenCV kernels. Equal digests are no proof, unequal ones are.
"""

import hashlib
import math
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from loaderkit._base.version import __version__

from .one_thread import OneThread


def numerics() -> dict[str, str]:
    """A digest of some calls of each library that this process has loaded, with one thread of BLAS.

    >>> found = numerics()
    >>> {"BLAS", "libm", "numpy"} <= found.keys(), found == numerics()
    (True, True)
    """
    loaded = [name for name in _PROBES if name != "cv2" or hasattr(sys.modules.get("cv2"), "warpAffine")]
    return {name: _digest(name) for name in loaded}


def other_numerics(known: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """The libraries that two processes both have, and that compute other bits in one than in the other.

    Args:
        known, found: as `numerics` gives them.

    >>> other_numerics({"numpy": "1", "cv2": "2"}, {"numpy": "3", "libm": "4"})
    ['numpy']
    """
    return sorted(name for name in known.keys() & found.keys() if known[name] != found[name])


@cache
def _digest(name: str) -> str:
    found = hashlib.sha256()
    for part in OneThread().run(lambda: [*_PROBES[name]()], again=False):
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()[:16]


def _of_libm() -> Iterator[Any]:
    numbers = [k / 7 for k in range(1, 99)]
    for function in (math.exp, math.log, math.sin, math.tan, math.tanh, math.gamma, math.erf):
        yield np.array([function(x) for x in numbers])
    yield np.array([x**1.7 for x in numbers])


def _of_numpy() -> Iterator[Any]:
    for kind in (np.float32, np.float64):
        x: Any = (np.arange(1, 600) / 7).astype(kind)
        for function in (np.exp, np.log, np.sin, np.cos, np.tanh, np.sqrt, np.cbrt, np.log1p, np.arctan):
            yield function(x)
        yield np.power(x, x.dtype.type(1.7))
        yield x.sum()
        yield np.argsort(x % 7)


def _of_blas() -> Iterator[Any]:
    for kind in (np.float32, np.float64):
        a: Any = (np.arange(97 * 89).reshape(97, 89) % 101 / 103).astype(kind)
        yield a @ a.T
        yield a @ a[0]
        yield np.dot(a.ravel(), a.ravel())


def _of_cv2() -> Iterator[Any]:
    cv2 = sys.modules["cv2"]
    small = (np.arange(61 * 53 * 3).reshape(61, 53, 3) * 37 % 251).astype(np.uint8)
    floats = small.astype(np.float32) / np.float32(255)
    turn = np.array([[0.9, 0.1, 3], [-0.1, 0.9, 2]])
    yield cv2.warpAffine(small, turn, (47, 43))
    yield cv2.cvtColor(floats, cv2.COLOR_RGB2HSV)
    yield cv2.resize(floats, (101, 97))
    yield cv2.resize(small, (101, 97), interpolation=cv2.INTER_CUBIC)


_PROBES: dict[str, Callable[[], Iterator[Any]]] = {
    "numpy": _of_numpy,
    "libm": _of_libm,
    "BLAS": _of_blas,
    "cv2": _of_cv2,
}


def present_versions() -> dict[str, str]:
    """The versions of loaderkit, numpy and Python in this process.

    >>> sorted(present_versions())
    ['loaderkit', 'numpy', 'python']
    """
    return {"loaderkit": __version__, "numpy": np.__version__, "python": platform.python_version()}
