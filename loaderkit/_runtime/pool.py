"""The workers of a loader, and the pump: one thread that hears them, tells the engine, and does what it says.

The pump is a daemon and holds no iterator and no loader: they hold the pool, and ask for its end when they go, from
wherever the garbage collector finds them, by a flag and a byte in a pipe and nothing that could wait. Process workers
are started from the pump's thread, because the kernel ties a child's life to the *thread* that started it.

All state is under one lock. A consumer that waits does so on its condition; after it took an element it gives out the
next tasks itself, so that a busy consumer never waits for the pump to be scheduled.
"""

import contextlib
import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

from loaderkit._engine.assembly import Assembly, Supplies
from loaderkit._memory import sending
from loaderkit.errors import IteratorClosedError, TransportError, WorkerError
from loaderkit.transforms.base import label_of
from loaderkit.transforms.program import Failure

from .arena import Arena
from .crew import Arrived, Asked, Event, Finished, Sought, Unfit, Worker
from .hub import Hub, Search, Step
from .pickling import Packer
from .process import ProcessWorker
from .thread import ThreadWorker
from .work import Program

_log = logging.getLogger("loaderkit")
IDLE_SECONDS = 30.0  # workers without an iterator wait that long for the next one
_END_SECONDS = (
    0.2  # for all workers together to end by themselves, before those that are processes are killed
)
_THREAD_END_SECONDS = 1.0
_FAILED_STARTS = 4  # workers that die before they are ready, while nobody gets anything done


class Pool(Hub):
    """Thread or process workers for all iterators of one loader.

    Args:
        program: what is run.
        workers: how many.
        kind: "process" or "thread".
        max_memory, task_rows: as Hub says.
    """

    def __init__(
        self, program: Program, *, workers: int, kind: str, max_memory: int | None, task_rows: int | None
    ) -> None:
        self._packer = Packer()
        # Before anything is opened that would have to be closed again.
        self._packed, self._descriptors = _packed(program, self._packer) if kind == "process" else (b"", [])
        self._as_sent = _operations_now(program) if kind == "process" else b""
        arena = Arena()
        super().__init__(
            program,
            workers=workers,
            arena=arena,
            reserves=kind == "process",
            max_memory=max_memory,
            task_rows=task_rows,
        )
        self._shared_arena = arena
        self._workers = workers
        self._kind = kind
        self._pid = os.getpid()
        self._changed = threading.Condition(self.lock)
        self._crew: dict[int, Worker] = {}
        self._numbers = 0
        self._failed_starts = 0
        self._unfit: Exception | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._wake_up, self._woken = socket.socketpair()
        self._wake_up.setblocking(False)
        self._woken.setblocking(False)

    # --- for iterators ------------------------------------------------------------------------------------------

    def open(self, make: Callable[[Supplies], Assembly], search: Search) -> int:
        self._check_process()
        with self.lock:
            if self._stopping:
                raise IteratorClosedError("the loader was closed, and its workers have ended")
            stream = super().open(make, search)
            self.torn = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_pump, args=(self,), name="loaderkit-pump", daemon=True
                )
                self._thread.start()
            self._give_out()
            self.torn = False
            self.wake()  # workers may have to be hired
            return stream

    def close(self, stream: int) -> None:
        if os.getpid() == self._pid:  # in a forked child the lock may be held by a thread that isn't there
            super().close(stream)
            self.wake()  # also where an interrupt tore the engine: the pump ends the workers then

    def abandon(self, stream: int) -> None:
        if os.getpid() == self._pid:
            super().abandon(stream)

    def next(self, stream: int) -> Step:
        self._check_process()
        with self.lock:
            while True:
                if self._unfit is not None:
                    return Failure(self._unfit, "", ())
                if self._stopping:
                    raise IteratorClosedError("the loader was closed, and its workers have ended")
                self._check_open(stream)
                self.torn = True
                self._let_go()  # what the user let go of may be the memory that is missing
                step = self._pop(stream)
                if self._moved or step is None:
                    self._give_out()
                if step is None:  # giving out may have found that there is nothing more to give
                    step = self._pop(stream)
                self.torn = False
                if step is not None:
                    return step
                self._changed.wait()

    def check(self) -> None:
        self._check_process()
        super().check()

    def wake(self) -> None:
        """Makes the pump look around; never waits."""
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will look anyway; closed: it is over
            self._wake_up.send(b"\0")

    @property
    def usable(self) -> bool:
        return super().usable and self._unfit is None and not self._stopping and os.getpid() == self._pid

    def runs(self, program: Program) -> bool:
        return self._kind == "thread" or self._as_sent == _operations_now(program)

    def stop(self) -> None:
        """Asks for the end of pump and workers; may be called from anywhere, the garbage collector included."""
        if os.getpid() == self._pid:
            self._closed = self._stopping = True
            self.wake()
            if self._thread is None:  # not started, or ended after an idle time
                self._release()

    def shut_down(self) -> None:
        """Ends pump and workers, and returns when they are gone."""
        if os.getpid() != self._pid:
            return
        self.stop()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise IteratorClosedError(
                "this iterator belongs to the process that this one was forked from; make one here: iter(loader)"
            )

    # --- the pump, under the lock -------------------------------------------------------------------------------

    def _give_out(self) -> None:
        self._let_go()
        self._moved = False
        given: set[Worker] = set()
        while self._unfit is None and (assignment := self._dispatcher.assign()) is not None:
            worker = self._crew[assignment.worker]  # type: ignore[index]  # the numbers that we gave
            outputs = {}
            for span in assignment.task.inputs:
                where = None if span.slot is not None else self._outputs.slot(span.task)
                if where is not None:
                    outputs[span.task] = where
            worker.give(assignment, outputs)
            given.add(worker)
        for worker in given:
            if isinstance(worker, ProcessWorker):
                worker.flush()
                if worker.blocked:
                    self.wake()

    def _hear(self, number: int, event: Event) -> None:
        worker = self._crew[number]
        match event:
            case Arrived():
                self._failed_starts = 0
                self._dispatcher.ready(number)
            case Asked(task, attempt, nbytes):
                slot = self._dispatcher.asks(number, task, attempt, nbytes)
                worker.place(task, attempt, slot)
            case Sought(task, attempt, index, tried):
                worker.suggest(*self._search(number, task, attempt, index, tried))
            case Finished(task, attempt, report, output):
                self._failed_starts = 0
                if output is not None:
                    self._objects[task] = output
                self._dispatcher.done(number, task, attempt, report)
            case Unfit(error):
                self._unfit = error

    def _lose(self, selector: selectors.BaseSelector, number: int) -> None:
        worker = self._crew.pop(number)
        assert isinstance(worker, ProcessWorker)
        selector.unregister(worker.connection)
        if worker.watch is not None:
            selector.unregister(worker.watch)
        reason = worker.end(_END_SECONDS)
        if self._stopping or self._unfit is not None:
            return
        started = number in self._dispatcher.workers
        lost = self._dispatcher.died(number, reason)
        if not started:
            self._failed_starts += 1
        records = [index for task in lost for index in task.indices.tolist()]
        _log.warning(
            "loaderkit: worker process %d died with %s; %s",
            worker.process.pid,
            reason,
            f"indices {min(records)} to {max(records)}, {len(lost)} tasks, are done again"
            if records
            else "it had nothing to do",
        )
        if self._failed_starts >= _FAILED_STARTS:
            self._unfit = WorkerError(
                f"{self._failed_starts} workers in a row died before they were ready, the last with {reason}; "
                "what they wrote to stderr says why"
            )

    def _hire(self, selector: selectors.BaseSelector) -> None:
        while len(self._crew) < self._workers and self._unfit is None:
            number = self._numbers
            self._numbers += 1
            if self._kind == "thread":
                self._crew[number] = thread = ThreadWorker(
                    self.program, self._shared_arena, self._objects, self._told, number
                )
                thread.start()
                continue
            try:
                worker = ProcessWorker(self._packed, self._descriptors, self._shared_arena, self._packer)
            except OSError as error:
                self._unfit = WorkerError(f"a worker process can't be started: {error}")
                return
            self._crew[number] = worker
            selector.register(worker.connection, selectors.EVENT_READ, number)
            if worker.watch is not None:
                selector.register(worker.watch, selectors.EVENT_READ, number)

    def _told(self, worker: ThreadWorker, event: Event) -> None:
        # In the worker's own thread: it has its next task at once, without waiting for the pump to be scheduled.
        with self.lock:
            if self._crew.get(worker.number) is not worker or self.torn:  # dismissed, or soon to be
                return
            try:
                self._hear(worker.number, event)
                self._give_out()
            except BaseException as error:  # noqa: BLE001 - whoever waits must not wait for ever
                self._fail(error)
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        _log.error("loaderkit: the engine failed", exc_info=error)
        self._unfit = WorkerError(f"the loader's engine failed: {error!r}")
        self.torn = True
        self.wake()

    def _turn(self, selector: selectors.BaseSelector, timeout: float | None) -> bool:
        """One turn of the pump; whether anything happened."""
        ready = selector.select(timeout)
        with self.lock:
            if self.torn:
                return True
            for key, mask in ready:
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        self._woken.recv(4096)
                elif key.data in self._crew:  # else lost in this very turn
                    self._attend(selector, key, mask)
            self._sweep()
            if self._streams and not self._stopping:
                self._hire(selector)
                self._give_out()
            for number, crewed in self._crew.items():
                if isinstance(crewed, ProcessWorker):
                    events = selectors.EVENT_READ | (selectors.EVENT_WRITE if crewed.blocked else 0)
                    if selector.get_key(crewed.connection).events != events:
                        selector.modify(crewed.connection, events, number)
            self._changed.notify_all()
        return bool(ready)

    def _attend(self, selector: selectors.BaseSelector, key: selectors.SelectorKey, mask: int) -> None:
        number: int = key.data
        worker = self._crew[number]
        assert isinstance(worker, ProcessWorker)
        if mask & selectors.EVENT_WRITE:
            worker.flush()
        if mask & selectors.EVENT_READ:
            ended = key.fd == worker.watch
            events, open_ = worker.read()
            for event in events:
                self._hear(number, event)
            if ended or not open_:
                self._lose(selector, number)

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._woken, selectors.EVENT_READ, None)
        while True:
            idle = not self._streams
            try:
                happened = self._turn(selector, IDLE_SECONDS if idle else None)
            except BaseException as error:  # noqa: BLE001 - whoever waits must not wait for ever
                self._fail(error)
                happened = True
            with self.lock:
                if self._unfit is not None or self.torn:
                    self._stopping = True  # nobody will get anything from these workers any more
                if not self._stopping and (happened or not idle or self._in_use()):
                    continue
                crew = self._dismissed()
            self._see_off(crew)  # not under the lock: a thread may be about to tell of its last task
            selector.close()
            with self.lock:
                if self._stopping and self._thread in (None, threading.current_thread()):
                    self._release()  # else a next pump was started since, and does it
            return

    def _in_use(self) -> bool:
        # Also by a task of a stream that was closed: as long as it writes, its slots are nobody else's.
        return bool(self._streams) or any(map(self._dispatcher.busy, self._crew))

    def _dismissed(self) -> list[Worker]:
        crew = [*self._crew.values()]
        for number, worker in self._crew.items():
            worker.dismiss()
            if not self.torn:
                self._dispatcher.died(number, "dismissed", blame=False)
        self._crew.clear()
        if not self._stopping:
            self._thread = None  # a stream that is opened from now on starts another
        self._changed.notify_all()
        return crew

    def _see_off(self, crew: list[Worker]) -> None:
        deadline = time.monotonic() + (_END_SECONDS if self._kind == "process" else _THREAD_END_SECONDS)
        for worker in crew:
            worker.end(max(0.0, deadline - time.monotonic()))

    def _release(self) -> None:
        self._wake_up.close()
        self._woken.close()
        self._objects.clear()
        self._shared_arena.close()


def _pump(pool: Pool) -> None:
    pool._run()


def _packed(program: Program, packer: Packer) -> tuple[bytes, list[int]]:
    with sending() as descriptors:
        try:
            return packer.teach(program), list(descriptors)
        except Exception as error:
            raise TransportError(_what_cannot_travel(program, error)) from error


def _operations_now(program: Program) -> bytes:
    # Processes have the operations as they were when they were sent; the trainer's may have been changed since.
    with sending():
        operations: bytes = cloudpickle.dumps(program.operations)
    return operations


def _what_cannot_travel(program: Program, error: Exception) -> str:
    named: list[tuple[str, Any]] = [("data_source", program.source)]
    named += [(f"operations[{k}] {label_of(op)}", op) for k, op in enumerate(program.operations)]
    for name, thing in named:
        if _travels(thing):
            continue
        culprits = [
            f"its attribute {attribute!r}" for attribute, value in _attributes(thing) if not _travels(value)
        ]
        return (
            f"{name} can't be sent to worker processes: {', '.join(culprits) or type(thing).__qualname__}: {error}. "
            "Make it where it is used first, or use worker_kind='thread' or worker_count=0."
        )
    return f"the pipeline can't be sent to worker processes: {error}"


def _travels(thing: Any) -> bool:
    try:
        with sending():
            Packer().dumps(thing)
    except Exception:  # noqa: BLE001 - the user's reduce may raise anything
        return False
    return True


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    function = getattr(thing, "_function", None) or thing
    for name, cell in zip(
        getattr(getattr(function, "__code__", None), "co_freevars", ()),
        getattr(function, "__closure__", None) or (),
        strict=False,
    ):
        with contextlib.suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents
