"""The system's present boot, which tells one host from another too."""

import functools
import uuid


@functools.cache
def boot_id() -> bytes:
    """16 bytes that are the same for all processes until the system starts again; b"" where it doesn't say.

    >>> len(boot_id()) in (0, 16)
    True
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return uuid.UUID(file.read().strip()).bytes
    except (OSError, ValueError):
        return b""
