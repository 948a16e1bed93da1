"""The versions that are written to saved states and compared between the processes of a run."""

import platform

import numpy as np

from loaderkit._base.version import __version__


def present_versions() -> dict[str, str]:
    """The versions of loaderkit, numpy and Python in this process.

    >>> sorted(present_versions())
    ['loaderkit', 'numpy', 'python']
    """
    return {"loaderkit": __version__, "numpy": np.__version__, "python": platform.python_version()}
