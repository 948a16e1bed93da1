"""Clients of object stores and web servers, made of a name and the user's options with obstore."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from loaderkit._base.system.optional_library import library

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = frozenset(("http", "https", "s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"))
# The options of obstore's ClientConfig; all other names are the store's own, such as "region".
_CLIENT = """
    allow_http allow_invalid_certificates connect_timeout default_headers http1_only http2_keep_alive_interval
    http2_keep_alive_timeout http2_keep_alive_while_idle http2_only pool_idle_timeout pool_max_idle_per_host
    proxy_ca_certificate proxy_excludes proxy_url randomize_addresses read_timeout root_certificate timeout user_agent
"""
_OF_CLIENT = frozenset(_CLIENT.split())
_OURS = frozenset(("client_options", "etags"))
# A read that waits this long for a connection, or for a byte, or for its last byte is given up and tried again:
# connect_timeout, read_timeout and timeout of storage_options. They trade patience with a slow server off against the
# time until a dead one is an error: a read of 8 MiB in 60 s is 140 KB/s, and 32 of them at once are 4.5 MB/s.
CONNECT_S, READ_S, WHOLE_S = 10, 30, 60

# Processes, this one and those it was forked from, that used obstore.
_PROCESSES: set[int] = set()


def forked() -> bool:
    """Whether this process was forked from one that used obstore.

    obstore's threads don't live on in a forked child, and a read there would wait for them without end.
    """
    _PROCESSES.add(os.getpid())
    return len(_PROCESSES) > 1


def split_name(name: str) -> tuple[str, str]:
    """The address of a store and the object's name in it.

    Args:
        name: an object's whole name; the query of a web address stays with the store.

    >>> split_name("s3://bucket/a/b.tar"), split_name("https://host:80/a%20b.tar?key=1")
    (('s3://bucket', 'a/b.tar'), ('https://host:80?key=1', 'a b.tar'))
    """
    scheme, _, rest = name.partition("://")
    host, _, path = rest.partition("/")
    if scheme.lower() not in ("http", "https"):
        return f"{scheme}://{host}", path
    found = urlsplit(name)
    query = f"?{found.query}" if found.query else ""
    return f"{scheme}://{found.netloc}{query}", unquote(found.path.lstrip("/"))


def open_client(address: str, options: Mapping[str, Any]) -> "ObjectStore":
    """A store that doesn't retry by itself.

    ImportError naming the extra where obstore isn't installed; RuntimeError in a forked process.

    Args:
        address: what `split_name` gave.
        options: the user's, in obstore's names; those of its ClientConfig stand beside the store's own.
    """
    stores = library("obstore.store", f"{address.partition(':')[0]}: reading objects needs", "remote")
    if forked():
        raise RuntimeError(
            "obstore can't be used in a process that was forked from one that used it; start processes by spawn"
        )
    limits = {"connect_timeout": CONNECT_S, "read_timeout": READ_S, "timeout": WHOLE_S}
    client: dict[str, Any] = {key: timedelta(seconds=seconds) for key, seconds in limits.items()}
    client |= dict(options.get("client_options") or {})
    client |= {key: value for key, value in options.items() if key in _OF_CLIENT}
    own = {key: value for key, value in options.items() if key not in _OF_CLIENT and key not in _OURS}
    if address.lower().startswith("http://") or str(own.get("endpoint", "")).lower().startswith("http://"):
        client.setdefault("allow_http", True)
    retries: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=0)}
    make: Any = stores.from_url  # a kind of store for each scheme, with options of its own
    try:
        store: ObjectStore = make(address, client_options=client, retry_config=retries, **own)
    except Exception as error:
        if own and "does not accept any configuration" in str(error):
            raise ValueError(
                "storage_options: expected options of a web client, such as timeout and default_headers, got "
                f"{', '.join(sorted(own))}"
            ) from None
        raise
    return store
