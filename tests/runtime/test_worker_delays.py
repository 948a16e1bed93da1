"""How long a worker process waited for a processor."""

import socket
from types import SimpleNamespace

from loaderkit._runtime.executors import process_worker
from loaderkit._runtime.executors.worker import WorkerReady
from loaderkit._runtime.worker.meter import CELLS


def test_waits_for_a_processor_count_from_when_a_worker_is_ready_and_stay_when_it_ends(monkeypatch):
    waited = 0

    def times(pid, thread=None):
        return 10**9, waited

    monkeypatch.setattr(process_worker, "processor_times", times)
    worker = object.__new__(process_worker.ProcessWorker)
    connection, other = socket.socketpair()
    with connection, other:
        connection.setblocking(False)
        worker.number, worker.connection, worker.open = 0, connection, True
        worker.process = SimpleNamespace(pid=-1, returncode=None)
        worker._received, worker._delayed_start, worker._delayed = bytearray(), None, 0
        worker._heartbeat = SimpleNamespace(cells=[0] * CELLS, progress=lambda: SimpleNamespace(task=None))
        waited = 70
        starting = worker.counters(()).delayed
        monkeypatch.setattr(process_worker.wire, "split", lambda received: [(0, b"")])
        monkeypatch.setattr(process_worker, "event_of", lambda kind, body: WorkerReady())
        worker.read()
        ready = worker.counters(()).delayed
        waited = 95
        working = worker.counters(()).delayed
        worker.process.returncode = -9
        assert (starting, ready, working, worker.counters(()).delayed) == (0, 0, 25, 25)
