"""The probes: each function causes a fault in a subject, judges its behaviour, and gives one row of the table.

Each is called in a process of its own with the subject's module, and returns the answer: it begins with "yes" if the
subject behaves as a user would want, with "no" if it doesn't, or is a figure. A probe that raises gives "no: " and the
error, one that doesn't return in time "hangs".
"""

import json
import logging
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil

from benchmarks.conformance.subjects import Asked

Probe = Callable[[Any], str]
PROBES: dict[str, tuple[str, Probe]] = {}
SECONDS = {
    "SIGSTOP noticed": 240.0,
    "65,537 records shuffled exactly": 300.0,
}  # for a probe; the others have less
KEY = 173  # the record that goes wrong


def probe(name: str) -> Callable[[Probe], Probe]:
    """Puts a function in the table under that name; its docstring says what it does."""

    def add(function: Probe) -> Probe:
        PROBES[name] = ((function.__doc__ or "").strip(), function)
        return function

    return add


def numbers_of(batch: Any) -> list[Any]:
    """The rows of a batch of numbers, for the batch type of any library."""
    found: list[Any] = np.asarray(batch).ravel().tolist()
    return found


def stream(loader: Any) -> list[list[Any]]:
    """All batches."""
    return [numbers_of(batch) for batch in loader]


def slow(value: Any) -> Any:
    """Takes a while, so that workers are busy when they are killed."""
    time.sleep(0.005)
    return value


def fails(value: Any) -> Any:
    """Fails at one record, and doesn't say which."""
    if value == KEY:
        raise ValueError("this record is bad")
    return value


def workers_of(trainer: psutil.Process) -> list[psutil.Process]:
    """The processes that a loader has started in a trainer, without the standard library's helpers."""
    helpers = ("resource_tracker", "semaphore_tracker", "forkserver")
    found = []
    for process in trainer.children(recursive=True):
        line = " ".join(process.cmdline())
        if not any(helper in line for helper in helpers):
            found.append(process)
    return found


@probe("order independent of workers")
def order(subject: Any) -> str:
    """The shuffled batches with 0, 1, 2 and 3 workers are the same."""
    expected = stream(subject.make(Asked(), 0))
    wrong = [workers for workers in (1, 2, 3) if stream(subject.make(Asked(), workers)) != expected]
    return "yes" if not wrong else f"no: with {', '.join(map(str, wrong))} workers other batches than with 0"


def _resumed(subject: Any, before: int, after: int) -> str:
    expected = stream(subject.make(Asked(), before))
    loader = subject.make(Asked(), before)
    it = iter(loader)
    taken = [numbers_of(next(it)) for _ in range(11)]
    saved = subject.state(loader, it)
    if saved is None:
        return "no: it has no state"
    if taken != expected[:11]:
        return "no: the stream itself differs from run to run"
    del it, loader
    try:
        other = subject.make(Asked(), after)
        rest = [numbers_of(batch) for batch in subject.restore(other, saved)]
    except Exception as error:  # noqa: BLE001 - any refusal is an answer
        return f"no: refused, {_short(error)}"
    return "yes" if taken + rest == expected else "no: other batches follow"


@probe("resume exact")
def resume(subject: Any) -> str:
    """Saved after 11 batches with 2 workers, restored with 2 in a new loader: the rest of the stream follows."""
    return _resumed(subject, 2, 2)


@probe("resume with other workers")
def resume_elsewhere(subject: Any) -> str:
    """The same, saved with 2 workers and restored with 3, and with 0."""
    answers = {after: _resumed(subject, 2, after) for after in (3, 0)}
    wrong = [answer for answer in answers.values() if answer != "yes"]
    return wrong[0] if wrong else "yes"


@probe("changed data set refused")
def changed(subject: Any) -> str:
    """A state of a list of records is restored over as many other records, and over more of them."""
    answers = {}
    others = {
        "other records": Asked(record=_shifted, plain=True),
        "more records": Asked(length=300, plain=True),
    }
    for name, other in others.items():
        loader = subject.make(Asked(plain=True), 0)
        it = iter(loader)
        next(it)
        saved = subject.state(loader, it)
        if saved is None:
            return "no: it has no state"
        try:
            next(iter(subject.restore(subject.make(other, 0), saved)))
        except Exception:  # noqa: BLE001 - any refusal will do
            answers[name] = True
        else:
            answers[name] = False
    taken = [name for name, refused in answers.items() if not refused]
    return "yes" if not taken else f"no: it continues with {' and with '.join(taken)}"


def _shifted(key: int) -> Any:
    return np.int64(key + 1000)


@probe("record named in an error")
def named(subject: Any) -> str:
    """A function fails at record 173 in one of 2 workers: the error's text, notes or traceback say 173."""
    try:
        stream(subject.make(Asked(function=fails), 2))
    except Exception as error:  # noqa: BLE001 - its text is what is looked at
        told = "".join(traceback.format_exception(error))
        kept = isinstance(error, ValueError)
        if not re.search(rf"\b{KEY}\b", re.sub(r"line \d+", "", told)):
            return "no" if kept else f"no, and it is a {type(error).__name__}"
        return "yes" if kept else f"yes, but it is a {type(error).__name__}"
    return "no: there was no error"


def _killed(subject: Any, everyone: bool) -> str:
    expected = stream(subject.make(Asked(), 2))
    it = iter(subject.make(Asked(function=slow), 2))
    got = [numbers_of(next(it)) for _ in range(5)]
    workers = workers_of(psutil.Process())
    if not workers:
        return "no: there are no workers to kill"
    for worker in workers if everyone else workers[:1]:
        worker.send_signal(signal.SIGKILL)
    try:
        got += [numbers_of(batch) for batch in it]
    except Exception as error:  # noqa: BLE001 - an answer
        return f"error: {_short(error)}"
    if got == expected:
        return "yes: the stream continues, identical"
    return f"no: it ends as if complete, after {len(got)} of {len(expected)} batches"


@probe("one worker killed")
def one_killed(subject: Any) -> str:
    """SIGKILL to one of 2 workers after 5 batches: the stream continues unchanged."""
    return _killed(subject, everyone=False)


@probe("all workers killed")
def all_killed(subject: Any) -> str:
    """SIGKILL to both."""
    return _killed(subject, everyone=True)


@probe("trainer killed: orphans after 3 s")
def orphans(subject: Any) -> str:
    """SIGKILL to the process that iterates with 2 workers: how many of its processes are alive 3 seconds later."""
    name = subject.__name__.rpartition(".")[2]
    trainer = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.conformance.child", name, "(trainer)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert trainer.stdout is not None
        if trainer.stdout.readline() != b"ready\n":
            return "no: it did not start"
        workers = workers_of(psutil.Process(trainer.pid))
        trainer.kill()
        trainer.wait()
        _, alive = psutil.wait_procs(workers, timeout=3.0)
        return f"{len(alive)} of {len(workers)}"
    finally:
        _end_session(trainer.pid)


def trainer(subject: Any) -> None:
    """Iterates until it is killed."""
    it = iter(subject.make(Asked(length=100_000, function=slow), 2))
    for _ in range(5):
        next(it)
    os.write(1, b"ready\n")
    for _ in it:
        pass


def _end_session(pid: int) -> None:
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == pid:
                process.kill()
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue


@probe("SIGSTOP noticed")
def stopped(subject: Any) -> str:
    """SIGSTOP to both workers after 5 batches: within 100 seconds there is an error, a warning or a line in a log."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    warnings.showwarning = lambda message, *rest: said.append(str(message))
    signal.signal(signal.SIGALRM, _alarm)
    it = iter(subject.make(Asked(function=slow, length=4000), 2))
    for _ in range(5):
        next(it)
    workers = workers_of(psutil.Process())
    begun = time.monotonic()
    for worker in workers:
        worker.send_signal(signal.SIGSTOP)
    said.clear()
    try:
        while time.monotonic() < begun + 100 and not said:
            signal.setitimer(signal.ITIMER_REAL, 1.0)  # a wait without end is looked at once a second
            try:
                next(it)
            except InterruptedError:
                continue
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
    except StopIteration:
        return "no: it ends as if complete"
    except Exception as error:  # noqa: BLE001 - an answer
        return f"yes: after {time.monotonic() - begun:.0f} s, {_short(error)}"
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGCONT)
    return f"yes: after {time.monotonic() - begun:.0f} s, a warning" if said else "no: it waits in silence"


def _alarm(number: int, frame: Any) -> None:
    raise InterruptedError


@probe("`next()` after an error")
def after_an_error(subject: Any) -> str:
    """A function fails at one record with 2 workers; the next() after the error raises it again."""
    it = iter(subject.make(Asked(function=fails), 2))
    got: list[Any] = []
    try:
        while True:
            got += numbers_of(next(it))
    except StopIteration:
        return "no: there was no error"
    except Exception as error:  # noqa: BLE001 - what comes behind it is looked at
        first = error
    try:
        next(it)
    except StopIteration:
        return f"no: it ends as if complete, after {len(got)} of 200 records"
    except Exception as error:  # noqa: BLE001 - an answer
        return "yes: the same error again" if type(error) is type(first) else f"yes: {_short(error)}"
    return "no: it continues after the failed batch, which is lost"


def _nul(key: int) -> bytes:
    return b"ab" + bytes(key % 3)


@probe("bytes with trailing NULs")
def nuls(subject: Any) -> str:
    """Records of bytes that end in 0 come back whole in batches."""
    found: list[bytes] = []
    for batch in subject.make(Asked(record=_nul, shuffle=False), 1):
        found += [bytes(value) for value in batch]
    return "yes" if found == [_nul(key) for key in range(200)] else "no: cut short"


@probe("65,537 records shuffled exactly")
def exactly(subject: Any) -> str:
    """Each of 65,537 records comes once in a shuffled epoch."""
    seen = np.concatenate([np.asarray(b) for b in subject.make(Asked(length=65_537, batch=4096), 0)])
    unique = len(np.unique(seen))
    return "yes" if unique == len(seen) == 65_537 else f"no: {len(seen)} records, {unique} different ones"


@probe("500 batches kept")
def kept(subject: Any) -> str:
    """All batches of an epoch are kept, with one worker and at most 256 open files."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    batches = list(subject.make(Asked(length=2000, shuffle=False), 1))
    right = [number for batch in batches for number in numbers_of(batch)] == [*range(2000)]
    return "yes" if right else "no: other content"


@probe("size of a state")
def size(subject: Any) -> str:
    """Bytes of the state after 11 batches with 2 workers, pickled unless it is bytes."""
    saved = _saved(subject)
    if saved is None:
        return "none"
    return f"{len(saved if isinstance(saved, bytes) else pickle.dumps(saved)):,} bytes"


@probe("state readable")
def readable(subject: Any) -> str:
    """The state is JSON, or can be written as JSON."""
    saved = _saved(subject)
    if saved is None:
        return "no: it has none"
    try:
        json.loads(saved) if isinstance(saved, bytes) else json.dumps(saved)
    except (TypeError, ValueError) as error:
        return f"no: {_short(error)}"
    return "yes"


def _saved(subject: Any) -> Any:
    loader = subject.make(Asked(), 2)
    it: Iterator[Any] = iter(loader)
    for _ in range(11):
        next(it)
    return subject.state(loader, it)


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0] if lines else ''}"
    return text if len(text) <= 90 else text[:87] + "..."
