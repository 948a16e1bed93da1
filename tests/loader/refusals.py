"""What the tests of bad input share: a small loader, and how a refusal is looked at."""

import re
from typing import Any

import pytest
from pipelines import Running

import loaderkit as lk

TEN = range(10)


def loader_of(*operations: Any, running: Running = Running(), **options: Any) -> "lk.DataLoader":  # noqa: B008 - frozen
    options = {"data_source": TEN, "sampler": lk.IndexSampler(10, seed=0, num_epochs=1)} | options
    options = {"worker_count": running.workers, "worker_kind": running.kind} | options
    return lk.DataLoader(operations=operations, **options)


def refused(make: Any, error: type[Exception], *patterns: str) -> None:
    """`make` raises exactly that type, and its text and notes say all of the patterns."""
    with pytest.raises(error) as raised:
        make()
    assert raised.type is error
    said = "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
    for pattern in patterns:
        assert re.search(pattern, said), f"{pattern!r} is not in: {said}"
