"""Operations that changed since a state was saved: told with both sides, and never refused for it."""

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from internals import variant_of
from refusals import loader_of

import loaderkit as lk
from loaderkit.transforms import image


@dataclass(frozen=True)
class Crop(lk.RandomMap):
    size: int
    cache: str = field(default="", compare=False)

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return element


@dataclass(frozen=True)
class Long(lk.Filter):
    least: int

    def filter(self, element: Any) -> bool:
        return element >= self.least


def scaled(element: Any, by: float) -> Any:
    return element * by


def flip(element: Any, rng: np.random.Generator) -> Any:
    return element


HALF = partial(scaled, by=0.5)
CROP = image.DecodeRandomResizedCrop(64)

# operations then, operations now, what is said
CHANGED: dict[str, tuple[list[Any], list[Any], str]] = {
    "a crop": (
        [HALF, Crop(64)],
        [HALF, Crop(96)],
        "operations[1] RandomMap Crop.size: saved 64, this loader 96",
    ),
    "a crop of ours": (
        [CROP],
        [replace(CROP, size=96)],
        "operations[0] RandomMap DecodeRandomResizedCrop.size: saved 64, this loader 96",
    ),
    "a default of ours": (
        [CROP],
        [replace(CROP, reduced=False)],
        "operations[0] RandomMap DecodeRandomResizedCrop.reduced: saved nothing, this loader false",
    ),
    "a partial": (
        [HALF],
        [partial(scaled, by=2)],
        "operations[0] Map scaled.by: saved 0.5, this loader 2",
    ),
    "a filter": ([Long(0)], [Long(1)], "operations[0] Filter Long.least: saved 0, this loader 1"),
    "an added RandomMap": (
        [HALF],
        [HALF, lk.RandomMap(flip)],
        "operations[1]: saved nothing, this loader RandomMap flip",
    ),
    "an added Map": ([Crop(64)], [HALF, Crop(64)], 'saved nothing, this loader Map scaled {"by":0.5}'),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_changed_is_told_and_the_state_is_taken(name):
    """Once, with both sides; `allow` silences it; what is saved then says what is."""
    before, after, says = CHANGED[name]
    saved = iter(loader_of(*before, lk.Batch(2))).get_state()
    it = iter(loader_of(*after, lk.Batch(2)))
    with pytest.warns(UserWarning, match='allow={"parameters"}') as told:
        it.set_state(saved)
    (warning,) = told
    assert says in str(warning.message)
    it.set_state(saved, allow={"parameters"})
    it.set_state(it.get_state())


def test_what_is_no_part_of_an_operation_is_not_told():
    """A field with `compare=False`, another object of the same parameters, another size of the last Batch."""
    saved = iter(loader_of(HALF, Crop(64, cache="/a"), lk.Batch(2))).get_state()
    it = iter(loader_of(partial(scaled, by=0.5), Crop(64, cache="/b"), lk.Batch(4)))
    it.set_state(saved, allow={"global_batch_size"})


def test_a_state_from_before_operations_were_named_restores_in_silence():
    """As it did: of format 1, with other parameters now."""
    document = json.loads(iter(loader_of(Crop(64), lk.Batch(2))).get_state())
    del document["parameters"], document["numerics"], document["digest"]
    it = iter(loader_of(Crop(96), lk.Batch(2)))
    with pytest.warns(UserWarning, match="no digest"):
        it.set_state(json.dumps(document | {"format_version": 1}).encode())
    assert json.loads(it.get_state())["format_version"] == 3


def test_hosts_may_have_parameters_of_their_own():
    """Documents of several processes are one state all the same, and this process's own is the one that is compared."""
    loaders = [
        loader_of(
            Crop(size),
            lk.Filter(bool),
            lk.Batch(2),
            sampler=lk.IndexSampler(10, seed=0),
            shard_options=lk.ShardOptions(host, 2),
            logical_streams=2,
        )
        for host, size in enumerate((64, 96))
    ]
    iters = [iter(loader) for loader in loaders]
    first, second = (it.get_state() for it in iters)
    iters[0].set_state([first, second])
    iters[1].set_state([second, first])
    with pytest.warns(UserWarning, match=r"Crop.size: saved 64, this loader 96"):
        iters[1].set_state([first, second])


def test_a_state_stays_small_and_asks_the_operations_once():
    """A few kilobytes, whatever the operations hold; each state of a loader says the same, made once."""
    table = [f"key {number}" for number in range(300)]
    operations = [partial(scaled, by=[number, *table]) for number in range(100)]
    loader = loader_of(*operations, lk.Batch(2))
    it, other = iter(loader), iter(loader)
    assert it._plan.parameters is other._plan.parameters
    assert len(it.get_state()) < 8000
    fewer = iter(loader_of(*operations[1:], lk.Batch(2)))
    with pytest.warns(UserWarning, match="the operations changed"):
        fewer.set_state(it.get_state())


def test_a_variant_of_a_loader_saves_the_names_of_its_own_operations() -> None:
    """Also after the loader has saved those of its own."""

    def saved(loader: lk.DataLoader[Any]) -> Any:
        return json.loads(iter(loader).get_state())["parameters"]

    loader = lk.load(range(4), operations=[abs])
    before = saved(loader)
    assert [each["name"] for each in saved(variant_of(loader, operations=(lk.Map(float),)))] == ["float"]
    assert saved(loader) == saved(variant_of(loader, worker_count=0)) == before
