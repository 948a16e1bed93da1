"""What real Grain gave for sixteen pipelines, kept as files: batches and states, also where Grain isn't installed."""

import json

import pytest
from grain_golden import CONFIGS, FILE, digest, told_by
from grain_pipelines import loader_of

import loaderkit.interop.grain as grain

GOLDEN = json.loads(FILE.read_text())["pipelines"]
IDS = [f"{'-'.join(it['config']['words'])}-{it['config']['workers']}" for it in GOLDEN]


def loader_for(config: dict, workers: int, **how):
    return loader_of(grain, {"shuffle": True, **config, "workers": workers}, **how)


def digests_of(iterator) -> list[str]:
    return [digest(element) for element in iterator]


def one_text_a_place(config: dict) -> bool:
    """Whether a place has one text: where records may be dropped behind it, two texts say the same place."""
    batches = [word for word in config["words"] if word.startswith(("batch", "sums"))]
    return not {"sieve", "fan"} & set(config["words"]) and len(batches) < 2


@pytest.mark.parametrize("golden", GOLDEN, ids=IDS)
def test_batches_and_states_are_those_of_the_files(golden):
    """Every element in the layout of Grain's workers, and the states letter by letter."""
    config = golden["config"]
    iterator = iter(loader_for(config, 0, worker_layout=config["workers"]))
    for place, expected in enumerate(golden["sha256"]):
        if str(place) in golden["states"] and one_text_a_place(config):
            assert iterator.get_state().decode() == json.dumps(golden["states"][str(place)], indent=4)
        assert digest(next(iterator)) == expected
    assert next(iterator, None) is None


@pytest.mark.parametrize("golden", GOLDEN[:-1], ids=IDS[:-1])
def test_every_state_of_the_files_goes_on(golden):
    """In a loader of no layout: a state brings its own. Of the last pipeline a restore loses what it holds back."""
    loader = loader_for(golden["config"], 0)
    for place, state in golden["states"].items():
        iterator = iter(loader)
        iterator.set_state(json.dumps(state, indent=4).encode())
        assert digests_of(iterator) == golden["sha256"][int(place) :]


def test_workers_of_ours_go_on_from_a_state():
    """Two processes take over from three of Grain's."""
    golden = GOLDEN[3]
    assert golden["config"]["workers"] == 3
    loader = loader_for(golden["config"], 2)
    iterator = iter(loader)
    iterator.set_state(json.dumps(golden["states"]["4"], indent=4).encode())
    assert digests_of(iterator) == golden["sha256"][4:]
    loader.close()


def test_the_files_are_of_these_pipelines():
    """Who changes a pipeline makes the files again."""
    assert [it["config"] for it in GOLDEN] == CONFIGS


def test_the_installed_grain_gives_the_files(installed_grain):
    """Of pipelines in its own process; `grain_golden.py` makes all of them."""
    for golden in GOLDEN:
        if golden["config"]["workers"] == 0:
            assert told_by(installed_grain, golden["config"]) == golden
