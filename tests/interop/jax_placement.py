"""What one process of several answers about where rows go: part of jax_cases.py.

Each shard of an array is compared with the slice of a numpy array that JAX's own map of the sharding names for its
device, whatever the loader believes.
"""

import itertools
import os

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import loaderkit as lk
from loaderkit._order.sharding import ShardBlocks
from loaderkit.interop.jax.keys import record_key
from loaderkit.interop.jax.placement import held_rows, place
from loaderkit.interop.jax.sharding import blocks_of

COLUMNS = 8
SHAPES = [(8,), (2, 4), (4, 2), (2, 2, 2), (4,), (2,), (2, 2)]  # of all devices, or of a part of them
SPECS = [
    P("a"),
    P("a", "b"),
    P(("a", "b")),
    P(("b", "a")),
    P("b"),
    P(None, "a"),
    P(("c", "a"), "b"),
    P(("b", "c")),
    P("c", ("a", "b")),
    P(),
]


def random_sharding(rng):
    """Over devices in any order, perhaps not all of them, with rows cut along any axes or none."""
    while True:
        shape, spec = SHAPES[rng.integers(len(SHAPES))], SPECS[rng.integers(len(SPECS))]
        named = {axis for entry in spec if entry for axis in entry}
        if named <= {*"abc"[: len(shape)]}:
            chosen = rng.permutation(jax.devices())[: np.prod(shape)]
            return NamedSharding(Mesh(chosen.reshape(shape), tuple("abc"[: len(shape)])), spec)


def random_shard(rng, right, process):
    """Blocks for this process: the right ones; others, as many; those of a number; or any."""
    kind = rng.integers(4)
    if kind == 0:
        return ShardBlocks(right.held[process], right.count, (0,) * right.count)
    if kind == 1:
        many = len(right.held[process])
        blocks = tuple(sorted(rng.choice(right.count, many, replace=False).tolist()))
        return ShardBlocks(blocks, right.count, (0,) * right.count)
    count = int(rng.choice([1, 2, 4, 8]))
    if kind == 2:
        return lk.ShardOptions(int(rng.integers(count)), count)
    blocks = np.flatnonzero(rng.integers(0, 2, count)).tolist() or [0]
    return ShardBlocks(tuple(blocks), count, (0,) * count)


def placement_cases(count):
    """Rows of any shard put where any sharding wants them: the right ones on every device, or an error and no array."""
    process = jax.process_index()
    rng = np.random.default_rng([jax.process_count(), process])  # no array of these is made together
    told = {"right": 0, "refused": 0, "as many": 0, "wrong": []}
    for case in range(count):
        sharding = random_sharding(rng)
        right = blocks_of(sharding)
        total = 8 * int(rng.integers(1, 4))
        if process not in right.held:
            continue
        shard = random_shard(rng, right, process)
        whole = np.arange(total * COLUMNS).reshape(total, COLUMNS).astype(np.int32)
        held, rows = held_rows(shard, total // shard.shard_count * len(shard.blocks))
        wanted = sharding.addressable_devices_indices_map(whole.shape)
        fits = all({*np.arange(total)[index[0]].tolist()} <= {*held.tolist()} for index in wanted.values())
        try:
            made = place("x", whole[held], sharding, held, rows)
        except ValueError as error:
            told["refused"] += 1
            told["as many"] += len(held) == total // right.count * len(right.held[process])
            if fits or "expected the rows that this process loads" not in str(error):
                told["wrong"].append(f"{case}: {shard} refused: {error}")
            continue
        told["right"] += 1
        for piece in made.addressable_shards:
            if not fits or not np.array_equal(np.asarray(piece.data), whole[wanted[piece.device]]):
                told["wrong"].append(f"{case}: {shard} {sharding} {piece.index} on {piece.device}")
    return told


def two_shardings(rng, loader, count):
    """A loader by one sharding, its batches by another: right on each device, or refused."""
    told = {"right": 0, "refused": 0, "wrong": []}
    with iter(loader()) as it:
        whole = next(it)
    for case in range(count):
        one, other = (full_sharding(rng) for _ in range(2))
        its = loader(shard_options=lk.ShardBySharding(one))
        with lk.device_iterator(iter(its), other, prefetch=0) as batches:
            try:
                batch = next(batches)
            except ValueError as error:
                told["refused"] += 1
                if "expected the rows that this process loads" not in str(error):
                    told["wrong"].append(f"{case}: {error}")
                continue
        told["right"] += 1
        for piece in batch["key"].addressable_shards:
            wanted = whole["key"][other.devices_indices_map(whole["key"].shape)[piece.device]]
            if not np.array_equal(np.asarray(piece.data), wanted):
                told["wrong"].append(f"{case}: {one} {other} {piece.device}")
    return told


def full_sharding(rng):
    shape = [(8,), (2, 4), (4, 2)][rng.integers(3)]
    spec = [P("a"), P("b"), P(("b", "a"))][rng.integers(3 if len(shape) > 1 else 1)]
    return NamedSharding(Mesh(rng.permutation(jax.devices()).reshape(shape), tuple("ab"[: len(shape)])), spec)


def own_rows(loader, error_of):
    """Without a sharding, and on a device: this process's rows, the last ones too, though some have more of them."""
    process, count, seed = jax.process_index(), jax.process_count(), 5
    finite = {
        "data_source": lk.RangeDataSource(0, 43, 1),
        "sampler": lk.IndexSampler(43, seed=seed, num_epochs=1),
        "operations": [lk.Batch(global_batch_size=16)],
        "shard_options": lk.ShardByJaxProcess(),
    }
    with iter(lk.DataLoader(**finite)) as it:
        expected = [batch.tolist() for batch in it]
    answers = {}
    last = jax.local_devices()[-1]
    for name, where, device in (("first", [], jax.local_devices()[0]), ("last", [last], last)):
        with lk.device_iterator(iter(lk.DataLoader(**finite)), *where, keys="rng") as batches:
            got = [*batches]
        answers[name] = (
            [rows.tolist() for rows, _ in got] == expected
            and {leaf.sharding for pair in got for leaf in pair} == {SingleDeviceSharding(device)}
            # Keys of the short step: rows that this process has of it, not of one of equal parts.
            and all(
                jax.random.key_data(key).tolist() == jax.random.key_data(record_key(seed, row)).tolist()
                for row, key in zip(got[-1][0].tolist(), got[-1][1], strict=True)
            )
        )
    other = next(device for device in jax.devices() if device.process_index != process)
    answers["other"] = error_of(lk.device_iterator, iter(loader()), other)
    # Its leaves are its own affair; where it stands isn't, if its loader is one of several.
    wide = loader(
        operations=[lk.Batch(global_batch_size=16), lk.Map(lambda b: {"x": np.zeros((4, process + 1))})],
        shard_options=lk.ShardByJaxProcess(),
    )
    with lk.device_iterator(iter(wide)) as batches:
        answers["wide"] = next(batches)["x"].shape == (4, process + 1)
        if process == count - 1:
            batches.seek(7)
        else:
            batches.seek(3)
        answers["apart"] = error_of(next, batches)
    with lk.device_iterator(
        iter(loader())
    ) as batches:  # of a loader that is this process's alone: nothing is asked
        batches.seek(process)
        answers["alone"] = [next(batches)["key"].shape, batches.step == process + 1]
    return answers


def shards_by_number(loader, error_of):
    """Shards that say nothing of the other processes, put in global arrays: the processes compare all the same."""
    process, count = jax.process_index(), jax.process_count()
    last = process == count - 1
    sharding = NamedSharding(Mesh(jax.devices(), "data"), P("data"))
    answers = {}
    for name, shard_options in (("by number", lk.ShardOptions(process, count)), ("all", lk.NoSharding())):
        it = iter(loader(seed=int(last), shard_options=shard_options))
        with lk.device_iterator(it, {"x": sharding, "key": sharding}) as batches:
            seeds = error_of(next, batches)
        it = iter(loader(shard_options=shard_options))
        with lk.device_iterator(it, {"x": sharding, "key": sharding}) as batches:
            batches.seek(2 * last)
            places = error_of(next, batches)
            batches.seek(2)
            whole = jax.jit(lambda key: key, out_shardings=NamedSharding(sharding.mesh, P()))
            together = whole(next(batches)["key"]).tolist()
        with iter(loader()) as plain:
            expected = [*itertools.islice(plain, 3)][-1]["key"].tolist()
        answers[name] = [seeds, places, together == expected]
    return answers


def draws(few):
    """How many of a case: the few of the test command, or those of the nightly run."""
    return 50 * few if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else few
