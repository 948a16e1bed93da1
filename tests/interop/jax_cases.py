"""What one process of several does, started by test_jax_processes: all cases in a row, each answer a line of JSON.

python jax_cases.py INDEX COUNT PORT
"""

import itertools
import json
import os
import sys
import traceback
import warnings
from functools import partial

import jax
import jax_placement
import numpy as np
from jax.experimental.multihost_utils import sync_global_devices
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import loaderkit as lk
from loaderkit._order.rng import child_of
from loaderkit._plan.state import identity
from loaderkit._plan.state.document import STREAM_VERSION
from loaderkit.interop.jax.keys import record_key

ROWS = 16
SHAPES = [(8,), (2, 4), (4, 2), (8, 1), (2, 2, 2)]
SPECS = [
    P("a"),
    P("a", "b"),
    P(("a", "b")),
    P(("b", "a")),
    P("b"),
    P(None, "b"),
    P("b", None, "a"),
    P(("a", "c"), "b"),
    P(None, None, "a"),
    P(),
]


def decode(key):
    return {
        "x": np.arange(64, dtype=np.float32).reshape(8, 8) + 100 * key,
        "key": key,
        "name": f"record {key}",
    }


def loader(seed=0, operations=None, records=640, **how):
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, records, 1),
        sampler=lk.IndexSampler(records, shuffle=True, seed=seed, num_epochs=None),
        operations=[decode, *(operations or [lk.Batch(global_batch_size=ROWS)])],
        **how,
    )


def error_of(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return "no error"


def rows(spec):
    return P(*spec[:1])


def mesh_cases(rng, count):
    """Every addressable shard of every leaf, beside the global batch that one loader without shards makes."""
    cases = [(shape, spec) for shape in SHAPES for spec in SPECS if axes_of(spec) <= len(shape)]
    wrong, apart, shared = [], 0, 0
    for case in rng.choice(len(cases), count, replace=False):
        shape, spec = cases[case]
        mesh = Mesh(rng.permutation(jax.devices()).reshape(shape), ("a", "b", "c")[: len(shape)])
        sharding = NamedSharding(mesh, spec)
        shard_options = lk.ShardBySharding(mesh, spec)
        changing = bool(rng.integers(0, 2))
        how = {"logical_streams": 8}
        if changing:
            how["operations"] = [lk.Filter(lambda e: e["key"] % 3 > 0), lk.Batch(global_batch_size=ROWS)]
        with (
            iter(loader(**how)) as whole,
            lk.device_iterator(
                iter(loader(**how, shard_options=shard_options)),
                {"x": sharding, "key": NamedSharding(mesh, rows(spec))},
                prefetch=int(rng.integers(1, 4)),
            ) as batches,
        ):
            shard = shard_options.resolve()
            apart += shard.blocks != tuple(range(shard.blocks[0], shard.blocks[-1] + 1))
            shared += len(shard.blocks) * jax.process_count() > shard.shard_count
            for expected, batch in itertools.islice(zip(whole, batches, strict=False), 3):
                wrong += [f"{shape} {spec} {place}" for place in differing(batch, expected, shard_options)]
    return {"cases": count, "wrong": wrong, "apart": apart, "shared": shared}


def differing(batch, expected, shard_options):
    shard = shard_options.resolve()
    for name in ("x", "key"):
        assert batch[name].shape == expected[name].shape
        for piece in batch[name].addressable_shards:
            if not np.array_equal(np.asarray(piece.data), expected[name][piece.index]):
                yield f"{name} {piece.index}"
    parts = np.split(expected["name"], shard.shard_count)
    if batch["name"].tolist() != np.concatenate([parts[block] for block in shard.blocks]).tolist():
        yield "name"


def axes_of(spec):
    named = [axis for entry in spec if entry for axis in (entry if isinstance(entry, tuple) else (entry,))]
    return max((("abc".index(axis) + 1 for axis in named)), default=1)


def key_cases(rng):
    """Keys of records, on each device, beside those made one by one from seed, index and child."""
    mesh = Mesh(rng.permutation(jax.devices()).reshape(4, 2), ("data", "model"))
    sharding = NamedSharding(mesh, P("data"))
    seed = 2**40 + 3
    plain = loader(seed, shard_options=lk.ShardBySharding(sharding))
    wrong = 0
    with lk.device_iterator(iter(plain), sharding, keys="rng") as batches:
        batches.seek(5)
        batch = next(batches)
        expected = [record_key(seed, 5 * ROWS + row) for row in range(ROWS)]
        wrong += mismatches(batch["rng"], expected)

    class Twice(lk.FlatMap):
        max_fan_out = 2

        def flat_map(self, element):
            return [{**element, "child": 0}, {**element, "child": 1}]

    def placed(index, key):
        return {**decode(key), "index": index}

    both = {
        "data_source": lk.RangeDataSource(0, 640, 1),
        "sampler": lk.IndexSampler(640, shuffle=True, seed=seed, num_epochs=None),
        "operations": [lk.MapWithIndex(placed), Twice(), lk.Batch(global_batch_size=ROWS)],
        "logical_streams": 4,
    }
    with iter(lk.DataLoader(**both)) as it:
        whole = list(itertools.islice(it, 3))[-1]
    both = lk.DataLoader(**both, shard_options=lk.ShardBySharding(sharding))
    with lk.device_iterator(iter(both), sharding, keys="rng") as batches:
        batch = list(itertools.islice(batches, 3))[-1]
        pairs = zip(whole["index"].tolist(), whole["child"].tolist(), strict=True)
        expected = [record_key(seed, index, child_of((k,))) for index, k in pairs]
        wrong += mismatches(batch["rng"], expected)
    return wrong


def mismatches(keys, expected):
    return sum(
        not np.array_equal(
            jax.random.key_data(shard.data),
            np.stack([jax.random.key_data(key) for key in expected[shard.index[0]]]),
        )
        for shard in keys.addressable_shards
    )


def order_cases():
    """Shards in the order of processes, on meshes that fit them and that don't."""
    devices = np.array(jax.devices())

    def wrap(order, shape, spec):
        mesh = Mesh(devices[order].reshape(shape), ("data", "model")[: len(shape)])
        it = iter(loader(shard_options=lk.ShardByJaxProcess()))
        with lk.device_iterator(it, NamedSharding(mesh, spec)) as batches:
            next(batches)

    straight = np.arange(8)
    columns = straight.reshape(-1, 4).T.reshape(-1)  # the processes along the second axis
    return {
        "in order": error_of(wrap, straight, (8,), P("data")),
        "reversed": error_of(wrap, straight[::-1], (8,), P("data")),
        "same rows": error_of(wrap, columns, (4, 2), P("data")),
    }


NUMPY = np.__version__


def keep(element, rng):
    return element


def scale(element, by):
    return element


def agreement_cases(process):
    """Loaders that differ in one thing on the last process."""
    last = process == jax.process_count() - 1
    sharding = NamedSharding(Mesh(jax.devices(), "data"), P("data"))
    both = {"shard_options": lk.ShardBySharding(sharding)}
    batch = lk.Batch(global_batch_size=32 if last else 16)
    more = [lk.Map(len)] if last else []
    answers = {
        "seed": error_of(iter, loader(seed=int(last), **both)),
        "batch": error_of(iter, loader(operations=[batch], **both)),
        "operations": error_of(iter, loader(operations=[lk.Batch(global_batch_size=16), *more], **both)),
        "data": error_of(iter, loader(records=641 if last else 640, **both)),
        "processes": error_of(iter, loader(seed=int(last), shard_options=lk.ShardByJaxProcess())),
        "same": error_of(iter, loader(**both)),
    }
    if last:  # as if another version were installed here
        np.__version__, identity.STREAM_VERSION = "1.99.0", 99
    answers["versions"] = error_of(iter, loader(operations=[lk.RandomMap(keep), batch], **both))
    if last:
        np.__version__, identity.STREAM_VERSION = NUMPY, STREAM_VERSION
    scaled = [lk.Map(partial(scale, by=1 + last)), lk.Batch(global_batch_size=16)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers["parameters"] = error_of(iter, loader(operations=scaled, **both))
    if last:  # in the middle of the others' rounds
        answers["alone"] = error_of(iter, loader(agree=False, **both))
    answers["same again"] = error_of(iter, loader(**both))
    return answers


def absence(process):
    """A loader that the last process doesn't iterate; nothing can be agreed on after that."""
    sharding = NamedSharding(Mesh(jax.devices(), "data"), P("data"))
    if process < jax.process_count() - 1:
        return error_of(iter, loader(shard_options=lk.ShardBySharding(sharding, timeout=0.5)))
    return "absent"


class Ragged(lk.Map):
    """Behind the Batch: from a step on, another width on the last process."""

    def __init__(self, first_step, process):
        self.first_step, self.wide, self.step = first_step, process == jax.process_count() - 1, 0

    def map(self, batch):
        self.step += 1
        width = 5 if self.wide and self.step > self.first_step else 4
        return {"x": np.zeros((len(batch["key"]), width), np.float32)}


def ending(rng):
    """A finite, filtered epoch on a random mesh, padded: the steps of this process, and the real records among them."""
    mesh = Mesh(rng.permutation(jax.devices()).reshape(4, 2), ("data", "model"))
    sharding = NamedSharding(mesh, P("data"))
    finite = lk.DataLoader(
        data_source=lk.RangeDataSource(0, 150, 1),
        sampler=lk.IndexSampler(150, shuffle=True, seed=2, num_epochs=1),
        operations=[
            decode,
            lk.Filter(lambda e: e["key"] % 7 > 2),
            lk.Batch(global_batch_size=ROWS, remainder="pad"),
        ],
        shard_options=lk.ShardBySharding(sharding),
        logical_streams=8,
    )
    records = []
    with lk.device_iterator(iter(finite), sharding, keys="rng") as batches:
        for batch in batches:
            parts = zip(batch["key"].addressable_shards, batch["valid"].addressable_shards, strict=True)
            found = {
                keys.index[0].start: keys.data[valid.data].tolist() for keys, valid in parts
            }  # replicas once
            records += [key for part in found.values() for key in part]
        return {"steps": batches.step, "records": sorted(records)}


def leaf_cases(process):
    """Leaves whose shape differs between processes, from the start and later."""
    sharding = NamedSharding(Mesh(jax.devices(), "data"), P("data"))
    with lk.device_iterator(
        iter(loader(shard_options=lk.ShardBySharding(sharding))),
        {"x": sharding, "key": sharding},
        prefetch=2 + (process == jax.process_count() - 1),
    ) as batches:
        answers = {"prefetch": error_of(next, batches)}
    for name, first_step, timeout in (("from the start", 0, 60.0), ("later", 2, 1.0)):
        operations = [lk.Batch(global_batch_size=16), Ragged(first_step, process)]
        shard_options = lk.ShardBySharding(sharding, timeout=timeout)
        it = iter(loader(operations=operations, shard_options=shard_options))
        with lk.device_iterator(it, sharding, prefetch=1) as batches:
            received = 0

            def step(batches=batches):
                nonlocal received
                for batch in itertools.islice(batches, 4):
                    received += 1
                    assert batch["x"].shape == (16, 4)

            answers[name] = [error_of(step), received]
    return answers


def place_cases(process):
    """Processes at other positions than the last one, from the start and moved there; those that one is a step behind;
    and one that is moved alone.
    """
    last = process == jax.process_count() - 1
    sharding = NamedSharding(Mesh(jax.devices(), "data"), P("data"))
    both = {"shard_options": lk.ShardBySharding(sharding, timeout=60.0), "logical_streams": 8}
    changing = [lk.Filter(lambda e: e["key"] % 3 > 0), lk.Batch(global_batch_size=ROWS)]
    whole = jax.jit(lambda key: key, out_shardings=NamedSharding(sharding.mesh, P()))
    answers = {}
    for name, operations in (("rows stay", None), ("rows change", changing)):
        with iter(loader(operations=operations, logical_streams=8)) as it:
            keys = [batch["key"].tolist() for batch in itertools.islice(it, 9)]
        with iter(loader(operations=operations, **both)) as it:
            starts = it.get_state()
            for _ in range(5):
                next(it)
            saved = it.get_state()
        it = iter(loader(operations=operations, **both))
        with lk.device_iterator(it, {"x": sharding, "key": sharding}) as batches:

            def right(step, batches=batches, keys=keys):
                return whole(next(batches)["key"]).tolist() == keys[step]

            if not last:
                batches.set_state(saved)
            told = [error_of(next, batches), batches.step]
            if last:  # the others ask again
                batches.set_state(saved)
            told += [right(5)]
            batches.set_state(saved if last else starts)
            told += [error_of(next, batches)]
            batches.set_state(saved)
            told += [right(5)]
            here = batches.get_state()
            if not last:  # as if next() had failed on the last one
                next(batches)
            batches.set_state(here)  # where the last one stands
            told += [right(6)]
            here = batches.get_state()
            for alone in (0, jax.process_count() - 1):
                heard = None
                if process == alone:  # to where it stands, and the others take no batch
                    batches._checks._store.timeout = 0.5
                    batches.set_state(here)
                    heard = [error_of(next, batches), batches.step]
                    batches._checks._store.timeout = 60.0
                sync_global_devices(f"{name}: {alone} was moved alone")
                batches.set_state(saved if process == alone else here)
                apart = error_of(next, batches)  # what it said alone is no answer
                batches.set_state(here)
                told += [(heard, apart, right(7))]
                batches.set_state(here)
            answers[name] = [*told, right(7), right(8)]
    return answers


def end_cases():
    """A finite, filtered evaluation: what each process counts of the real rows, step by step, by collectives."""
    sharding = NamedSharding(Mesh(jax.devices(), "data"), P("data"))
    count = jax.jit(lambda valid, key: (valid.sum(), (valid * key).sum()))
    answers = []
    for records in (40, 97):
        evaluation = lk.DataLoader(
            data_source=lk.RangeDataSource(0, records, 1),
            sampler=lk.IndexSampler(records, num_epochs=1),
            operations=[
                lambda key: {"key": key},
                # The last streams are dry long before the first.
                lk.Filter(lambda element: element["key"] % 16 < 3 or element["key"] == 39),
                lk.Batch(global_batch_size=16, remainder="pad"),
            ],
            shard_options=lk.ShardBySharding(sharding, timeout=60.0),
            logical_streams=16,
        )
        with lk.device_iterator(iter(evaluation), sharding) as batches:
            steps = [[int(n) for n in count(batch["valid"], batch["key"])] for batch in batches]
        answers.append(steps)
    return answers


def main():
    index, count, port = map(int, sys.argv[1:])
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=count, process_id=index)
    rng = np.random.default_rng(count)  # the same draws in every process
    for name, answer in (
        ("meshes", lambda: mesh_cases(rng, 14)),
        ("keys", lambda: key_cases(rng)),
        ("orders", order_cases),
        ("placement", lambda: jax_placement.placement_cases(jax_placement.draws(60))),
        ("two shardings", lambda: jax_placement.two_shardings(rng, loader, jax_placement.draws(8))),
        ("own rows", lambda: jax_placement.own_rows(loader, error_of)),
        ("by number", lambda: jax_placement.shards_by_number(loader, error_of)),
        ("ending", lambda: ending(rng)),
        ("agreement", lambda: agreement_cases(index)),
        ("ends", end_cases),
        ("places", lambda: place_cases(index)),
        ("leaves", lambda: leaf_cases(index)),
        ("absence", lambda: absence(index)),
    ):
        print(json.dumps([name, answer()]), flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # on its way out JAX would wait for the other processes
