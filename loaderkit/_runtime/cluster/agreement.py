"""Whether all processes say the same, found over the store where they meet, and told field by field.

    said/i       the question of process i: its number, what it says, and its notes; null in place of what it says, once
                 it waits no more
    verdict/0    what came of the last questions that process 0 read, and which those were

What a process says has to be the same everywhere. Its notes needn't: where they differ, all processes are told.

Every process posts its question. The first one waits until all of them ask and posts what came of it, for which the
others wait: the cost is two posts and a few reads each, however many there are.

A question's number is its process's own. So where one asked alone, or was interrupted, all meet again when all ask the
next time: a question is withdrawn by who gives it up, and a verdict answers the questions that it lists.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from loaderkit._order.store import Store

from .waiting import Wait, named

_WAITS = 3  # of a process for the first one, which may itself have begun to wait last


def agree(
    store: Store, name: str, said: Mapping[str, str], *, advice: str, notes: Mapping[str, str] | None = None
) -> str:
    """Returns when every process of the store said the same under this name: how their notes differ, "" if they don't.

    Args:
        store: where they meet.
        name: what this is about; all processes ask, and none asks twice while another hasn't asked.
        said: field to value.
        advice: what to do where they differ or don't come, the end of the error's text.
        notes: field to value, of what may differ.

    Raises ValueError that names, for each field that differs, what each process said; and TimeoutError that names the
    processes that said nothing, or process 0 where that one doesn't ask.
    """
    folder = f"agree/{name}/"
    number = store.count(f"agree/{name}")
    own = f"{folder}said/{store.process}"
    try:
        store.post(own, json.dumps([number, dict(said), dict(notes or {})]))
        kind, text = _decided(store, folder) if store.process == 0 else _heard(store, folder, number)
    finally:
        with contextlib.suppress(Exception):  # the store may be gone
            store.post(own, json.dumps([number, None]))
    if kind == "silent":
        raise TimeoutError(f"{text} within {store.timeout:g} s what it does: did it stop? {advice}")
    if kind == "differ":
        raise ValueError(f"the processes differ, and would train on different data:\n{text}\n{advice}")
    return text


def _decided(store: Store, folder: str) -> tuple[str, str]:
    """What process 0 finds, and posts."""
    last = _verdict(store, folder)
    wait = Wait(store)
    while len(asking := _asking(store, folder, last)) < store.processes and wait.on(f"{folder}said/"):
        pass
    silent = [process for process in range(store.processes) if process not in asking]
    if silent:
        kind, text = "silent", f"process {named(silent)} didn't say"
    else:
        text = "\n".join(differences({process: asking[process].said for process in range(store.processes)}))
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


def _heard(store: Store, folder: str, number: int) -> tuple[str, str]:
    """What process 0 found of this process's question; where it asks too, its time may end later than ours."""
    for _ in range(_WAITS):
        wait, verdict = Wait(store), _verdict(store, folder)
        while not _answers(verdict, store.process, number) and wait.on(f"{folder}verdict/"):
            verdict = _verdict(store, folder)
        first_asks = 0 in _asking(store, folder, verdict)
        verdict = _verdict(store, folder)  # read last: it may have answered just now, and asks no more
        if _answers(verdict, store.process, number):
            return verdict["kind"], verdict["text"]
        if not first_asks:
            break
    return "silent", "process 0 didn't say"


class _Question(NamedTuple):
    number: int
    said: Mapping[str, str]
    notes: Mapping[str, str]


def _asking(store: Store, folder: str, last: Mapping[str, Any]) -> dict[int, _Question]:
    """The questions that wait for a verdict, by process; last: the verdict that was posted last."""
    asking = {}
    for key, value in store.read(f"{folder}said/").items():
        process, (number, said, *more) = int(key.rpartition("/")[2]), json.loads(value)
        if said is not None and not _answers(last, process, number):
            asking[process] = _Question(number, said, more[0] if more else {})
    return asking


def _verdict(store: Store, folder: str) -> Mapping[str, Any]:
    found = store.read(f"{folder}verdict/")
    verdict: Mapping[str, Any] = json.loads(found[f"{folder}verdict/0"]) if found else {}
    return verdict


def _answers(verdict: Mapping[str, Any], process: int, number: int) -> bool:
    # Most processes have asked as often as most others, so a verdict on thousands of them is short.
    return bool(verdict) and verdict["others"].get(str(process), verdict["usual"]) == number


def differences(said: Mapping[int, Mapping[str, str]]) -> list[str]:
    """A line for each field that isn't the same for all, with what each process said of it.

    said: by process, field to value.

    >>> differences({0: {"seed": "1"}, 1: {"seed": "2"}, 2: {"seed": "1"}})
    ['  seed: 1 on process 0, 2; 2 on process 1']
    """
    lines = []
    for name in dict.fromkeys(name for fields in said.values() for name in fields):
        by_value: dict[str, list[int]] = {}
        for process, fields in said.items():
            by_value.setdefault(fields.get(name, "nothing"), []).append(process)
        if len(by_value) > 1:
            texts = (f"{value} on process {named(processes)}" for value, processes in by_value.items())
            lines.append(f"  {name}: {'; '.join(texts)}")
    return lines
