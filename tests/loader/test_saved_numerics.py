"""A state says which last bits its process computed; a restore where they are others is a warning."""

import json
import warnings
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._base.canonical_json import digest
from loaderkit._system.numerics import numerics


def loader_of(*operations: Any) -> lk.DataLoader:
    return lk.load(np.arange(40.0), seed=0, shuffle=True, batch_size=4, transformations=[*operations])


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
        with pytest.warns(UserWarning, match="^BLAS, numpy of this process computes other last bits") as told:
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
