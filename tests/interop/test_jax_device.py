"""One process: batches as arrays of JAX, the position shared with the iterator below, and whose memory they are."""

import dataclasses
import gc
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from internals import plan_of, variant_of
from interrupts import interrupted, next_interrupted
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from memory_store import MemoryStore

import loaderkit as lk
from loaderkit._base.system.numerics import present_versions
from loaderkit._plan.state.identity import agreement_of, notes_of
from loaderkit._runtime.cluster.agreement import agree
from loaderkit.interop.jax import device
from loaderkit.interop.jax.keys import record_key
from loaderkit.interop.jax.sharding import announced_processes, check_initialized

ONE = SingleDeviceSharding(jax.devices()[0])
ROWS = NamedSharding(Mesh(np.array(jax.devices()[:1]), "data"), PartitionSpec("data"))


def element_of(key):
    """A leaf of each kind, those that JAX holds and those that it doesn't."""
    return {
        "image": np.full((4, 4), key, np.uint8),
        "weights": (np.float64(key), np.float16(key)),
        "name": f"record {key}",
        "raw": b"%d" % key,
        "time": np.datetime64("2026-01-01") + np.timedelta64(key, "D"),
        "label": key,
    }


def loader_of(*operations, records=60, epochs=None, **how):
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, records, 1),
        sampler=lk.IndexSampler(records, shuffle=True, seed=4, num_epochs=epochs),
        operations=[*operations] or [element_of, lk.Batch(global_batch_size=8)],
        **how,
    )


@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_batches_come_in_order_with_every_leaf_in_its_place(prefetch):
    """Numbers are arrays of JAX in JAX's dtypes, the rest is numpy's; the order is the loader's to the last batch."""
    whole = list(loader_of(element_of, lk.Batch(8, drop_remainder=True), epochs=1))
    loader = loader_of(element_of, lk.Batch(8, drop_remainder=True), epochs=1)
    with lk.device_iterator(iter(loader), ONE, prefetch=prefetch) as batches:
        got = list(batches)
        with pytest.raises(StopIteration):
            next(batches)
    assert len(got) == len(whole) == 7
    for batch, expected in zip(got, whole, strict=True):
        assert list(batch) == list(expected)
        for name in ("image", "label"):
            assert isinstance(batch[name], jax.Array)
            assert np.array_equal(batch[name], expected[name])
        assert [leaf.dtype for leaf in batch["weights"]] == [jnp.float32, jnp.float16]
        assert batch["label"].dtype == jnp.int32
        for name in ("name", "raw", "time"):
            assert type(batch[name]) is np.ndarray and np.array_equal(batch[name], expected[name])


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_so_many_batches_are_on_their_way_beside_the_one_handed_out(prefetch):
    """Before, during and after next(): as many as were asked for, and the one more that is being made."""

    def on_devices():
        return sum(array.shape == (4, 3, 7) for array in jax.live_arrays())

    during = []

    def noted(batch):
        during.append(on_devices())
        return batch

    loader = loader_of(lambda key: np.full((3, 7), key), lk.Batch(4), noted, epochs=1)
    loader = variant_of(loader, task_rows=4)
    with lk.device_iterator(iter(loader), ONE, prefetch=prefetch) as batches:
        assert on_devices() == 0
        first = next(batches)
        assert during == [*range(prefetch + 1)] and on_devices() == 1 + prefetch
        second = next(batches)  # while the first is still held
        assert during[-1] == 1 + prefetch and on_devices() == 2 + prefetch
        del first, second
        assert on_devices() == prefetch
        assert sum(1 for _ in batches) == 13 and max(during) == 1 + prefetch
        assert on_devices() == 0
        batches.seek(3)
        next(batches)
    assert on_devices() == 0


@pytest.mark.parametrize("where", [(), (None,), (jax.devices()[0],)])
def test_without_a_sharding_batches_go_to_this_process_first_device(where):
    """As arrays of the rows that it loads: those of a shard, and a last step that can't be cut in equal parts."""
    how = {"epochs": 1, "shard_options": lk.ShardOptions(1, 8)}
    with (
        lk.device_iterator(iter(loader_of(element_of, lk.Batch(2), **how)), *where, keys="rng") as batches,
        iter(loader_of(element_of, lk.Batch(2), **how)) as plain,
    ):
        sizes = []
        for batch, expected in zip(batches, plain, strict=True):
            assert batch["image"].sharding == batch["rng"].sharding == ONE
            assert np.array_equal(batch["image"], expected["image"])
            assert np.array_equal(batch["name"], expected["name"])
            sizes.append((*batch["label"].shape, *batch["rng"].shape))
        assert sizes == [(2, 2)] * 3 + [(2, 2)]  # 12 rows are left for the 8 shards at the end
        assert batches.step == 4


def test_what_jax_calls_its_default_device_is_where_they_go():
    """Also where it is configured by a platform's name."""
    for name in ("cpu", jax.devices()[0]):
        with jax.default_device(name), lk.device_iterator(iter(loader_of())) as batches:
            assert next(batches)["label"].sharding == ONE


def test_on_a_device_leaves_need_no_rows():
    """A number beside the batch, and elements without a Batch, are what jax.device_put makes of them."""
    with lk.device_iterator(iter(loader_of(element_of, lk.Batch(8), Scale()))) as batches:
        assert next(batches)["scale"].shape == ()
    with (
        lk.device_iterator(iter(loader_of(element_of)), jax.devices()[0]) as elements,
        iter(loader_of(element_of)) as plain,
    ):
        element, expected = next(elements), next(plain)
        assert isinstance(element["label"], jax.Array) and element["label"] == expected["label"]
        assert element["name"] == expected["name"] and np.array_equal(element["image"], expected["image"])
    with pytest.raises(ValueError, match="expected a loader with a Batch"):
        lk.device_iterator(iter(loader_of(element_of)), keys="rng")


def test_a_tree_may_hold_devices_and_shardings():
    """Each leaf as its own says."""
    where = {"image": ROWS, "weights": jax.devices()[0], "label": ONE}
    with lk.device_iterator(iter(loader_of()), where, keys="rng") as batches:
        batch = next(batches)
        found = [batch["image"], *batch["weights"], batch["label"], batch["rng"]]
        assert [leaf.sharding for leaf in found] == [ROWS, ONE, ONE, ONE, ROWS]


def test_a_tree_of_shardings_may_end_above_the_leaves():
    """One for all below it; a leaf that JAX can't hold needs none, another one does."""
    everywhere = {"image": ROWS, "weights": ONE, "label": ROWS}
    with lk.device_iterator(iter(loader_of()), everywhere) as batches:
        batch = next(batches)
        assert (batch["image"].sharding, batch["weights"][1].sharding) == (ROWS, ONE)
    with (
        lk.device_iterator(iter(loader_of()), {"image": ROWS}) as batches,
        pytest.raises(ValueError, match=r"sharding: expected one for leaf \['weights'\]\[0\], got none"),
    ):
        next(batches)
    deep = NamedSharding(Mesh(np.array(jax.devices()[:1]), "data"), PartitionSpec("data", None))
    with (
        lk.device_iterator(iter(loader_of()), deep) as batches,
        pytest.raises(
            ValueError, match=r"sharding: expected one of at most 1 axes for leaf \['weights'\]\[0\]"
        ),
    ):
        next(batches)
    with (
        lk.device_iterator(iter(loader_of()), {"image": [ROWS]}) as batches,
        pytest.raises(
            TypeError, match=r"sharding: expected a tree of shardings like the batch's .*got a list"
        ),
    ):
        next(batches)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Tokens:
    ids: Any
    own: Any = None


def test_leaves_of_a_class_that_jax_knows_are_padded_by_name():
    """Its batches are trees of JAX, with the mask in the field that held None."""
    operations = [lk.PadTo(3, "ids", mask="own")]
    loader = lk.load([Tokens(np.arange(k + 1)) for k in range(3)], batch_size=3, operations=operations)
    with lk.device_iterator(iter(loader)) as batches:
        made = jax.tree.map(lambda leaf: leaf + 0, next(batches))
    assert isinstance(made, Tokens) and made.ids.tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 2]]
    assert made.own.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_the_position_is_that_of_what_the_user_received():
    """However many batches are on their way: in the state of both, and after a restore through either."""
    plain = iter(loader_of())
    it = iter(loader_of())
    batches = lk.device_iterator(it, ONE, prefetch=3)
    expected = [next(plain) for _ in range(8)]
    states = []
    with iter(loader_of()) as counting:
        for step in range(4):
            assert batches.get_state() == it.get_state() == counting.get_state()
            assert (batches.step, it.step, batches.index) == (step, step, 8 * step)
            states.append(batches.get_state())
            assert np.array_equal(next(batches)["label"], next(counting)["label"])
    for by, step in ((it, 1), (batches, 3)):
        by.set_state(states[step])
        assert batches.step == it.step == step
        assert np.array_equal(next(batches)["label"], expected[step]["label"])
    it.seek(6)
    assert np.array_equal(next(batches)["label"], expected[6]["label"])
    batches.seek(0)
    batches.skip(2)
    assert np.array_equal(next(batches)["label"], expected[2]["label"])
    assert [one.index for one in batches.records(1)] == list(range(24, 32))
    assert (batches.epoch, repr(batches)) == (0, "<DeviceIterator at step 1, index 24>")
    batches.close()
    plain.close()
    assert it.step == 1
    with pytest.raises(lk.errors.IteratorClosedError):
        next(batches)


def test_using_both_is_an_error():
    """The iterator below has nothing left to give that the wrapper wouldn't miss."""
    it = iter(loader_of())
    with lk.device_iterator(it, ONE) as batches:
        for use in (it.__next__, it.peek, lambda: lk.device_iterator(it, ONE)):
            with pytest.raises(
                RuntimeError, match="this iterator is wrapped, and its elements go to the wrapper"
            ):
                use()
        next(batches)


def test_orbax_saves_and_restores_either(tmp_path):
    """The wrapper beside the model, with batches on their way: the next one after the restore is the next one."""
    with (
        lk.device_iterator(iter(loader_of()), ONE) as batches,
        ocp.CheckpointManager(tmp_path / "run") as manager,
    ):
        for _ in range(3):
            next(batches)
        manager.save(3, args=ocp.args.Composite(dataset=lk.CheckpointSave(batches)))
        manager.wait_until_finished()
        expected = next(batches)["label"]
        it = iter(loader_of())
        with lk.device_iterator(it, ONE) as others:
            next(others)
            manager.restore(3, args=ocp.args.Composite(dataset=lk.CheckpointRestore(others)))
            assert np.array_equal(next(others)["label"], expected)
            manager.restore(3, args=ocp.args.Composite(dataset=lk.CheckpointRestore(it)))
            assert np.array_equal(next(others)["label"], expected)


def test_an_error_of_the_users_comes_in_its_place():
    """Batches before it are handed out first; behind it the user may go on elsewhere."""

    def fails(key):
        if key == 17:
            raise KeyError("record 17 is damaged")
        return key

    records = {"data_source": range(60), "sampler": lk.SequentialSampler(60, seed=0)}
    loader = lk.DataLoader(**records, operations=[fails, lk.Batch(4)])
    with lk.device_iterator(iter(loader), ONE, prefetch=4) as batches:
        got = []
        for _ in range(2):
            with pytest.raises(KeyError, match="record 17 is damaged"):
                got.extend(batch.tolist() for batch in batches)
        assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
        batches.skip(1)
        assert next(batches).tolist() == [20, 21, 22, 23]


@pytest.mark.parametrize(
    ("dtype", "value"), [(np.int64, 2**31), (np.int64, -(2**31) - 1), (np.uint64, 2**32)]
)
def test_an_integer_that_does_not_fit_is_an_error(dtype, value):
    """JAX would cut it to 32 bits without a word."""

    def big(key):
        return {"id": dtype(value if key == 5 else key)}

    loader = lk.DataLoader(
        data_source=range(8), sampler=lk.SequentialSampler(8), operations=[big, lk.Batch(4)]
    )
    with lk.device_iterator(iter(loader), ONE) as batches:
        assert next(batches)["id"].tolist() == [0, 1, 2, 3]
        with pytest.raises(
            OverflowError, match=rf"leaf \['id'\]: expected .*, got {value} as {np.dtype(dtype)}"
        ):
            next(batches)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_float_that_does_not_fit_is_told(dtype):
    """It is infinite, as in JAX, and the warning names its leaf."""

    def big(key):
        return {"x": dtype(1.5), "y": dtype(1e300)}

    with lk.device_iterator(iter(loader_of(big, lk.Batch(2))), ONE) as batches:
        with pytest.warns(RuntimeWarning, match=r"leaf \['y'\] is .* become infinite") as told:
            batch = next(batches)
        assert len({str(one.message) for one in told}) == 1
        assert np.isinf(batch["y"]).all() and np.array_equal(batch["x"], [1.5, 1.5])


@pytest.mark.parametrize("keys", [None, "key"])
def test_a_batch_without_a_leaf_for_devices_stays_as_it_is(keys):
    """Text only: numpy's arrays, whose rows the keys belong to."""
    with lk.device_iterator(
        iter(loader_of(lambda key: {"name": f"{key}"}, lk.Batch(4))), ONE, keys=keys
    ) as batches:
        batch = next(batches)
        assert type(batch["name"]) is np.ndarray and batch["name"].shape == (4,)
        assert keys is None or batch[keys].shape == (4,)


def test_times_stay_and_other_byte_orders_are_jax_own():
    """A difference of times is none of JAX's numbers; what came from a file in another byte order is."""

    def leaves(batch):
        dates = batch.astype("datetime64[D]")
        return {"time": dates - dates[0], "order": batch.astype(">i8"), "f": batch.astype(">f4")}

    with (
        lk.device_iterator(iter(loader_of(lk.Batch(4), leaves)), ONE) as batches,
        iter(loader_of(lk.Batch(4), leaves)) as plain,
    ):
        batch, expected = next(batches), next(plain)
        assert type(batch["time"]) is np.ndarray and np.array_equal(batch["time"], expected["time"])
        assert (batch["order"].dtype, batch["f"].dtype) == (jnp.int32, jnp.float32)
        assert np.array_equal(batch["order"], expected["order"]) and np.array_equal(batch["f"], expected["f"])


def test_an_endless_one_is_no_list():
    """As of the loader's iterator: an error with what to write, and no full memory."""
    with lk.device_iterator(iter(lk.load([1, 2], batch_size=2))) as batches:
        with pytest.raises(ValueError, match="write num_epochs=1"):
            list(batches)
        assert next(batches).tolist() == [1, 2]


def test_numbers_that_jax_lacks_are_named():
    """By their leaf."""
    long = loader_of(lambda key: {"x": np.longdouble(key)}, lk.Batch(4))
    with (
        lk.device_iterator(iter(long)) as batches,
        pytest.raises(
            (TypeError, RuntimeError), match=r"not a valid JAX array type|Unknown NumPy dtype"
        ) as raised,
    ):
        next(batches)
    assert "the array is leaf ['x']: convert its numbers in the pipeline" in raised.value.__notes__[-1]


def test_a_guard_against_unseen_transfers_lets_these_through():
    """They are meant, like jax.device_put."""
    with (
        jax.transfer_guard("disallow"),
        lk.device_iterator(iter(loader_of()), {"image": ROWS, "weights": ONE, "label": ROWS}, keys="k") as it,
    ):
        next(it)


class Scale(lk.Map):
    """Behind the Batch: a number that belongs to no row."""

    def map(self, batch):
        return {**batch, "scale": np.float32(2)}


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            (iter, ONE),
            TypeError,
            "it: expected the iterator of a loader, iter\\(loader\\), got list_iterator",
        ),
        (
            (None, "data"),
            TypeError,
            "sharding: expected a jax.sharding.Sharding, a device of this process, or a tree of them, got 'data'",
        ),
        ((None, 2), TypeError, "got 2; for the number of batches on their way write prefetch=2"),
        (
            (None, PartitionSpec("data")),
            TypeError,
            r"a spec names no devices, write NamedSharding\(mesh, spec\)",
        ),
        ((None, ROWS.mesh), TypeError, r"write NamedSharding\(mesh, PartitionSpec\('data'\)\)"),
        ((None, jax.devices()), TypeError, r"got 1 devices; .* NamedSharding\(Mesh\(devices, 'data'\)"),
        ((None, {}), TypeError, "got {}"),
        ((None, ONE, -1), ValueError, "prefetch: expected 0 or more, got -1"),
        ((None, ONE, 2, 3), TypeError, "keys: expected the name of a leaf or None, got 3"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, error, text):
    """At once, not at the first batch."""
    first = iter([1]) if arguments[0] is iter else iter(loader_of())
    with pytest.raises(error, match=text):
        lk.device_iterator(first, *arguments[1:])


@pytest.mark.parametrize(
    ("loader", "text"),
    [
        (lambda: loader_of(element_of), "expected a loader with a Batch"),
        (
            lambda: loader_of(element_of, lk.Batch(8), Scale()),
            r"its rows as their first axis.*\['scale'\]: no axis",
        ),
        (
            lambda: loader_of(str, lk.Batch(8, batch_fn="".join)),
            "its rows as their first axis, got no array",
        ),
        (
            lambda: loader_of(shard_options=lk.ShardOptions(1, 2)),
            "expected the rows that this process loads, rows 4 to 7 of 8, got rows 0 to 7 of leaf",
        ),
        (
            lambda: loader_of(element_of, lk.Batch(8), epochs=1, shard_options=lk.ShardOptions(0, 8)),
            "expected a last step that divides into 8 equal parts, got 60 rows; use remainder=",
        ),
    ],
)
def test_loaders_that_devices_cannot_share_are_refused(loader, text):
    """With what to change in them."""

    def first():
        with iter(loader()) as it:
            next(lk.device_iterator(it, ONE))

    with pytest.raises(ValueError, match=text):
        first()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_arrays_keep_the_memory_that_they_share(kind):
    """On CPU JAX reads the loader's memory: it isn't written again while an array lives, and is when none does."""
    shape = {"x": np.zeros((64, 64), np.float32)}  # large enough for rows to be shared without a copy

    def filled(key):
        return {"x": shape["x"] + np.float32(key)}

    loader = loader_of(filled, lk.Batch(8), worker_count=2, worker_kind=kind)
    with (
        loader,
        iter(loader_of(filled, lk.Batch(8))) as plain,
        lk.device_iterator(iter(loader), ONE) as batches,
    ):
        kept = list(itertools.islice(batches, 6))
        for _ in range(30):
            next(batches)
        gc.collect()
        for batch in kept:
            assert np.array_equal(batch["x"], next(plain)["x"])


def test_donated_arrays_do_not_change_what_comes():
    """A step may donate its batch: the loader's memory isn't the step's to write."""

    def filled(key):
        return {"x": np.full((64, 64), key, np.float32)}

    spoil = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    loader = loader_of(filled, lk.Batch(8), worker_count=2)
    with (
        loader,
        iter(loader_of(filled, lk.Batch(8))) as plain,
        lk.device_iterator(iter(loader), ONE) as batches,
    ):
        for _ in range(40):
            batch = next(batches)
            assert np.array_equal(batch["x"], next(plain)["x"])
            spoil(batch.pop("x"))


@pytest.mark.slow
def test_keys_make_augmentation_on_devices_repeatable():
    """Crop, flip and colour jitter, jitted: the same pictures from another batch size, and in any order."""

    def picture(key):
        return {
            "image": np.random.Generator(np.random.PCG64(key)).random((12, 12, 3), np.float32),
            "key": key,
        }

    @jax.jit
    def augment(batch):
        def one(image, rng):
            crop, flip, jitter = jax.random.split(rng, 3)
            y, x = jax.random.randint(crop, (2,), 0, 5)
            image = jax.lax.dynamic_slice(image, (y, x, 0), (8, 8, 3))
            image = jnp.where(jax.random.bernoulli(flip), image[:, ::-1], image)
            gain, offset = jax.random.uniform(jitter, (2, 3), minval=-0.1, maxval=0.1)
            return image * (1 + gain) + offset

        return jax.vmap(one)(batch["image"], batch["rng"])

    def seen(size, steps):
        with lk.device_iterator(iter(loader_of(picture, lk.Batch(size))), ROWS, keys="rng") as batches:
            return np.concatenate([augment(batch) for batch in itertools.islice(batches, steps)])

    whole = seen(8, 15)  # two epochs
    assert np.array_equal(whole, seen(24, 5))
    assert not np.array_equal(
        whole[:60], whole[60:]
    )  # an index has its own key also where the record comes again
    with lk.device_iterator(iter(loader_of(picture, lk.Batch(8))), ROWS, keys="rng") as batches:
        batches.seek(11)
        assert np.array_equal(augment(next(batches)), whole[88:96])
        batches.seek(3)
        keys = next(batches)["rng"]
    expected = [jax.random.key_data(record_key(4, index)) for index in range(24, 32)]
    assert np.array_equal(jax.random.key_data(keys), np.stack(expected))


def test_rows_that_left_the_batch_have_no_keys():
    """An operation behind the Batch that drops rows doesn't say which: an error, and no key of another record."""
    dropped = loader_of(lk.Batch(8), lambda batch: {"label": batch[4:]})
    with (
        lk.device_iterator(iter(dropped), ONE, keys="rng") as batches,
        pytest.raises(ValueError, match="keys: expected 8 rows, as many as entered the last Batch, got 4"),
    ):
        next(batches)


def test_keys_have_a_name_of_their_own():
    """They stand beside an element that is no dict, and never in the place of a leaf."""
    with lk.device_iterator(iter(lk.load(range(8), batch_size=4, seed=0)), ONE, keys="rng") as batches:
        batch, keys = next(batches)
        assert batch.shape == keys.shape == (4,)
    with (
        lk.device_iterator(iter(loader_of()), ONE, keys="label") as batches,
        pytest.raises(ValueError, match="keys: expected the name of a new leaf, got 'label'"),
    ):
        next(batches)
    with pytest.raises(ValueError, match="keys: expected a sampler with a seed"):
        lk.device_iterator(iter(lk.load(range(8), batch_size=4)), ONE, keys="rng")


def test_a_sharding_says_the_rows_when_iteration_starts():
    """A mesh with its spec, or a sharding; what is neither is refused where it is written."""
    mesh = Mesh(np.array(jax.devices()[:1]), "data")
    spec = PartitionSpec("data")
    assert lk.ShardBySharding(mesh, spec) == lk.ShardBySharding(NamedSharding(mesh, spec))
    for arguments, text in (
        ((mesh,), r"spec: expected the PartitionSpec .* such as PartitionSpec\('data'\)"),
        ((ROWS, spec), "spec: expected None beside a sharding"),
        (("data",), "sharding: expected a jax.sharding.Sharding"),
    ):
        with pytest.raises(TypeError, match=text):
            lk.ShardBySharding(*arguments)
    by_mesh = {"shard_options": lk.ShardBySharding(mesh, spec)}
    with iter(loader_of(**by_mesh)) as it:
        assert next(it)["label"].shape == (8,)
    for operations, text in (
        ([element_of], "expected operations with a Batch"),
        ([element_of, lk.Batch(8)], "batch_size: "),
    ):
        with pytest.raises(ValueError, match=text):
            iter(loader_of(*operations, **by_mesh))


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_NODELIST": "n1", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, None),
        (
            {"SLURM_JOB_ID": "1", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"},
            (2, "SLURM_NTASKS"),
        ),
        ({"TPU_WORKER_HOSTNAMES": "a,b,c"}, (3, "TPU_WORKER_HOSTNAMES")),
        ({"TPU_WORKER_HOSTNAMES": "a"}, None),
        ({"JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234"}, (2, "JAX_COORDINATOR_ADDRESS")),
    ],
)
def test_an_announced_cluster_is_found_in_the_environment(environment, found):
    """By the variables that JAX's own detection reads, where they speak of more than one process."""
    assert announced_processes(environment) == found


@pytest.mark.parametrize(
    "shard_options", [lk.ShardByJaxProcess(), lk.ShardBySharding(ROWS)], ids=["process", "mesh"]
)
def test_a_cluster_that_jax_was_not_told_of_is_said(shard_options, monkeypatch):
    """Otherwise every process would load everything, unnoticed."""
    monkeypatch.setenv("OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1:9")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    with pytest.raises(
        RuntimeError, match=r"expected 4, got 1: OMPI_COMM_WORLD_SIZE announces .*call jax.distributed"
    ):
        iter(loader_of(shard_options=shard_options))
    check_initialized(4)


def test_the_state_says_nothing_of_devices():
    """A state saved through devices restores in a loader that knows none."""
    with lk.device_iterator(iter(loader_of()), ONE) as batches, iter(loader_of()) as plain:
        next(batches)
        next(plain)
        assert json.loads(batches.get_state()) == json.loads(plain.get_state())


@pytest.mark.slow
@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_interrupt_loses_no_batch(prefetch, nightly):
    """Ctrl-C at lines all over next(), also while others are taken ahead: what comes is behind what was handed out."""
    expected = [batch["label"].tolist() for batch in loader_of(epochs=1)]
    interrupted = 0
    for line in range(1, 2000, 1 if nightly else 97):
        with lk.device_iterator(iter(loader_of(epochs=1)), ONE, prefetch=prefetch) as batches:
            came = next_interrupted(batches, line)
            interrupted += came
            stands = batches.step
            rest = [batch["label"].tolist() for batch in batches]
            assert stands in (0, 1) and expected[:stands] + rest == expected, f"line {line}"
        if not came:
            break
    assert interrupted > 3


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_interrupt_between_loader_and_device_loses_no_batch(prefetch, monkeypatch):
    """The batch was taken from the loader and is on no device: it is taken again."""
    expected = [batch["label"].tolist() for batch in loader_of(epochs=1)]
    real, calls = device.place, itertools.count(1)

    def place(*arguments):
        if next(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    with lk.device_iterator(iter(loader_of(epochs=1)), ONE, prefetch=prefetch) as batches:
        seen = [next(batches)["label"].tolist()]
        monkeypatch.setattr(device, "place", place)
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        seen += [batch["label"].tolist() for batch in batches]
    assert seen == expected


@pytest.mark.parametrize(
    ("move", "wrapped"), [("seek", True), ("skip", True), ("set_state", True), ("set_state", False)]
)
def test_an_interrupted_move_ends_here_or_there(move, wrapped):
    """Ctrl-C at lines all over it, with batches on their way: what comes is what is at the position that it shows."""
    loader = loader_of(lk.Batch(8))
    with iter(loader) as it:
        expected = [next(it).tolist() for _ in range(10)]
        it.seek(6)
        state = it.get_state()
    arguments = {"seek": 6, "set_state": state, "skip": 5}
    ends = set()
    it = iter(loader)
    start = it.get_state()
    with lk.device_iterator(it, prefetch=1) if wrapped else it as batches:
        for line in itertools.chain(
            range(1, 25), itertools.count(25, 5)
        ):  # first what is set, then what is closed
            batches.set_state(start)
            next(batches)
            act = partial(getattr(batches, move), arguments[move])
            came = interrupted(act, line, inside="go_to")
            stands = batches.index // 8
            ends.add((stands, came))
            coming = [next(batches).tolist() for _ in range(3)]
            assert stands in (1, 6) and coming == expected[stands : stands + 3], f"line {line}"
            if not came:
                break
    assert ends == {(1, True), (6, True), (6, False)} and line > 20


def test_close_ends_a_wait_for_other_processes():
    """Another thread may close it; what waits for a process that doesn't come is over then."""
    store, other = MemoryStore.of(2, timeout=600)
    loader = loader_of(shard_options=lk.ShardOptions(0, 2, store=store))
    with ThreadPoolExecutor() as threads:
        plan = plan_of(loader)
        versions = present_versions()
        said, notes = agreement_of(plan, versions), notes_of(plan, versions)
        agreed = threads.submit(agree, other, "loader", said, advice="", notes=notes)
        batches = lk.device_iterator(iter(loader))
        agreed.result()
        waits = threads.submit(next, batches)
        while not other.read("agree/place/"):
            other.wait("agree/place/", 1)
        batches.close()
        with pytest.raises(lk.errors.IteratorClosedError, match="while it waited for other processes"):
            waits.result()
