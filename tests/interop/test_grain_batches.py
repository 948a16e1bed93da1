"""The batches of Grain's DataLoader: for any pipeline, layout, shard and number of our workers."""

import json
import os
import random
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from grain_pipelines import WORDS, legacy, loader_of, operations_of, spelled, story

import loaderkit.interop.grain as grain
from loaderkit.interop.grain._in_order import InOrderRun
from loaderkit.interop.grain._tree import map_structure

HERE = Path(__file__).parent
LIMIT = 25


def some_config(rng: random.Random, words: int = 5) -> dict:
    shards = rng.randint(1, 3)
    config = {
        "records": rng.randint(1, 40),
        "shard": [0, 1, False] if shards == 1 else [rng.randrange(shards), shards, rng.random() < 0.5],
        "shuffle": rng.random() < 0.4,
        "epochs": rng.choice([1, 1, 2, 3]),
        "seed": rng.choice([3, 7, 2**32 - 1]),
        "words": [rng.choice(WORDS) for _ in range(rng.randint(0, words))],
        "workers": 0,
    }
    if not config["shuffle"] and rng.random() < 0.3:
        config["seed"] = None
    return config


def told(iterator) -> list[str]:
    return [element for _, element in story(iterator, LIMIT)]


def in_order(loader, layout: int) -> list[str]:
    """What the operations give record by record, for the engine to be compared with."""
    run = InOrderRun(
        source=loader._data_source,
        sampler=loader._sampler,
        steps=loader._steps,
        layout=layout,
        indices_from=loader._plan(layout).round_robin.indices_from,
    )
    elements = []
    for _ in range(LIMIT):
        try:
            elements.append(spelled(run.take().value))
        except StopIteration:
            return [*elements, "end"]
        except Exception:  # noqa: BLE001 - what the operations raise on what they are given
            return [*elements, "error"]
    return elements


@pytest.mark.slow
def test_the_engine_gives_what_the_operations_give_in_order(nightly):
    """Any pipeline in layouts of 0 to 3 workers, without a worker: the plainest way to run it says the same."""
    rng = random.Random(None if nightly else 0)
    for _ in range(3000 if nightly else 50):
        config = some_config(rng)
        loader = loader_of(grain, config)
        layout = rng.randint(0, 3)
        run = iter(loader_of(grain, config, worker_layout=layout))
        assert told(run) == in_order(loader, layout), (config, layout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["random", "batch3", "half"], ["sieve", "batch2", "plus", "batch2"], ["fan"]]
)
def test_workers_change_nothing(words, nightly):
    """The batches of a layout, made by two processes; by day of one layout."""
    config = {**some_config(random.Random(3)), "records": 30, "words": words, "seed": 7}
    layouts = (0, 2, 3)
    if not nightly:
        layouts = layouts[len(words) % 3 :][:1]
    for layout in layouts:
        expected = told(iter(loader_of(grain, config, worker_layout=layout)))
        loader = loader_of(grain, {**config, "workers": 2}, worker_layout=layout)
        assert told(iter(loader)) == expected
        loader.close()


@pytest.mark.slow
def test_any_place_can_be_gone_on_from(nightly):
    """Every state of any pipeline gives the rest, in a loader with another worker_count."""
    rng = random.Random(None if nightly else 1)
    for _ in range(1000 if nightly else 16):
        config = some_config(rng)
        layout = rng.randint(0, 3)
        whole = story(iter(loader_of(grain, config, worker_layout=layout)), LIMIT)
        other = loader_of(grain, config)  # its own layout is 0: a state brings its own
        for place in range(0, len(whole), 2):
            again = iter(other)
            again.set_state(whole[place][0].encode())
            assert again.get_state().decode() == whole[place][0]
            assert told(again)[: len(whole) - place] == [element for _, element in whole[place:]], (
                config,
                place,
            )


# --- the installed package -------------------------------------------------------------------------------------------


def states_are_compared(config: dict) -> bool:
    """Whether the texts must be equal, too: where records are dropped at the end, two texts say the same place."""
    batches = [word for word in config["words"] if word.startswith(("batch", "sums"))]
    return not {"sieve", "fan"} & set(config["words"]) and len(batches) < 2


def same_stories(ours, theirs, config) -> None:
    assert [element for _, element in ours] == [element for _, element in theirs], config
    if states_are_compared(config):
        assert [state for state, _ in ours] == [state for state, _ in theirs], config


def goes_on(loader, theirs, config, step: int) -> None:
    for place in range(0, len(theirs), step):
        iterator = iter(loader)
        iterator.set_state(theirs[place][0].encode())
        expected = [element for _, element in theirs[place:]]
        assert told(iterator)[: len(expected)] == expected, (config, place)


@pytest.mark.slow
def test_any_pipeline_is_grains(installed_grain, nightly):
    """In Grain's own process: elements bit for bit, states letter by letter, and its states restore here."""
    rng = random.Random(None if nightly else 2)
    for _ in range(2000 if nightly else 25):
        config = some_config(rng)
        theirs = story(iter(loader_of(installed_grain, config)), LIMIT)
        loader = loader_of(grain, config)
        same_stories(story(iter(loader), LIMIT), theirs, config)
        goes_on(loader, theirs, config, 3)


# Grain takes seconds to start a process, so the test command runs the first one, and all run at night.
# Without a Batch behind it what the workers send shows the order of its keys.
WITH_WORKERS = [
    {
        "workers": 2,
        "words": ["plus", "sieve", "batch2", "random", "nested"],
        "records": 29,
        "shard": [1, 2, False],
    },
    {"workers": 2, "words": ["random", "batch3"], "records": 23, "shard": [0, 1, False]},
    {"workers": 3, "words": ["tree", "random", "batch2drop"], "records": 31, "shard": [2, 3, True]},
    {"workers": 1, "words": ["random", "batch3", "half"], "records": 17, "shard": [0, 1, False]},
    {"workers": 2, "words": ["sieve", "fan", "batch3"], "records": 26, "shard": [0, 1, False]},
]
BY_DAY = 1


@pytest.fixture(scope="module")
def stories_of_workers(installed_grain, nightly):
    """What the installed Grain tells with worker processes."""
    configs = [
        {"shuffle": True, "epochs": 2, "seed": 11, **config}
        for config in WITH_WORKERS[: None if nightly else BY_DAY]
    ]
    answer = subprocess.run(
        [sys.executable, str(HERE / "grain_child.py")],
        input=json.dumps(configs),
        env={**os.environ, "PYTHONPATH": str(HERE), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert answer.returncode == 0, answer.stderr
    return list(zip(configs, json.loads(answer.stdout.splitlines()[-1]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(WITH_WORKERS)))
def test_grains_workers_are_a_layout(stories_of_workers, number):
    """One to three processes of Grain, shards, Filter, FlatMap, RandomMap behind Batch: the same without any."""
    if number >= len(stories_of_workers):
        pytest.skip("runs at night")
    config, theirs = stories_of_workers[number]
    theirs = [tuple(pair) for pair in theirs]
    loader = loader_of(grain, {**config, "workers": 0}, worker_layout=config["workers"])
    same_stories(story(iter(loader), 40), theirs, config)
    goes_on(loader_of(grain, {**config, "workers": 0}), theirs[-LIMIT:], config, 4)


def test_classes_of_the_installed_grain_are_taken_as_they_are(installed_grain):
    """A library that derives from Grain's own bases works here unchanged, samplers and shards included."""
    operations = operations_of(installed_grain, ("plus", "random", "sieve", "batch3"))
    arguments = {
        "data_source": installed_grain.RangeDataSource(0, 20, 1),
        "sampler": installed_grain.IndexSampler(20, installed_grain.ShardOptions(1, 2), True, 1, 3),
        "operations": operations,
    }
    ours, theirs = grain.DataLoader(**arguments), installed_grain.DataLoader(**arguments)
    assert story(iter(ours), LIMIT) == story(iter(theirs), LIMIT)


def test_grains_packing_operation_is_taken_as_it_is(installed_grain):
    """Of grain.experimental's names the one operation that isn't here: the installed package's runs among ours."""
    with pytest.raises(AttributeError, match="from the installed grain"):
        _ = grain.experimental.PackAndBatchOperation

    def batches(g) -> str:
        packing = installed_grain.experimental.PackAndBatchOperation(length_struct={"x": 6}, batch_size=2)
        source = [{"x": np.arange(1 + number % 4)} for number in range(12)]
        loader = g.DataLoader(data_source=source, sampler=g.SequentialSampler(12), operations=[packing])
        return "".join(map(spelled, loader))

    assert batches(grain) == batches(installed_grain)


# --- the order of keys ---------------------------------------------------------------------------------------------


def sums(rows):
    return {"z": sum(rows), "a": rows}


def pairs(records):
    for record in records:
        yield grain.Record(record.metadata, {"z": record.data, "a": {"d": 1, "c": 2}})


AS_SENT = {
    "source": ([{"z": 1, "a": 2}], [], "{'a': 2, 'z': 1}"),
    "batch_fn": ([3, 4], [grain.Batch(2, batch_fn=sums)], "{'a': [3, 4], 'z': 7}"),
    "BatchOperation": ([3, 4], [legacy(grain.BatchOperation, 2, batch_fn=sums)], "{'a': [3, 4], 'z': 7}"),
    "records": ([3], [pairs], "{'a': {'c': 2, 'd': 1}, 'z': 3}"),
    "OrderedDict": ([OrderedDict(z=1, a=2)], [], repr(OrderedDict(z=1, a=2))),
}


@pytest.mark.parametrize("name", AS_SENT)
def test_keys_come_in_order_where_workers_of_grain_send_them(name):
    """worker_layout of 1 and more: sorted, whatever made the element last; in layout 0 as they were made."""
    source, operations, expected = AS_SENT[name]

    def first(layout: int) -> str:
        loader = grain.DataLoader(
            data_source=source,
            sampler=grain.SequentialSampler(len(source)),
            operations=operations,
            worker_layout=layout,
        )
        return repr(next(iter(loader)))

    assert first(1) == expected
    assert eval(first(0), {"OrderedDict": OrderedDict}) == eval(expected, {"OrderedDict": OrderedDict})
    if name != "OrderedDict":
        assert first(0).startswith("{'z'")


def test_the_order_of_keys_is_jaxs():
    """Grain sends trees of JAX: ours without it, in a program of its own, are put together alike."""
    tree_util = pytest.importorskip("jax.tree_util", reason="needs the jax package")
    code = (
        "import sys; from grain_pipelines import operations_of, spelled; import loaderkit.interop.grain as grain; "
        "from loaderkit.interop.grain._tree import as_sent; (op,) = operations_of(grain, ('nested',)); "
        "assert 'jax' not in sys.modules; print(spelled(as_sent(op.map(3))))"
    )
    paths = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    (operation,) = operations_of(grain, ("nested",))
    assert ran.stdout.strip() == spelled(tree_util.tree_map(lambda leaf: leaf, operation.map(3)))


# --- leaves ----------------------------------------------------------------------------------------------------------

LEAVES = {
    "bytes": [b"a", b"bcd\0", b"", b"x"],
    "text": ["a", "bcd", "", "x"],
    "numbers": [1, 2.5, np.float32(3), True],
    "arrays": [np.arange(3, dtype=np.int16), np.arange(3), np.ones(3), np.zeros(3, np.float32)],
    "nested": [{"z": (1, [b"q"]), "a": None}, {"a": None, "z": (2, [b"rs"])}] * 2,
    "objects": [{"o": {1}}, {"o": {2}}, {"o": {3}}, {"o": {4}}],
    "differing": [{"a": 1}, {"b": 2}, {"a": 1}, {"a": 3}],
    "shapes": [np.zeros(2), np.zeros(3), np.zeros(2), np.zeros(2)],
}


@pytest.mark.parametrize("name", LEAVES)
def test_every_kind_of_leaf_is_batched_as_grain_does(installed_grain, name):
    """Bytes, text, mixed numbers, objects, structures that differ: the same arrays, or the same kind of error."""

    def batches(g):
        sampler = g.SequentialSampler(4)
        loader = g.DataLoader(data_source=LEAVES[name], sampler=sampler, operations=[g.Batch(3)])
        try:
            return [spelled_deeply(batch) for batch in loader]
        except ValueError:
            return "ValueError"

    assert batches(grain) == batches(installed_grain)


def spelled_deeply(value) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(map(spelled_deeply, value)) + ")"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{spelled_deeply(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spelled_deeply, value)) + "]"
    if isinstance(value, np.ndarray) and value.dtype == object:
        return repr(value.tolist())
    return spelled(value)


@pytest.mark.parametrize("second", [{"a": 3, "b": 4}, {"b": 3}, [3]])
def test_trees_of_another_structure_are_refused_without_jax_too(monkeypatch, second):
    """More keys, other keys, another kind of node."""
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    with pytest.raises(ValueError, match="in one place of all trees"):
        map_structure(lambda x, y: x + y, {"a": 1}, second)
