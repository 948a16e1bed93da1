"""The current directory when loaderkit was imported: relative entries of `sys.path` refer to it."""

import os


def present_folder() -> str | None:
    """The current directory; None where it was deleted.

    >>> present_folder() == os.getcwd()
    True
    """
    try:
        return os.getcwd()
    except OSError:
        return None


START_FOLDER = present_folder()
