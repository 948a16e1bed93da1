"""All files with classes of steps, which `Dataset` imports by name when it makes the first step."""

from . import running  # noqa: F401 - which imports the others
