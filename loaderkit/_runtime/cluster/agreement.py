"""Compares fields between all processes of a run over their store, and names the differences field by field.

    said/i       the question of process i: its number, its fields and its notes; its number and null once the process
                 waits no longer
    verdict/0    the result of the last comparison by process 0, and the questions that it compared

Fields have to be equal in all processes. Notes may differ; the differences are returned to all processes.

Every process posts its question. Process 0 waits for the questions of all, compares them and posts the verdict, for
which the others wait. The cost is two posts and a few reads for each process, for any number of processes.

Each process numbers its own questions. A process that gives up, by a timeout or an interrupt, withdraws its question,
and a verdict lists the questions that it answers. So after a process asked alone, the next comparison works again.
"""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loaderkit._order.store import Store
from loaderkit._source.fingerprint import KNOWN_TO_SOME_INDEXES

# close() and Ctrl-C take effect at most so late; a shorter slice would read the store more often. Not measured.
_SLICE_SECONDS = 0.1
_SHOWN = 8  # processes that a text names


class Wait:
    """A wait that begins now and lasts at most the store's `timeout`.

    It waits in slices, so that Ctrl-C takes effect and another thread can end the wait.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._deadline = time.monotonic() + store.timeout

    def on(self, prefix: str) -> bool:
        """Waits until a key may have been posted below `prefix`; returns False at once when the time is up."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False
        self._store.wait(prefix, min(left, _SLICE_SECONDS))
        return True


def named(processes: Sequence[int]) -> str:
    """The numbers of processes as text, at most eight of them.

    >>> named([0, 3]), named(range(10))
    ('0, 3', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    more = len(processes) - _SHOWN
    return ", ".join(map(str, processes[:_SHOWN])) + (f" and {more} more" if more > 0 else "")


# How many times the store's timeout another process waits at most, as long as process 0 is asking too: process 0 may
# have begun to wait last. A bound on the wait; not measured.
_WAITS = 3
# Of the names of notes that not every process has: compared between those that have them.
IF_THERE = "last bits of "


def agree(
    store: Store, name: str, fields: Mapping[str, str], *, advice: str, notes: Mapping[str, str] | None = None
) -> str:
    """Waits until every process of the store has called this with the same name, and compares their fields.

    Args:
        store: shared by the processes.
        name: of the comparison; every process has to call it, and none twice before the others called it once.
        fields: {field: value}, which have to be equal.
        advice: what to do about a difference or a timeout, the end of the error's text.
        notes: {field: value}, which may differ.

    Returns the differences of the notes, "" if there are none. Raises ValueError with every field that differs and its
    values, and TimeoutError with the processes that didn't call, or process 0 if it is among them.
    """
    folder = f"agree/{name}/"
    number = store.count(f"agree/{name}")
    own = f"{folder}said/{store.process}"
    try:
        store.post(own, json.dumps([number, dict(fields), dict(notes or {})]))
        kind, text = _decided(store, folder) if store.process == 0 else _answered(store, folder, number)
    finally:
        with contextlib.suppress(Exception):  # the store may have ended
            store.post(own, json.dumps([number, None]))
    if kind == "silent":
        raise TimeoutError(f"{text} within {store.timeout:g} s; did it stop? {advice}")
    if kind == "differ":
        raise ValueError(f"the processes differ, and would train on different data:\n{text}\n{advice}")
    return text


def _decided(store: Store, folder: str) -> tuple[str, str]:
    """Compares as process 0, and posts the verdict; returns its kind and text."""
    last = _verdict(store, folder)
    wait = Wait(store)
    while len(asking := _asking(store, folder, last)) < store.processes and wait.on(f"{folder}said/"):
        pass
    silent = [process for process in range(store.processes) if process not in asking]
    if silent:
        kind, text = "silent", f"process {named(silent)} didn't answer"
    else:
        text = "\n".join(differences({process: asking[process].fields for process in range(store.processes)}))
        kind = "differ" if text else "agree"
        if not text:
            text = "\n".join(
                differences({process: asking[process].notes for process in range(store.processes)})
            )
    numbers = {process: question.number for process, question in asking.items()}
    usual = Counter(numbers.values()).most_common(1)[0][0]
    others = {p: numbers.get(p) for p in range(store.processes) if numbers.get(p) != usual}
    store.post(
        f"{folder}verdict/0", json.dumps({"usual": usual, "others": others, "kind": kind, "text": text})
    )
    return kind, text


def _answered(store: Store, folder: str, number: int) -> tuple[str, str]:
    """Kind and text of the verdict on this process's question.

    Waits again while process 0 is asking, because the time of process 0 may end later than this process's.
    """
    for _ in range(_WAITS):
        wait, verdict = Wait(store), _verdict(store, folder)
        while not _answers(verdict, store.process, number) and wait.on(f"{folder}verdict/"):
            verdict = _verdict(store, folder)
        first_asks = 0 in _asking(store, folder, verdict)
        verdict = _verdict(store, folder)  # read after `first_asks`: process 0 may have answered in between
        if _answers(verdict, store.process, number):
            return verdict["kind"], verdict["text"]
        if not first_asks:
            break
    return "silent", "process 0 didn't answer"


class _Question(NamedTuple):
    number: int
    fields: Mapping[str, str]
    notes: Mapping[str, str]


def _asking(store: Store, folder: str, last: Mapping[str, Any]) -> dict[int, _Question]:
    """The questions that wait for a verdict, by process. last: the latest verdict."""
    asking = {}
    for key, value in store.read(f"{folder}said/").items():
        process, (number, fields, *more) = int(key.rpartition("/")[2]), json.loads(value)
        if fields is not None and not _answers(last, process, number):
            asking[process] = _Question(number, fields, more[0] if more else {})
    return asking


def _verdict(store: Store, folder: str) -> Mapping[str, Any]:
    found = store.read(f"{folder}verdict/")
    verdict: Mapping[str, Any] = json.loads(found[f"{folder}verdict/0"]) if found else {}
    return verdict


def _answers(verdict: Mapping[str, Any], process: int, number: int) -> bool:
    # A verdict lists only the processes that don't have the most frequent number, so it is short for thousands.
    return bool(verdict) and verdict["others"].get(str(process), verdict["usual"]) == number


def differences(by_process: Mapping[int, Mapping[str, str]]) -> list[str]:
    """A line for each field that isn't equal in all processes, with the value of each process.

    by_process: {process: {field: value}}. A field of KNOWN_TO_SOME_INDEXES is compared where it is said.

    >>> differences({0: {"seed": "1"}, 1: {"seed": "2"}, 2: {"seed": "1"}})
    ['  seed: 1 on process 0, 2; 2 on process 1']
    """
    lines = []
    for name in dict.fromkeys(name for fields in by_process.values() for name in fields):
        by_value: dict[str, list[int]] = {}
        for process, fields in by_process.items():
            if name not in fields and (
                name.startswith(IF_THERE) or name.rpartition(".")[2] in KNOWN_TO_SOME_INDEXES
            ):
                continue
            by_value.setdefault(fields.get(name, "nothing"), []).append(process)
        if len(by_value) > 1:
            texts = (f"{value} on process {named(processes)}" for value, processes in by_value.items())
            lines.append(f"  {name}: {'; '.join(texts)}")
    return lines
