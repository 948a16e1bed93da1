"""The versions that a state and the processes of a run tell each other."""

import platform

import numpy as np

from loaderkit._base.version import __version__


def present_versions() -> dict[str, str]:
    """The versions of loaderkit, numpy and Python that run now.

    >>> sorted(present_versions())
    ['loaderkit', 'numpy', 'python']
    """
    return {"loaderkit": __version__, "numpy": np.__version__, "python": platform.python_version()}
