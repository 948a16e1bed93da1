"""Addresses of objects on servers: which names are some, and what of them may be shown."""

import re

SCHEME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]*://")


def is_remote(path: str) -> bool:
    """Whether the path names a file outside the local file system.

    Args:
        path: a path, as `FilePart` holds it.

    >>> is_remote("gs://bucket/data.array_record"), is_remote("/data/data.array_record")
    (True, False)
    """
    return SCHEME.match(path) is not None


def redacted(name: str) -> str:
    """A name as it may be shown and stored: without user and password, without query and fragment.

    Args:
        name: any name; one of a local file is given back as it is.

    >>> redacted("https://user:secret@host/train-0.tar?signature=secret#x"), redacted("/data/a?b#c@2")
    ('https://host/train-0.tar', '/data/a?b#c@2')
    """
    if not is_remote(name):
        return "pipe:..." if name.startswith("pipe:") else name
    # fsspec chains addresses: simplecache::https://host/name
    return "::".join(_shown_address(each) for each in re.split(r"::(?=[A-Za-z][A-Za-z0-9+.-]*:)", name))


def _shown_address(address: str) -> str:
    scheme, mark, rest = address.partition("://")
    if not mark:
        return address
    authority, path = re.fullmatch(r"([^/?#]*)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
    host = authority.rpartition("@")[2]
    if not re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:\d*)?", host):
        # A password with a slash that isn't quoted ends where a port is expected.
        return f"{scheme}://..."
    # In the names of objects "?" is a letter of patterns, unless a value follows it.
    query = r"[?#].*" if scheme.lower() in ("http", "https") else r"\?.*[=&].*|#.*"
    return f"{scheme}://{host}" + re.sub(query, "", path, count=1, flags=re.DOTALL)
