"""A web server on loopback that serves the files of a folder by ranges, and fails as it is told.

    with RangeServer(folder) as server:
        server.url("a.tar")                  # http://127.0.0.1:PORT/a.tar
        server.script("503", "short")        # the next two requests, in their order of arrival; then all is well
        server.always("hang", name="b.tar")  # each request for b.tar
        server.latency_s = 0.02              # before each answer
        server.token = "xyz"                 # 403 for each request without ?token=xyz
        server.etags["a.tar"] = '"other"'    # else made of the file's time and size
        server.types["a.tar"] = "text/html"  # Content-Type; else none is said
        server.requests                      # what was asked and answered, a Request each
        server.sent_bytes                    # of bodies

What it can be told to do:

    a number     answers with that status, such as 404, 429, 500, 503
    hang         never answers
    close        closes the connection without an answer
    short        says the length, sends half of it and closes
    less         answers a shorter range than the asked one, and says so
    whole        ignores the range: status 200, the whole file
    lie          says another range of the file in Content-Range, and sends as many bytes of the asked one
    size         says another size of the file in Content-Range
    etag         says another ETag
    slow         sends one byte a second
    star         says no size of the file in Content-Range, as is allowed
    chunked      sends the body in chunks, without Content-Length
    no head      405 for a HEAD request
    page         an HTML page in place of the file: status 200, as of a login or of a missing file

`python tests/range_server.py FOLDER --latency 0.02` serves from a process of its own until its stdin ends, for
benchmarks: it prints the address.
"""

import argparse
import contextlib
import os
import re
import socket
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, unquote

REASONS = {
    200: "OK",
    206: "Partial Content",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    416: "Range Not Satisfiable",
}
PAGE = b"<!DOCTYPE html>\n<title>Log in</title>\n"


@dataclass(frozen=True, slots=True)
class Request:
    """One request: begin and end are None where no range was asked; act is "" where all was well."""

    method: str
    name: str
    begin: int | None
    end: int | None
    act: str
    headers: dict[str, str]


class RangeServer:
    """Serves a folder from threads of this process; see the text of the module."""

    def __init__(self, folder: str | os.PathLike[str], *, latency_s: float = 0.0) -> None:
        self.folder = Path(folder)
        self.latency_s = latency_s
        self.token = ""
        self.etags: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.requests: list[Request] = []
        self.sent_bytes = 0
        self._script: deque[str] = deque()
        self._always: dict[str | None, str] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def script(self, *acts: str | int) -> None:
        """What happens to the next requests, one each."""
        with self._lock:
            self._script.extend(map(str, acts))

    def always(self, act: str | int, name: str | None = None) -> None:
        """What happens to each request for a file, or to each; "" for nothing."""
        self._always[name] = str(act)

    def url(self, name: str) -> str:
        """The address of a file of the folder."""
        return f"http://127.0.0.1:{self.port}/{name}"

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        while self._threads:
            with self._lock:
                for connection in self._connections:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
            self._threads.pop().join()

    def _start(self, work: Any, *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, name="range-server", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
                while (head := _read_head(lines)) and self._answer(connection, *head):
                    pass
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _answer(self, connection: socket.socket, method: str, target: str, headers: dict[str, str]) -> bool:
        """Whether the connection stays open."""
        name, _, query = target.partition("?")
        name = unquote(name).lstrip("/")
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        begin = int(asked[1]) if asked else None
        end = int(asked[2]) + 1 if asked and asked[2] else None
        with self._lock:
            act = (
                self._script.popleft() if self._script else self._always.get(name, self._always.get(None, ""))
            )
            self.requests.append(Request(method, name, begin, end, act, headers))
        if act == "hang":
            self._ending.wait()
            return False
        if act == "close":
            return False
        if self.latency_s:
            time.sleep(self.latency_s)
        if act == "page":
            head = _head(200, {"Content-Length": str(len(PAGE)), "Content-Type": "text/html; charset=utf-8"})
            connection.sendall(head + (b"" if method == "HEAD" else PAGE))
            return True
        path = self.folder / name
        status = int(act) if act.isdigit() else 405 * (act == "no head" and method == "HEAD")
        if not status and self.token and parse_qs(query).get("token") != [self.token]:
            status = 403
        if not status and not path.is_file():
            status = 404
        size = 0 if status else path.stat().st_size
        if not status and begin is not None and begin >= size:
            status = 416
        if status:
            body = b"" if method == "HEAD" else b"refused: " + target.encode()
            connection.sendall(_head(status, {"Content-Length": str(len(body))}) + body)
            return True
        return self._send_file(connection, method, path, name, begin, end, act)

    def _send_file(
        self,
        connection: socket.socket,
        method: str,
        path: Path,
        name: str,
        begin: int | None,
        end: int | None,
        act: str,
    ) -> bool:
        seen = path.stat()
        whole = begin is None or act == "whole"
        first, past = (0, seen.st_size) if whole else (begin or 0, min(end or seen.st_size, seen.st_size))
        if act == "less":
            past = first + (past - first) // 2
        headers = {
            "Content-Length": str(past - first),
            "ETag": self.etags.get(name, f'"{seen.st_mtime_ns:x}-{seen.st_size:x}"')
            if act != "etag"
            else '"other"',
            "Last-Modified": formatdate(seen.st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if name in self.types:
            headers["Content-Type"] = self.types[name]
        if not whole:
            shift = 1 if act == "lie" else 0
            total = seen.st_size + (7 if act == "size" else 0)
            size = "*" if act == "star" else total
            headers["Content-Range"] = f"bytes {first + shift}-{past - 1 + shift}/{size}"
        if act == "chunked":
            headers["Transfer-Encoding"] = "chunked"
            del headers["Content-Length"]
        connection.sendall(_head(200 if whole else 206, headers))
        if method == "HEAD":
            return True
        if act == "short":
            past = first + (past - first) // 2
        if act == "slow":
            body = path.read_bytes()[first:past]
            for place in range(len(body)):
                connection.sendall(body[place : place + 1])
                if self._ending.wait(1.0):
                    return False
            return True
        connection.sendall(b"%x\r\n" % (past - first) if act == "chunked" else b"")
        with path.open("rb") as file:
            while first < past:
                sent = os.sendfile(connection.fileno(), file.fileno(), first, past - first)
                if sent == 0:
                    return False
                first += sent
                with self._lock:
                    self.sent_bytes += sent
        connection.sendall(b"\r\n0\r\n\r\n" if act == "chunked" else b"")
        return act != "short"


def _read_head(lines: Any) -> tuple[str, str, dict[str, str]] | None:
    first = lines.readline()
    if not first.endswith(b"\n"):
        return None
    headers = {}
    while (line := lines.readline().strip()) != b"":
        key, _, value = line.decode("latin-1").partition(":")
        headers[key.lower()] = value.strip()
    method, target, _ = first.decode("latin-1").split(" ", 2)
    return method, target, headers


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Refused')}"]
    return "\r\n".join([*lines, *(f"{key}: {value}" for key, value in headers.items()), "", ""]).encode(
        "latin-1"
    )


def main() -> None:
    """Serves until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--latency", type=float, default=0.0)
    args = parser.parse_args()
    with RangeServer(args.folder, latency_s=args.latency) as server:
        print(server.url(""), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
