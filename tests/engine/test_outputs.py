"""Outputs are counted in uses, and released once: when the last is over or the stream is closed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.outputs import Outputs
from loaderkit._engine.task import Slot

SLOT = Slot(0, 4096, 0, 4 << 20)


@given(st.lists(st.integers(0, 4), max_size=6), st.data())
def test_an_output_is_released_with_its_last_use_and_only_then(uses, data):
    outputs = Outputs()
    left = {}
    released = []
    for task, count in enumerate(uses):
        outputs.arrived(task, SLOT, uses=count)
        if count:
            left[task] = count
        else:
            released.append(task)
    while left:
        task = data.draw(st.sampled_from(sorted(left)))
        outputs.drop(task)
        left[task] -= 1
        if not left[task]:
            del left[task]
            released.append(task)
        assert len(outputs) == len(left)
    assert outputs.take_released() == [(task, SLOT) for task in released]
    assert outputs.take_released() == []


def test_a_use_more_than_there_are_is_an_error():
    outputs = Outputs()
    outputs.arrived(1, None, uses=1)
    outputs.drop(1)
    with pytest.raises(KeyError):
        outputs.drop(1)


def test_a_closed_stream_lets_go_of_an_output_once_whatever_was_used_of_it():
    outputs = Outputs()
    outputs.arrived(1, SLOT, uses=5)
    assert outputs.slot(1) == SLOT
    outputs.drop(1)
    outputs.forget(1)
    outputs.forget(1)
    assert outputs.take_released() == [(1, SLOT)]
    assert len(outputs) == 0
