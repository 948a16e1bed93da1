"""How states describe operations: a changed parameter shows, and the text is the same in every process and run."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from said_operations import OPERATIONS, VALUES, Holds, Inner, decode, everything

import loaderkit as lk
from loaderkit._base.canonical_json import canonical
from loaderkit._plan.state.identity import lines_of
from loaderkit._plan.state.strict_json import find_problem
from loaderkit.transforms.parameters import parameters_of


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_said_by_name_and_parameters(name):
    """Kind, bare name, and the fields of a frozen dataclass; of our own those that aren't at their default."""
    operation, said = OPERATIONS[name]
    assert parameters_of([operation]) == [said]


@pytest.mark.parametrize(("value", "said"), VALUES, ids=lambda value: type(value).__name__)
def test_a_parameter_is_said_as_json(value, said):
    """What is plain as it is, long data by a digest, and the rest by its type: never by an address."""
    (entry,) = parameters_of([Holds(value)])
    assert entry["parameters"] == {"value": said}


def test_another_value_is_another_text():
    """Long values too, by their digest; and arrays by what is in them."""
    for one, other in [
        ("a" * 300, "a" * 299 + "b"),
        (list(range(300)), [*range(299), 0]),
        (np.arange(300), np.arange(300)[::-1]),
        (np.zeros(9999, np.uint8), (np.arange(9999) // 9998).astype(np.uint8)),
        ({"deep": [{"size": 1}]}, {"deep": [{"size": 2}]}),
    ]:
        before, after = (parameters_of([Holds(value)]) for value in (one, other))
        assert before != after
        assert len(canonical(before)) < 250


def test_what_is_said_is_small_whatever_the_operations_hold():
    """A few thousand characters at most: then each operation by a digest, then all together; and it still differs."""
    loop: list[Any] = []
    loop.append(loop)
    wide = {f"key {number}": "x" * 150 for number in range(10**5)}
    for operations in (
        [Holds(loop), Holds(wide), Holds([wide] * 3)],
        [lk.Map(partial(decode, **{f"a{k}": "x" * 150 for k in range(100)})) for _ in range(9)],
        [Holds(str(number)) for number in range(900)],
    ):
        said = parameters_of(operations)
        assert len(canonical(said)) <= 4096
        assert find_problem(said, "parameters") is None
        assert parameters_of([*operations[:-1], Holds(3)]) != said


@pytest.mark.parametrize("around", [Inner, lambda value: {1: value}, lambda value: partial(decode, a=value)])
def test_a_state_can_be_saved_however_deep_its_parameters_are(around):
    """A document has 32 levels: what lies deeper in a parameter is said by its type."""
    value: Any = 1
    for _ in range(40):
        value = around(value)
        it = iter(lk.DataLoader(data_source=[1], sampler=lk.IndexSampler(1), operations=[Holds(value)]))
        it.set_state(it.get_state())


def test_a_new_field_of_our_own_operations_changes_no_state():
    """At its default it isn't written, so a state from before it existed restores without a warning."""

    @dataclass(frozen=True)
    class Crop(lk.Map):
        size: int
        sharp: bool = False

        def map(self, element: Any) -> Any:
            return element

    theirs = parameters_of([Crop(64)])
    Crop.__module__ = "loaderkit.transforms.image.crops"
    assert parameters_of([Crop(64)])[0]["parameters"] == {"size": 64}
    assert parameters_of([Crop(64, sharp=True)])[0]["parameters"] == {"size": 64, "sharp": True}
    assert theirs[0]["parameters"] == {"size": 64, "sharp": False}


def test_a_process_compares_each_parameter_by_its_place():
    """What processes post: the place and name of an operation, and of the parameter."""
    said = parameters_of([lk.Map(decode), Holds(Inner(0.5))])
    assert list(lines_of(said)) == [("operations[1] Holds.value", '{"Inner":{"alpha":0.5}}')]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner)
        ),
        max_leaves=6,
    )
)
def test_any_value_is_said_and_can_be_read_again(value):
    """The description is JSON that a state may hold, and the same each time."""
    said = parameters_of([Holds(value)])
    assert find_problem(said, "parameters") is None
    assert json.loads(canonical(said)) == json.loads(canonical(parameters_of([Holds(value)])))


def test_another_process_says_the_same():
    """For any hash seed, and with every object at another address."""
    script = "import said_operations as said, json; print(json.dumps(said.everything()))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "PYTHONHASHSEED": "1",
            "PYTHONPATH": f"{Path(__file__).parent}:{Path(lk.__file__).parents[1]}",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == everything()
    assert " at 0x" not in done.stdout
