"""The folder in which tasks on other hosts write, each to a name of its own.

Each run has another one, and it is away when the run ends: a task that comes late finds it no more, and what it wrote
gets no other name.
"""

import os
import shutil

_ATTEMPTS = "attempts"
ATTEMPT_NAMES = (
    rf"{_ATTEMPTS}(-[0-9a-f]{{8}})?/([0-9a-f]{{16}}/([^/]*)?)?"  # below the folder of unfinished files
)


def new_attempts(folder: str) -> str:
    """A new folder for a run. folder: of the unfinished files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as unfinished:
    ...     made = new_attempts(unfinished)
    ...     remove_attempts(unfinished)
    ...     os.path.relpath(made, unfinished)[:9], os.listdir(unfinished)
    ('attempts/', [])
    """
    path = os.path.join(folder, _ATTEMPTS, os.urandom(8).hex())
    os.makedirs(path)
    return path


def remove_attempts(folder: str) -> None:
    """Removes what earlier runs, and this one, have left of them. folder: of the unfinished files."""
    for name in os.listdir(folder):
        if name.startswith(_ATTEMPTS):
            away = os.path.join(folder, f"{_ATTEMPTS}-{os.urandom(4).hex()}")
            # So that a late task makes no file while it is emptied.
            os.rename(os.path.join(folder, name), away)
            shutil.rmtree(away, ignore_errors=True)
