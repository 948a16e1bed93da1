"""Fetches ranges from web servers and object stores with obstore."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from .fetching import Fetched, FetchError, Refusal, without_secrets
from .object_client import forked, open_client, split_name
from .range_reader import MODIFIED, ObjectVersion, plain_tag
from .web_page import refuse_page

T = TypeVar("T")

# A client takes 12 ms to make (measured on a busy machine), and each signed link needs one of its own.
MOST_CLIENTS = 256
_STATUS = re.compile(r"status code: (\d{3})([A-Za-z ]*)")
_ERROR_CODE = re.compile(r"<Code>([A-Za-z0-9]+)</Code>")
_OTHER_RANGE = re.compile(r"Requested \d+\.\.\d+, got (\d+)\.\.(\d+)")
_NO_ACCOUNT = re.compile(r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google")
_RETRIED = {408, 425, 429}


class ObstoreFetcher:
    """An `ObjectFetcher` for http(s), s3, gs and az.

    Args:
        options: the user's, as in `open_ranges`.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._clients: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def fetch(self, name: str, begin: int, end: int) -> Fetched:
        """The bytes begin to end; the answer's range is compared with the asked one."""
        return self._get(name, {"range": (begin, end)}, None)

    def fetch_whole(self, name: str, max_bytes: int) -> Fetched:
        """All bytes, asked without a range."""
        return self._get(name, None, max_bytes)

    def version(self, name: str) -> ObjectVersion:
        """Size and ETag by a HEAD request."""
        import obstore

        client, path = self._client(name)

        def head() -> ObjectVersion:
            answer = obstore.get(client, path, options={"head": True})  # obstore.head gives no attributes
            refuse_page(
                name,
                answer.attributes.get("Content-Type"),
                lambda: bytes(next(iter(obstore.get(client, path).stream(min_chunk_size=1)), b"")),
            )
            return _version_of(answer.meta)

        return self._attempt(head)

    def objects(self, address: str, folder: str | None, *, deep: bool) -> list[dict[str, Any]]:
        """What the store lists in a folder, and where `deep` in those below it: path, size and version."""
        import obstore

        client, _ = self._client(address)

        def listed() -> Iterator[Any]:
            if deep:
                yield from obstore.list(client, folder, chunk_size=1000)
            else:
                yield obstore.list_with_delimiter(client, folder)["objects"]

        pages = self._attempt(lambda: list(listed()))
        return [{"path": each["path"], "version": _version_of(each)} for page in pages for each in page]

    def close(self) -> None:
        """Ends the connections."""
        with self._lock:
            self._clients.clear()

    def _get(self, name: str, options: Any, max_bytes: int | None) -> Fetched:
        import obstore

        client, path = self._client(name)

        def get() -> Fetched:
            answer = obstore.get(client, path, options=options)
            version = _version_of(answer.meta)
            if max_bytes is not None and version.size > max_bytes:
                raise FetchError(Refusal.TOO_LARGE, f"a whole object of {version.size:,} bytes")
            data = memoryview(answer.bytes())
            begin, end = answer.range
            if len(data) != end - begin:
                raise FetchError(Refusal.AGAIN, f"an answer of {len(data):,} bytes")
            if begin == 0:
                refuse_page(name, answer.attributes.get("Content-Type"), lambda: bytes(data[:256]))
            return Fetched(data, version)

        return self._attempt(get)

    def _client(self, name: str) -> tuple[Any, str]:
        address, path = split_name(name)
        if forked():
            raise FetchError(
                Refusal.FINAL, "a process that was forked, in which obstore can't run; start it by spawn"
            )
        with self._lock:
            client = self._clients.get(address)
            if client is None:
                client = self._attempt(lambda: open_client(address, self._options))
                self._clients[address] = client
                if len(self._clients) > MOST_CLIENTS:
                    self._clients.popitem(last=False)
            else:
                self._clients.move_to_end(address)
        return client, path

    def _attempt(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (FetchError, ImportError):
            raise
        except BaseException as error:
            # obstore's own messages hold addresses with their query, and the server's answer. A panic is a
            # BaseException.
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            refusal = _refusal_of(error, self._options)
        raise refusal


def _version_of(meta: Any) -> ObjectVersion:
    given = meta["e_tag"] or ""
    tag = plain_tag(given)
    if not tag and (modified := meta["last_modified"]) is not None and modified.timestamp() > 0:
        tag = f"{MODIFIED}{modified:%Y-%m-%dT%H:%M:%S}"
    return ObjectVersion(meta["size"], tag, weak=given.startswith("W/"))


def _refusal_of(error: BaseException, options: Mapping[str, Any]) -> FetchError:
    text = str(error)
    kind = type(error).__name__
    status = _STATUS.search(text)
    code = _ERROR_CODE.search(text)
    shown = ""
    if status is not None:
        shown = f"HTTP status {status[1]}{status[2].rstrip()}" + (f" ({code[1]})" if code else "")
    # obstore says of a refused HEAD request (405) that there is no such object.
    if isinstance(error, FileNotFoundError) and (status is None or status[1] in ("404", "410")):
        return FetchError(Refusal.MISSING, shown)
    if kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return FetchError(Refusal.DENIED, shown or "no permission")
    if _NO_ACCOUNT.search(text):
        return FetchError(Refusal.DENIED, "no credentials on this machine")
    if status is not None:
        number = int(status[1])
        if number == 416:
            return FetchError(Refusal.PAST_END, shown)
        again = (number >= 500 and number != 501) or number in _RETRIED
        return FetchError(Refusal.AGAIN if again else Refusal.FINAL, shown)
    return _without_status(text, kind, options)


def _without_status(text: str, kind: str, options: Mapping[str, Any]) -> FetchError:
    """Of a fetch to which no server gave an HTTP status, or one of success."""
    if kind == "NotSupportedError" and "Range request not supported" in text:
        return FetchError(Refusal.NO_RANGES, "the whole object")
    if found := _OTHER_RANGE.search(text):
        return FetchError(Refusal.AGAIN, f"bytes {int(found[1]):,} to {int(found[2]):,}")
    for word, header in (
        ("CONTENT_RANGE", "Content-Range: bytes FIRST-LAST/SIZE"),
        ("Content-Range", "Content-Range: bytes FIRST-LAST/SIZE"),
        ("Content-Length", "Content-Length"),
    ):
        if f"{word} header" in text or f"{word} Header" in text:
            cause = f"an answer that doesn't say its size by {header}, which obstore needs; copy the files to a disk or"
            return FetchError(Refusal.FINAL, f"{cause} to a server that says it")
    if "certificate" in text:
        return FetchError(Refusal.FINAL, "a certificate that isn't trusted")
    if "kind: Timeout" in text or "TimedOut" in text:
        return FetchError(Refusal.SLOW, "no whole answer within the time allowed")
    for word, cause in (
        ("kind: Connect", "no connection"),
        ("IncompleteBody", "an answer that ended early"),
        ("error sending request", "a connection that broke"),
        ("body error", "an answer that ended early"),
    ):
        if word in text:
            return FetchError(Refusal.AGAIN, cause)
    again = kind == "GenericError"
    return FetchError(Refusal.AGAIN if again else Refusal.FINAL, f"{kind}: {without_secrets(text, options)}")
