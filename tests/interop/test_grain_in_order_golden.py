"""What real Grain gave for chains of steps in order and for trainers' input pipelines, where it isn't installed too."""

import json

import pytest
from grain_in_order import as_json, built, digest, steps_in, told
from grain_in_order_golden import FILE, MOST

import loaderkit.interop.grain as grain

GOLDEN = json.loads(FILE.read_text())["chains"]


def closed(iterator, limit=MOST):
    found = told(iterator, limit)
    iterator.close()
    return found


def data_set(chain):
    """The chain's data set; what worker processes of Grain gave is made in this process."""
    step, arguments, before = chain
    inline = {"worker_count": 0} if "num_workers" in arguments else {}
    return built(grain, [step, {**arguments, **inline}, before])


@pytest.mark.parametrize("golden", GOLDEN.values(), ids=GOLDEN)
def test_elements_and_states_are_those_of_the_file(golden):
    """Every element, and the states."""
    elements, states = closed(iter(data_set(golden["chain"])))
    assert [len(elements), digest(elements)] == [golden["elements"], golden["sha256"]]
    if "flat_map" not in steps_in(golden["chain"]):
        assert [as_json(states[place]) for place, *_ in golden["states"]] == [
            each[1] for each in golden["states"]
        ]


@pytest.mark.parametrize("golden", GOLDEN.values(), ids=GOLDEN)
def test_every_state_of_the_file_goes_on(golden):
    """A checkpoint of Grain's is taken over at its element."""
    for _, state, behind in golden["states"]:
        iterator = iter(data_set(golden["chain"]))
        iterator.set_state(state)
        assert digest(closed(iterator)[0]) == behind


@pytest.mark.slow
@pytest.mark.parametrize("name", ["maxtext, 2 workers", "gemma, 2 workers", "kauldron, 2 workers"])
def test_worker_processes_give_the_same(name, nightly):
    """By day of one pipeline."""
    if not nightly and name != "gemma, 2 workers":
        pytest.skip("runs at night")
    golden = GOLDEN[name]
    _, state, behind = golden["states"][1]
    iterator = iter(built(grain, golden["chain"]))
    iterator.set_state(state)
    assert digest(closed(iterator)[0]) == behind
