"""Whether all processes say the same, found over the store where they meet, and told field by field.

Every process posts what it says. The first one reads all of it and posts what came of it, which the others wait for:
the cost is a post and a few reads each, however many there are.
"""

import json
from collections.abc import Mapping

from loaderkit.plan.ending import Store

from .waiting import Wait, named


def agree(store: Store, name: str, said: Mapping[str, str], *, advice: str) -> None:
    """Returns when every process of the store said the same under this name.

    Args:
        store: where they meet.
        name: what this is about; the n-th time in one process is the n-th in all of them.
        said: field to value.
        advice: what to do where they differ or don't come, the end of the error's text.

    Raises ValueError that names, for each field that differs, what each process said; and TimeoutError that names the
    processes that said nothing.
    """
    folder = f"agree/{name}/{store.count(f'agree/{name}')}/"
    store.post(f"{folder}said/{store.process}", json.dumps(dict(said)))
    if store.process == 0:
        verdict = _verdict(store, f"{folder}said/")
        store.post(f"{folder}verdict/0", json.dumps(verdict))
    else:
        found = _await(store, f"{folder}verdict/", 1)
        verdict = (
            json.loads(found[f"{folder}verdict/0"])
            if found
            else _silence(store, store.read(f"{folder}said/"))
        )
    kind, text = verdict
    if kind == "silent":
        raise TimeoutError(f"{text} within {store.timeout:g} s what it does: did it stop? {advice}")
    if kind == "differ":
        raise ValueError(f"the processes differ, and would train on different data:\n{text}\n{advice}")


def _await(store: Store, folder: str, count: int) -> Mapping[str, str]:
    wait = Wait(store)
    while len(found := store.read(folder)) < count and wait.on(folder):
        pass
    return found


def _verdict(store: Store, folder: str) -> list[str]:
    found = _await(store, folder, store.processes)
    if len(found) < store.processes:
        return _silence(store, found)
    lines = differences({p: json.loads(found[f"{folder}{p}"]) for p in range(store.processes)})
    return ["differ", "\n".join(lines)] if lines else ["agree", ""]


def _silence(store: Store, found: Mapping[str, str]) -> list[str]:
    here = {int(key.rpartition("/")[2]) for key in found}
    silent = [process for process in range(store.processes) if process not in here]
    return ["silent", f"process {named(silent or [0])} didn't say"]


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
