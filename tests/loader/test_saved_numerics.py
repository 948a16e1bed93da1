"""A state says which last bits its process computed; a restore where they are others is a warning."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._base.canonical_json import digest
from loaderkit._base.system.numerics import numerics


def loader_of(*operations: Any) -> "lk.DataLoader":
    return lk.load(np.arange(40.0), seed=0, shuffle=True, batch_size=4, operations=[*operations])


def elsewhere(state: bytes, **numerics: str) -> bytes:
    """As a process with other libraries would have saved it."""
    document = {**json.loads(state), "numerics": numerics}
    del document["digest"]
    return json.dumps({**document, "digest": digest(document)}).encode()


def test_every_state_has_format_5_and_what_this_process_computes():
    """At the start, by seek or by iteration: the same bytes."""
    with iter(loader_of(np.exp)) as it, iter(loader_of(np.exp)) as other:
        first = json.loads(it.get_state())
        assert first["format_version"] == 5 and first["numerics"] == numerics()
        next(it)
        other.seek(1)
        assert it.get_state() == other.get_state()


def test_a_restore_where_a_library_computes_otherwise_is_one_warning_that_names_it():
    """Of the libraries that both have; what is saved before a batch is taken is what was saved."""
    own = numerics()
    with iter(loader_of(np.exp)) as it:
        next(it)
        state = elsewhere(it.get_state(), **{**own, "BLAS": "others", "numpy": "others", "abacus": "1"})
        with pytest.warns(
            UserWarning, match="^BLAS, numpy of this process computes .* With cpu='x86-64-v3' from its start "
        ) as told:
            it.set_state(state)
        assert len(told) == 1
        assert json.loads(it.get_state()) == json.loads(state)
        next(it)
        assert json.loads(it.get_state())["numerics"] == own


def test_without_operations_or_by_the_same_libraries_nothing_is_said():
    """Stacking computes nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for operations, others in (((), {"numpy": "others"}), ((np.exp,), {"abacus": "1"})):
            with iter(loader_of(*operations)) as it:
                it.set_state(elsewhere(it.get_state(), **others))


def test_an_older_state_says_nothing_and_stays_as_it_was_until_a_batch_is_taken():
    """One of format 3, as version 0.1.0 wrote it."""
    with iter(loader_of(np.exp)) as it:
        document = json.loads(it.get_state())
        del document["numerics"], document["digest"]
        document["format_version"] = 3
        it.set_state(json.dumps({**document, "digest": digest(document)}).encode())
        again = json.loads(it.get_state())
        assert again["format_version"] == 3 and "numerics" not in again
        next(it)
        assert json.loads(it.get_state())["format_version"] == 5


BLURRING = """
import json, pathlib, sys, warnings
import numpy as np
import loaderkit as lk

def blurred(number):
    import cv2
    return cv2.blur(np.full((4, 4), number, np.float32), (3, 3))

def loader(function):
    how = {"worker_count": 1} if sys.argv[1] == "worker" else {}
    return lk.load(np.arange(8.0), batch_size=4, operations=[function], **how)

path = pathlib.Path(sys.argv[2])
with iter(loader(blurred)) as it, warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    if path.exists():
        it.set_state(path.read_bytes())
    first = len(told)
    next(it), next(it)
    path.write_bytes(it.get_state())
with iter(loader(np.exp)) as it:
    next(it)
    others = sorted(json.loads(it.get_state())["numerics"])
texts = [str(one.message)[:36] for one in told]
print(json.dumps([first, texts, {one.filename for one in told} <= {__file__}, "cv2" in sys.modules, others]))
"""


@pytest.mark.parametrize("worker", ["trainer", "worker"])
def test_a_library_that_the_first_batch_loads_is_in_the_state_and_compared_behind_it(
    tmp_path: Path, worker: str
) -> None:
    """In the trainer or in workers only; a loader whose workers load nothing else has the states that it had."""
    pytest.importorskip("cv2", exc_type=ImportError)
    script, path = tmp_path / "blurring.py", tmp_path / "state"
    script.write_text(BLURRING)

    def told() -> Any:
        ran = subprocess.run(
            [sys.executable, script, worker, path], capture_output=True, text=True, check=True
        )
        return json.loads(ran.stdout)

    others = ["BLAS", "libm", "numpy"] if worker == "worker" else ["BLAS", "cv2", "libm", "numpy"]
    assert told() == [0, [], True, worker == "trainer", others]
    saved = json.loads(path.read_bytes())["numerics"]
    assert sorted(saved) == ["BLAS", "cv2", "libm", "numpy"]
    assert told()[:2] == [0, []]
    path.write_bytes(elsewhere(path.read_bytes(), **(saved | {"cv2": "others"})))
    assert told()[:3] == [0, ["cv2 of this process computes other la"[:36]], True]
    assert json.loads(path.read_bytes())["numerics"] == saved
