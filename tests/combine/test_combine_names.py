"""The names of the room are its functions."""

from pathlib import Path

import loaderkit as lk


def test_no_file_has_the_name_of_a_function():
    """A file that is imported by its own path would stand in the function's place."""
    assert not {file.stem for file in Path(lk.combine.__file__).parent.glob("*.py")} & {*dir(lk.combine)}
