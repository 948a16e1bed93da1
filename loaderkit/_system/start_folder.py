"""The folder in which the program imported loaderkit: what a relative entry of `sys.path` meant then."""

import os


def present_folder() -> str | None:
    """The current directory, None where it is gone.

    >>> present_folder() == os.getcwd()
    True
    """
    try:
        return os.getcwd()
    except OSError:
        return None


START_FOLDER = present_folder()
