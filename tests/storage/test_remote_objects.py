"""Ranges of objects on a loopback server that fails in each way it can."""

import os
import pickle
import queue
import threading
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from loaderkit._base.system.urgency import urgency
from loaderkit._storage import fetch_threads, fetching, object_client, remote_objects
from loaderkit._storage.fetch_threads import FetchThreads
from loaderkit._storage.fetching import FetchError, Refusal
from loaderkit._storage.open_ranges import open_ranges
from loaderkit._storage.patterns import file_parts
from loaderkit._storage.range_reader import ObjectVersion
from loaderkit._storage.versions import VersionCheck
from loaderkit.errors import FileChangedError, StorageError

A, B = os.urandom(5000), os.urandom(3000)
QUICK = {"connect_timeout": "1s", "read_timeout": "300ms", "timeout": "400ms"}


@pytest.fixture
def server(range_server, tmp_path, monkeypatch):
    """A server of two files; pauses between attempts are short."""
    monkeypatch.setattr(fetching, "PAUSE_S", 0.001)
    (tmp_path / "a.bin").write_bytes(A)
    (tmp_path / "b.bin").write_bytes(B)
    return range_server(tmp_path)


@pytest.fixture
def opened():
    """Opens readers, and closes them."""
    readers = []

    def open_(names, **options):
        readers.append(open_ranges(names, **options))
        return readers[-1]

    yield open_
    for reader in readers:
        reader.close()


def read(ranges, *places):
    """The bytes of (shard, begin, end)."""
    return [bytes(each) for each in ranges.read(*np.array(places, np.int64).T)]


def test_what_is_not_needed_any_more_is_not_tried_again():
    """As where another piece of the same read has failed for good."""
    ended, calls = threading.Event(), []

    def work():
        calls.append(ended.set())
        raise FetchError(Refusal.AGAIN, "HTTP status 503")

    with pytest.raises(FetchError, match="503"):
        fetching.tried(work, ended=ended)
    assert len(calls) == 1


def test_ranges_of_several_objects(server, opened):
    """In the order given; those that lie near each other by one request."""
    ranges = opened([server.url("a.bin"), server.url("b.bin")])
    assert read(ranges, (1, 5, 9), (0, 100, 200), (0, 10, 10), (1, 7, 3000)) == [
        B[5:9],
        A[100:200],
        b"",
        B[7:],
    ]
    assert sorted((r.name, r.begin, r.end) for r in server.requests) == [
        ("a.bin", 10, 200),
        ("b.bin", 5, 3000),
    ]
    assert ranges.names == [server.url("a.bin"), server.url("b.bin")]
    assert ranges.version(1).size == 3000
    assert ranges.waits


def test_ranges_as_they_come(server, opened, monkeypatch):
    """Large ones by requests of their own, joined ones each with its bytes; the first before the last is answered."""
    monkeypatch.setattr("loaderkit._storage.remote_objects.REMOTE_ALONE", 500)
    monkeypatch.setattr("loaderkit._storage.remote_objects.MAX_READ_BYTES", 800)
    places = [(0, 0, 700), (0, 700, 2700), (1, 10, 10), (1, 30, 40), (1, 50, 60)]
    ranges = opened([server.url("a.bin"), server.url("b.bin")], storage_options=QUICK)
    arrays = np.array(places, np.int64).T
    found = dict(ranges.read_as_they_come(*arrays))
    assert [bytes(found[place]) for place in range(5)] == [(A, B)[s][low:high] for s, low, high in places]
    asked = [(r.begin, r.end) for r in server.requests if r.name == "a.bin"]
    assert sorted(asked) == [(0, 700), (700, 1500), (1500, 2300), (2300, 2700)]
    server.always("hang", name="b.bin")
    each = ranges.read_as_they_come(*arrays[:, [0, 3]])
    place, data = next(each)
    assert (place, bytes(data)) == (0, A[:700])
    each.close()


@pytest.mark.parametrize("head", ["", "no head"])
def test_data_that_is_called_a_page(server, opened, tmp_path, head):
    """Its first bytes decide, as scripts call all that they send text/html; other data costs no request for it."""
    for name, requests in (("a.bin", 0), ("b.bin", 1)):
        (tmp_path / name).write_bytes(b"\0" + A)
        server.always(head, name)
        server.types[name] = ("text/plain", "text/html; charset=utf-8")[requests]
        ranges = opened([server.url(name)])
        assert ranges.version(0).size == 5001
        assert read(ranges, (0, 0, 10), (0, 3000, 3010)) == [b"\0" + A[:9], A[2999:3009]]
        asked = [request for request in server.requests if request.name == name]
        assert len(asked) == (2 if not head else 3) + requests * (not head)


@pytest.mark.parametrize("act", ["500", "503", "429", "close", "short", "less", "lie", "whole", "hang"])
def test_a_fault_is_tried_again(server, opened, act):
    """Once, and only the request that failed."""
    ranges = opened([server.url("a.bin"), server.url("b.bin")], storage_options=QUICK)
    server.script(act)
    assert read(ranges, (0, 10, 20), (1, 10, 20)) == [A[10:20], B[10:20]]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("act", "says"),
    [
        ("500", "got HTTP status 500 .*after 5 attempts"),
        ("close", "got a connection that broke after 5 attempts"),
        ("short", "got an answer that ended early after 5 attempts"),
        ("less", "got bytes 10 to 15 after 5 attempts"),
        ("lie", "got bytes 11 to 21 after 5 attempts"),
        ("hang", "got no whole answer within the time allowed after 5 attempts; .*timeout='5m'"),
        ("slow", "got no whole answer within the time allowed after 5 attempts"),
        ("400", "got HTTP status 400"),
        ("403", "got HTTP status 403.*; give credentials"),
    ],
)
def test_a_fault_that_lasts_is_an_error(server, opened, act, says):
    """It names object and range, and nothing of the user and the link."""
    link = server.url("a.bin?token=secret").replace("//", "//me:secret@")
    ranges = opened([link], storage_options={**QUICK, "default_headers": {"x-key": "secret"}})
    server.always(act)
    with pytest.raises(StorageError, match=f"/a.bin: expected bytes 10 to 20, {says}") as caught:
        read(ranges, (0, 10, 20))
    assert_no_secrets(caught.value, ranges)


def assert_no_secrets(error, ranges):
    """Neither in the error, nor in those behind it, nor in the reader's own text."""
    while error is not None:
        assert "secret" not in f"{error!r} {error}"
        assert "me:" not in str(error)
        error = error.__cause__ or error.__context__
    assert "secret" not in repr(ranges) + str(ranges.names[0])


def test_a_missing_object_and_a_dead_server(server, opened):
    """The former isn't tried again."""
    ranges = opened([server.url("c.bin?token=secret")])
    for work in (lambda: read(ranges, (0, 0, 5)), lambda: ranges.version(0)):
        with pytest.raises(FileNotFoundError, match=r"no such object: 'http://[\d.:]*/c.bin'"):
            work()
    assert len(server.requests) == 2
    dead = opened(["http://me:secret@127.0.0.1:1/a.bin"])
    with pytest.raises(
        StorageError, match=r"http://127.0.0.1:1/a.bin: .*got no connection after 5 attempts"
    ) as caught:
        read(dead, (0, 0, 5))
    assert_no_secrets(caught.value, dead)


def test_a_server_without_ranges(server, opened):
    """A small object is fetched whole; a large one is refused."""
    ranges = opened([server.url("a.bin")])
    server.always("whole")
    assert read(ranges, (0, 10, 20)) == [A[10:20]]
    assert read(ranges, (0, 30, 40)) == [A[30:40]]
    assert [r.begin for r in server.requests] == [10, None, None]
    remote_objects.MAX_WHOLE_BYTES, was = 4999, remote_objects.MAX_WHOLE_BYTES
    try:
        with pytest.raises(StorageError, match="expected bytes 10 to 20, got a whole object of 5,000 bytes"):
            read(ranges, (0, 10, 20))
    finally:
        remote_objects.MAX_WHOLE_BYTES = was


def test_a_server_without_ranges_is_told_once(server, opened, caplog):
    server.always("whole")
    ranges = opened([server.url("a.bin"), server.url("b.bin")])
    for shard in (0, 1, 0):
        read(ranges, (shard, 10, 20))
    (told,) = caplog.messages
    assert told.startswith(server.url("a.bin")) and "ignores ranges" in told


def test_options_that_a_web_client_does_not_have(server, opened):
    """Their names are told, and not what they say."""
    reader = opened([server.url("a.bin")], storage_options={"regoin": "secret"})
    with pytest.raises(StorageError, match=r"expected options of a web client.* got regoin$"):
        reader.version(0)


def test_a_whole_object_is_asked_without_a_range(server, opened):
    """Some servers answer that faster; its size is known from the first answer."""
    ranges = opened([server.url("b.bin")], expected=[ObjectVersion(3000, "")])
    assert read(ranges, (0, 0, 3000)) == [B]
    assert [r.begin for r in server.requests] == [None]


@pytest.mark.parametrize("act", ["etag", "size"])
def test_another_version_in_the_middle_of_a_run(server, opened, act):
    """Another ETag or size than that of the first answer is refused."""
    ranges = opened([server.url("a.bin")])
    read(ranges, (0, 10, 20))
    server.script(act)
    with pytest.raises(
        FileChangedError, match=r"/a.bin: the file isn't the one .*(version was|5,000 bytes and has 5,007)"
    ):
        read(ranges, (0, 10, 20))


def test_another_version_than_the_expected(server, opened, tmp_path):
    """Who knows more decides about another ETag; another size is refused."""
    asked = []

    def decide(reader, others):
        ((shard, seen, first),) = others
        assert first
        asked.append((shard, seen.tag, read(reader, (shard, 0, 5))))

    expected = [ObjectVersion(5000, "old"), ObjectVersion(2999, "")]
    ranges = opened([server.url("a.bin"), server.url("b.bin")], expected=expected, on_other_version=decide)
    server.etags["a.bin"] = 'W/"new"'
    assert read(ranges, (0, 10, 20)) == read(ranges, (0, 10, 20)) == [A[10:20]]
    assert asked == [(0, "new", [A[:5]])]
    with pytest.raises(FileChangedError, match="it had 2,999 bytes and has 3,000 now"):
        read(ranges, (1, 10, 20))
    (tmp_path / "b.bin").write_bytes(B + b"more")
    with pytest.raises(FileChangedError, match="it had 2,999 bytes and has 3,004 now"):
        read(ranges, (1, 0, 2999))
    (tmp_path / "a.bin").write_bytes(A[:100])
    with pytest.raises(FileChangedError, match="it had 5,000 bytes and has 100 now"):
        read(ranges, (0, 4000, 4100))
    with pytest.raises(FileChangedError, match=r"b.bin: .*it ends at byte 3,004, before byte 3,100"):
        read(opened([server.url("b.bin")]), (0, 2990, 3100))


def test_links_that_expire_are_asked_anew(server, opened):
    """Once for all threads; a link that stays refused is an error."""
    server.token = "second"
    calls = []

    def fresh():
        calls.append(threading.current_thread().name)
        time.sleep(0.05)
        return [server.url(f"{name}.bin?token={'second' if len(calls) == 1 else 'none'}") for name in "ab"]

    ranges = opened([server.url(f"{name}.bin?token=first") for name in "ab"], refresh=fresh)
    assert read(ranges, (0, 0, 5), (1, 0, 5)) == [A[:5], B[:5]]
    assert len(calls) == 1
    server.token = "third"
    with pytest.raises(StorageError, match="got HTTP status 403") as caught:
        read(ranges, (0, 0, 5))
    assert "second" not in str(caught.value)
    assert len(calls) == 2  # once for each read that is denied


def test_fresh_links_in_another_order(server, opened):
    """Refused: the places of records are of the first order."""
    server.token = "second"
    ranges = opened(
        [server.url(f"{name}.bin?token=first") for name in "ab"],
        refresh=lambda: [server.url(f"{name}.bin?token=second") for name in "ba"],
    )
    with pytest.raises(
        ValueError, match=r"names of the first call in their order, .*a\.bin', got .*b\.bin'$"
    ):
        read(ranges, (0, 0, 5))


@pytest.mark.parametrize(
    ("any_tag", "seen", "asked"),
    [
        # a strong tag: another one is no first version any more
        (False, ["was", "was", "new"], [("new", False)]),
        (False, ["new", "new", "was", "was"], [("new", True), ("was", False)]),
        # what is weak or missing decides nothing
        (False, ["W/new", "W/new", "W/newer", "was"], [("new", True), ("newer", True), ("was", True)]),
        (False, ["", "", "new", "", "new", "newer"], [("", True), ("new", True), ("newer", False)]),
        (True, ["was", "new", "newer", "new"], [("new", True), ("newer", True)]),
    ],
)
def test_which_tags_are_asked_about(any_tag, seen, asked, caplog):
    """Once each, and whether samples are enough to accept it."""
    told = []

    def decide(ranges, others):
        told.extend((seen.tag, first) for _, seen, first in others)

    check = VersionCheck("ab", [ObjectVersion(5, "was"), None], decide, any_tag=any_tag)
    for tag in seen:
        version = ObjectVersion(5, tag.removeprefix("W/"), weak=tag.startswith("W/"))
        check.check(None, [(0, version)])  # type: ignore[arg-type]
    assert told == asked
    assert len(caplog.messages) == any(not tag or tag.startswith("W/") for tag in seen)
    check.check(None, [(1, ObjectVersion(5, ""))])  # type: ignore[arg-type]
    check.check(None, [(1, ObjectVersion(5, "x"))])  # type: ignore[arg-type]
    with pytest.raises(FileChangedError, match="its version was 'x' and is 'y' now"):
        check.check(None, [(1, ObjectVersion(5, "y"))])  # type: ignore[arg-type]


class Decides:
    """Notes what it is asked, and refuses some tags."""

    def __init__(self, *refused):
        self.told, self.refused = [], refused

    def __call__(self, ranges, others):
        self.told.append([(shard, seen.tag, first) for shard, seen, first in others])
        if any(seen.tag in self.refused for _, seen, _ in others):
            raise FileChangedError("other bytes")


def check_of(decides, shards=3):
    return VersionCheck("abc"[:shards], [ObjectVersion(5, "was")] * shards, decides)


def test_shards_are_decided_together_and_versions_of_one_shard_each():
    decides = Decides()
    new, newer = ObjectVersion(5, "new"), ObjectVersion(5, "newer")
    check = check_of(decides)
    check.check(None, [(0, new), (1, ObjectVersion(5, "was")), (2, new), (0, newer), (0, new), (2, new)])  # type: ignore[arg-type]
    assert decides.told == [[(0, "new", True), (2, "new", True)], [(0, "newer", False)]]
    weak = ObjectVersion(5, "other", weak=True)
    check.check(None, [(1, weak), (1, replace(weak, weak=False))])  # type: ignore[arg-type]
    assert decides.told[2:] == [[(1, "other", True)]]  # accepted, with this text


def test_what_was_refused_is_asked_about_again():
    """No shard of the call is accepted, and none counts as one that is being decided."""
    decides = Decides("bad")
    check = check_of(decides)
    seen = [(0, ObjectVersion(5, "new")), (1, ObjectVersion(5, "bad"))]
    for _ in range(2):
        with pytest.raises(FileChangedError, match="other bytes"):
            check.check(None, seen)  # type: ignore[arg-type]
    assert decides.told == [[(0, "new", True), (1, "bad", True)]] * 2
    assert not check.settle(0, seen[0][1])


def test_a_shard_that_is_replaced_while_it_is_decided():
    """Samples of one version say nothing of another's bytes."""

    def decide(ranges, others):
        check.settle(0, ObjectVersion(5, "newer"))

    check = check_of(decide)
    with pytest.raises(FileChangedError, match="its version was 'new' and is 'newer' now"):
        check.check(None, [(0, ObjectVersion(5, "new"))])  # type: ignore[arg-type]


def test_known_shards_do_not_wait_for_a_decision():
    """Of others, which reads samples from a server."""
    deciding, decided, done = threading.Event(), threading.Event(), threading.Event()
    check = check_of(lambda ranges, others: (deciding.set(), decided.wait(20)))
    check.check(None, [(1, ObjectVersion(5, "was"))])  # type: ignore[arg-type]
    thread = threading.Thread(target=lambda: (check.check(None, [(0, ObjectVersion(5, "new"))]), done.set()))  # type: ignore[arg-type]
    thread.start()
    assert deciding.wait(20)
    assert check.settle(1, ObjectVersion(5, "was"))
    check.check(None, [(1, ObjectVersion(5, "was"))])  # type: ignore[arg-type]
    assert not done.is_set()
    decided.set()
    thread.join()
    assert done.is_set()


def test_without_anything_that_decides():
    """Another tag than the expected one is refused."""
    silent = VersionCheck("a", [ObjectVersion(5, "was")], None)
    silent.check(None, [(0, ObjectVersion(5, ""))])  # type: ignore[arg-type]
    with pytest.raises(FileChangedError, match="its version was 'was' and is 'new' now"):
        silent.check(None, [(0, ObjectVersion(5, "new"))])  # type: ignore[arg-type]


def test_a_large_range_comes_in_pieces(server, opened, tmp_path, monkeypatch):
    """Each tried again by itself."""
    monkeypatch.setattr(remote_objects, "MAX_READ_BYTES", 1000)
    ranges = opened([server.url("a.bin")])
    server.script("503")
    assert read(ranges, (0, 500, 4900)) == [A[500:4900]]
    assert len(server.requests) == 6


def test_a_copy_in_another_process_reads(server, opened):
    """It carries names and options, and opens its own connections."""
    ranges = opened([server.url("a.bin")], storage_options=QUICK)
    read(ranges, (0, 0, 5))
    copy = pickle.loads(pickle.dumps(ranges))
    try:
        assert read(copy, (0, 10, 20)) == [A[10:20]]
    finally:
        copy.close()


def test_many_threads_read_at_once(server, opened):
    """Each gets its own bytes."""
    ranges = opened([server.url("a.bin"), server.url("b.bin")])
    wrong = []

    def work(seed):
        r = np.random.default_rng(seed)
        for _ in range(5):
            begin = int(r.integers(0, 2900))
            wrong.extend(found != A[begin : begin + 50] for found in read(ranges, (0, begin, begin + 50)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(wrong)


def test_a_forked_child_is_refused(server, opened, monkeypatch):
    """obstore would wait there for threads that the child doesn't have."""
    ranges = opened([server.url("a.bin")])
    read(ranges, (0, 0, 5))
    monkeypatch.setattr(object_client, "_PROCESSES", {1})
    with pytest.raises(StorageError, match="got a process that was forked, in which obstore can't run"):
        read(ranges, (0, 0, 5))
    with pytest.raises(RuntimeError, match="forked"):
        object_client.open_client("s3://box", {})


def test_names_and_options_are_shown_nowhere(server, opened):
    """Also where a name is no address, and where an option isn't one of the store's."""
    with pytest.raises(TypeError) as caught:
        file_parts([("https://me:secret@host/a?sig=secret",)])
    assert_no_secrets(caught.value, opened([server.url("a.bin?secret")]))
    assert "secret" not in repr(file_parts("https://me:secret@host/a?sig=secret"))
    ranges = opened(["s3://box/a.tar"], storage_options={"regoin": "secret", "region": "us-east-1"})
    with pytest.raises(StorageError, match="regoin") as caught:
        read(ranges, (0, 0, 5))
    assert_no_secrets(caught.value, ranges)


def test_a_server_without_head_requests(server, opened):
    """Size and version are those of the first byte; what isn't there is told as such."""
    server.always("no head")
    ranges = opened([server.url("a.bin"), server.url("none.bin")])
    assert ranges.version(0).size == 5000 and read(ranges, (0, 3, 9)) == [A[3:9]]
    with pytest.raises(FileNotFoundError, match="no such object"):
        ranges.version(1)
    server.always("405")
    with pytest.raises(
        StorageError, match=r"expected its size and version, got HTTP status 405 Method Not Allowed$"
    ):
        ranges.version(0)


@pytest.mark.parametrize(
    ("act", "header"), [("star", "Content-Range: bytes FIRST-LAST/SIZE"), ("chunked", "Content-Length")]
)
def test_an_answer_that_does_not_say_its_size(server, opened, act, header):
    """It is allowed, and obstore can't take it: the first answer is the error, with what to do."""
    server.always(act)
    ranges = opened([server.url("a.bin")])
    with pytest.raises(
        StorageError, match=f"got an answer that doesn't say its size by {header}, .*; copy the files"
    ):
        read(ranges, (0, 3, 9))
    assert len(server.requests) == 1


def test_a_thread_that_fetches_does_not_keep_its_process():
    """A request that a server doesn't answer may take minutes: the interpreter ends without it."""
    threads, seen = FetchThreads(), queue.SimpleQueue()
    threads.enter()
    threads.submit([lambda: seen.put(threading.current_thread())])
    worker = seen.get(timeout=20)
    threads.leave()
    worker.join(20)
    assert worker.daemon and not worker.is_alive()


def test_what_is_needed_first_is_fetched_first(monkeypatch):
    """Of the reads that wait, those of the least number go first; of one number in their order."""
    monkeypatch.setattr(fetch_threads, "IN_FLIGHT", 1)
    threads, begin, done = FetchThreads(), threading.Event(), queue.SimpleQueue()
    threads.enter()
    threads.submit([begin.wait])
    for number in (7, 0, 3):
        monkeypatch.setattr(urgency, "number", number)
        threads.submit([partial(done.put, (number, k)) for k in range(2)])
    begin.set()
    assert [done.get(timeout=20) for _ in range(6)] == [(0, 0), (0, 1), (3, 0), (3, 1), (7, 0), (7, 1)]
    threads.leave()
