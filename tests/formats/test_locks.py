"""A folder of unfinished work that another process has locked: it is said which, and waiting has an end."""

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

import loaderkit as lk
from loaderkit._base.system import waited_lock

STOPPED = """
import os, signal, sys
from loaderkit._base.system.waited_lock import locked_folder
with locked_folder(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.parametrize("attributes", [True, False])
def test_a_stopped_process_is_named(tmp_path, monkeypatch, caplog, attributes):
    """And once it goes on, so does who has waited."""
    if not attributes:  # as on a file system without them
        monkeypatch.delattr(os, "getxattr")
    folder = f"{tmp_path}/set.partial"
    child = subprocess.Popen([sys.executable, "-c", STOPPED, folder])
    os.waitpid(child.pid, os.WUNTRACED)
    monkeypatch.setattr(waited_lock, "TOLD_AFTER", 0.0)
    monkeypatch.setattr(waited_lock, "LIMIT", 0.2)
    named = rf"process {child.pid} on host {re.escape(socket.gethostname())} \(stopped\) has"
    try:
        for write in (
            lambda: lk.write([{"x": 1}] * 4, tmp_path / "set", format="jsonl", shards=2),
            lambda: lk.offline.map_shards(dict, [{"x": 1}] * 4, tmp_path / "set", format="jsonl", shards=2),
        ):
            with pytest.raises(
                TimeoutError, match=rf"set\.partial: expected the lock, but {named}.*end that process"
            ):
                write()
            assert re.search(rf"waiting for .*set\.partial, which {named} locked", caplog.text)
    finally:
        child.send_signal(signal.SIGCONT)
        assert child.wait() == 0
    write()
    assert len(lk.JsonLinesDataSource(f"{tmp_path}/set/*")) == 4


def test_a_folder_of_many_files_is_looked_through_rarely(tmp_path, monkeypatch):
    """While it is waited for, the lock alone is tried again and again, at first at once."""
    looked, pauses = [], []
    monkeypatch.setattr(waited_lock, "_state_of", looked.append)
    with open(tmp_path / "a", "w") as holder, open(tmp_path / "a") as other:
        fcntl.flock(holder, fcntl.LOCK_EX)

        def sleep(seconds):
            pauses.append(seconds)
            if len(pauses) == 12:
                fcntl.flock(holder, fcntl.LOCK_UN)

        monkeypatch.setattr(waited_lock.time, "sleep", sleep)
        with waited_lock.waited_lock(other.fileno(), str(tmp_path)):
            pass
    assert looked == [str(tmp_path)]
    assert pauses[0] < 0.001 < pauses[-1] < 0.1
