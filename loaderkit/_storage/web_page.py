"""HTML pages that web servers give in place of data: for folders, logins and missing files."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from .fetching import FetchError, Refusal

_NAMED = re.compile(r"\.html?(\.(gz|bz2|xz|zst))?$", re.IGNORECASE)
_BEGINS = re.compile(
    rb"(\xef\xbb\xbf)?\s*<(!doctype html|!--|html|head|title|meta|script|body)", re.IGNORECASE
)


def refuse_page(name: str, content_type: str | None, begin: Callable[[], bytes]) -> None:
    """FetchError where an answer of a web server is an HTML page, unless the object's name says that it is one.

    Args:
        name: the object's whole name.
        content_type: of the answer.
        begin: gives the first bytes; called where the answer is called a page only, as scripts call all that they send.

    >>> refuse_page("https://host/data/", "text/html; charset=utf-8", lambda: b"<!DOCTYPE html>")
    Traceback (most recent call last):
    loaderkit._storage.fetching.FetchError: an HTML page (text/html)
    >>> refuse_page("https://host/page.html", "text/html", lambda: b"<!DOCTYPE html>")
    """
    called = (content_type or "").partition(";")[0].strip().lower() == "text/html"
    if (
        not called
        or not name.lower().startswith(("http://", "https://"))
        or _NAMED.search(urlsplit(name).path)
    ):
        return
    if _BEGINS.match(begin()):
        raise FetchError(Refusal.PAGE, "an HTML page (text/html)")
