"""The server that other tests read from does what its text says, seen by the standard library's client."""

import http.client
import time
import urllib.error
import urllib.request

import pytest
from range_server import RangeServer

DATA = bytes(range(200))


@pytest.fixture
def server(tmp_path):
    """A server of one file."""
    (tmp_path / "a.bin").write_bytes(DATA)
    with RangeServer(tmp_path) as server:
        yield server


def get(server, name="a.bin", begin=None, end=None):
    """Status, headers and body."""
    headers = {} if begin is None else {"Range": f"bytes={begin}-{end - 1}"}
    request = urllib.request.Request(server.url(name), headers=headers)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.status, dict(answer.headers), answer.read()


def test_it_serves_files_and_ranges(server):
    """With an ETag; what was asked is kept."""
    status, headers, body = get(server)
    assert (status, body, headers["Content-Length"]) == (200, DATA, "200")
    status, ranged, body = get(server, begin=10, end=30)
    assert (status, body, ranged["Content-Range"]) == (206, DATA[10:30], "bytes 10-29/200")
    assert ranged["ETag"] == headers["ETag"]
    assert [(r.name, r.begin, r.end) for r in server.requests] == [("a.bin", None, None), ("a.bin", 10, 30)]
    for _ in range(1000):  # it counts after it has sent
        if server.sent_bytes == 220:
            break
        time.sleep(0.01)
    assert server.sent_bytes == 220
    server.types["a.bin"] = "text/plain"
    assert get(server)[1]["Content-Type"] == "text/plain"
    server.script("page")
    assert get(server)[1]["Content-Type"].startswith("text/html")


def test_it_fails_as_it_is_told(server):
    """Once for each act of the script, then no more."""
    server.script(503, "whole", "lie", "less", "size", "etag", "close", "short")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        get(server)
    assert get(server, begin=10, end=30)[::2] == (200, DATA)
    assert get(server, begin=10, end=30)[1]["Content-Range"] == "bytes 11-30/200"
    assert get(server, begin=10, end=30)[2] == DATA[10:20]
    assert get(server, begin=10, end=30)[1]["Content-Range"] == "bytes 10-29/207"
    assert get(server, begin=10, end=30)[1]["ETag"] == '"other"'
    with pytest.raises(http.client.RemoteDisconnected):
        get(server)
    with pytest.raises(http.client.IncompleteRead):
        get(server)
    server.token = "right"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(server, "a.bin?token=wrong")
    assert get(server, "a.bin?token=right", 0, 1)[2] == DATA[:1]
    with pytest.raises(urllib.error.HTTPError, match="416"):
        get(server, "a.bin?token=right", 200, 210)


def test_it_never_answers_until_it_ends(server):
    """A request that hangs ends with the server, and leaves no thread."""
    server.always("hang", name="a.bin")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=0.1)
    connection.request("GET", "/a.bin")
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
