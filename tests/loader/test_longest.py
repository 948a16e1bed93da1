"""Batches padded to the longest row of all shards, by lengths known ahead: one stream for any hosts and workers."""

from typing import Any

import numpy as np
import pytest
from hosts import joined, shards, take, together

import loaderkit as lk

N, G = 53, 12
LENGTHS = np.random.default_rng(3).integers(0, 40, N)
DOCUMENTS = [
    {"tokens": np.arange(length, dtype=np.int32) + 100 * key, "key": key}
    for key, length in enumerate(LENGTHS)
]
ORDER = lk.IndexSampler(N, shuffle=True, seed=0, num_epochs=2)


def make(
    remainder: str = "pad", before: Any = (), source: Any = DOCUMENTS, **how: Any
) -> "lk.DataLoader[Any]":
    padding = {
        "boundaries": {"tokens": "longest"},
        "padding_values": {"tokens": -1},
        "mask": {"tokens": "mask"},
        "lengths": LENGTHS,
    }
    padding |= {name: how.pop(name) for name in ("lengths", "multiple_of", "boundaries") if name in how}
    batch = lk.PadBatch(global_batch_size=G, remainder=remainder, **padding)
    given = {"data_source": source, "sampler": ORDER, "operations": [*before, batch], **how}
    return lk.DataLoader(**given)


def image(batch: Any) -> Any:
    return {name: (leaf.dtype.str, leaf.shape, leaf.tobytes()) for name, leaf in batch.items()}


def images(loader: "lk.DataLoader[Any]", most: int | None = None) -> list[Any]:
    with loader, iter(loader) as it:
        return [image(batch) for batch in take(it, most)]


@pytest.mark.parametrize("multiple_of", [1, 16])
def test_batches_are_as_long_as_their_longest_row(multiple_of: int) -> None:
    """Beside a loop over the sampler's keys, and beside a PadBatch on one shard that isn't told the lengths."""
    batches = list(make("keep", multiple_of=multiple_of))
    keys = ORDER.record_keys(np.arange(2 * N))
    assert [key for batch in batches for key in batch["key"].tolist()] == keys.tolist()
    for batch in batches:
        own = LENGTHS[batch["key"]]
        longest = -(-own.max() // multiple_of) * multiple_of
        expected = np.full((len(own), longest), -1, np.int32)
        for row, key in enumerate(batch["key"]):
            expected[row, : LENGTHS[key]] = DOCUMENTS[key]["tokens"]
        assert np.array_equal(batch["tokens"], expected) and batch["tokens"].dtype == np.int32
        assert np.array_equal(batch["mask"], np.arange(longest) < own[:, None])
    alone = make("keep", multiple_of=multiple_of, lengths=None)
    assert images(alone) == [image(batch) for batch in batches]


@pytest.mark.parametrize("remainder", ["keep", "drop", "pad", "wrap"])
def test_hosts_and_workers_make_one_stream(remainder: str) -> None:
    expected = images(make(remainder))
    assert len({leaf[1] for batch in expected for leaf in batch.values()}) > 4
    assert images(make(remainder, worker_count=2, worker_kind="thread", verify=True)) == expected
    for count in (2, 3):
        own_shards = shards(count)

        def work(host: int, own_shards: Any = own_shards) -> list[Any]:
            running = {"worker_count": host % 2, "worker_kind": "thread"}
            with make(remainder, shard_options=own_shards[host], **running) as own, iter(own) as it:
                return take(it, None)

        parts = together(work, count)
        whole = (
            2 * N // G if remainder == "keep" else len(expected)
        )  # the hosts' parts of a shorter step differ
        steps = [*zip(*parts, strict=remainder != "keep")][:whole]
        assert [image(joined([*step])) for step in steps] == expected[:whole]
        assert all(len({part["tokens"].shape for part in step}) == 1 for step in steps)


def test_processes_make_the_same_stream() -> None:
    assert images(make(worker_count=2)) == images(make())


def test_it_is_restored_sought_and_resized_anywhere() -> None:
    """A position costs nothing; what a step is padded to depends on its records alone."""
    expected = images(make())
    with make() as loader, iter(loader) as it:
        states = [it.get_state(), *(it.get_state() for _ in it)]
    for step, state in enumerate(states):
        with make(worker_count=step % 2, worker_kind="thread") as loader, iter(loader) as it:
            it.set_state(state)
            assert [image(batch) for batch in take(it, 3)] == expected[step : step + 3]
    with make(sampler=lk.IndexSampler(N, shuffle=True, seed=0)) as loader, iter(loader) as it:
        it.seek(10**9)
        far = next(it)
        assert far["tokens"].shape[1] == LENGTHS[far["key"]].max()
        assert [m.record_key for m in it.records(10**9)] == far["key"].tolist()
    second = images(make().epoch(1))
    keys = ORDER.record_keys(np.arange(N, 2 * N))
    assert [batch["tokens"][1][1] for batch in second] == [
        max(LENGTHS[keys[low : low + G]]) for low in range(0, N, G)
    ]


def test_a_mixture_has_the_lengths_of_its_sources_one_after_the_other() -> None:
    both, sampler = lk.mix(
        {"a": DOCUMENTS[:20], "b": DOCUMENTS[20:]}, weights={"a": 1, "b": 2}, shuffle=True, seed=0
    )
    for batch in make(source=both, sampler=sampler, num_steps=6, worker_count=1, worker_kind="thread"):
        assert batch["tokens"].shape[1] == LENGTHS[batch["key"]].max()


class Named(list[Any]):
    def fingerprint(self) -> dict[str, Any]:
        return {"name": "documents"}


class Broken(Named):
    """Every seventh record can't be read."""

    def __getitem__(self, key: Any) -> Any:
        if key % 7 == 3:
            raise OSError(key)
        return super().__getitem__(key)


@pytest.mark.parametrize("listed", [False, True])
def test_a_bad_record_is_replaced_by_one_of_its_step(tmp_path: Any, listed: bool) -> None:
    """Which is no longer than planned: on any workers and hosts, behind a restore, and where records are left out."""
    out: dict[str, Any] = {"exclude": tmp_path} if listed else {}
    if listed:
        lk.offline.block_list(Named(DOCUMENTS), tmp_path, keys=[47], reason="a test")
    lossy = {"source": Broken(DOCUMENTS), "on_record_error": "replace", **out}
    expected = images(make(**lossy))
    assert images(make(**lossy, worker_count=2, worker_kind="thread")) == expected
    for got, planned in zip(make(**lossy), make(source=Named(DOCUMENTS), **out), strict=True):
        assert got["tokens"].shape == planned["tokens"].shape
        assert set(got["key"].tolist()) <= set(planned["key"].tolist())
    with make(**lossy) as loader, iter(loader) as it:
        take(it, 4)
        state = it.get_state()
    with make(**lossy) as loader, iter(loader) as it:
        it.set_state(state)
        assert [image(batch) for batch in take(it, None)] == expected[4:]


def test_a_row_that_is_longer_than_said_is_named() -> None:
    wrong = LENGTHS.copy()
    wrong[np.argmax(LENGTHS)] = 0
    with pytest.raises(
        ValueError, match=r"leaf 'tokens': expected .* the longest of its step, got 38; give the len"
    ):
        images(make(lengths=wrong, sampler=lk.SequentialSampler(N)))


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"lengths": LENGTHS[1:]}, "lengths: expected 53, one for each record of the source, got 52"),
        (
            {"before": [lk.Filter(bool)]},
            "lengths: expected none with what changes the number of rows, got Filter",
        ),
        ({"on_record_error": "skip"}, "lengths: expected none with what changes .*, got skipped bad records"),
        ({"before": [lk.Batch(2)]}, "lengths: expected none but of the only Batch"),
        (
            {"boundaries": {"tokens": "longest", "x": [3]}},
            "boundaries: expected 'longest' for all leaves or for none",
        ),
        (
            {"boundaries": {"tokens": [64]}},
            "lengths, multiple_of: expected none with boundaries that are lengths",
        ),
        (
            {"boundaries": {"tokens": "shortest"}, "lengths": None},
            r"boundaries\['tokens'\]: expected a list of ints",
        ),
        ({"lengths": [-1] * N}, "lengths: expected 0 or more, got -1 of record 0"),
        ({"lengths": [1.5] * N}, "lengths: expected ints, got an array of float64"),
        ({"multiple_of": 0}, r"multiple_of: expected an int from 1 to .*, got 0"),
        (
            {"lengths": None, "shard_options": lk.ShardOptions(0, 2)},
            "2 shards, which would pad a batch differently, got the longest of each batch; give 'longest' with",
        ),
        (
            {"sampler": lk.samplers.LengthBucketSampler(LENGTHS, [20, 40], G, shuffle=True, seed=0)},
            "boundaries: expected 2 for each leaf, one for each bucket of LengthBucketSampler, got the longest",
        ),
        (
            {
                "multiple_of": 40,
                "sampler": lk.samplers.LengthBucketSampler(LENGTHS, [20, 40], G, shuffle=True, seed=0),
            },
            "boundaries: expected 2 for each leaf, .* got the longest",
        ),
    ],
)
def test_combinations_that_are_refused(how: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        iter(make(**how))


def test_a_mixture_may_replace_a_bad_record_by_a_longer_one_and_is_refused() -> None:
    both, sampler = lk.mix(
        {"a": DOCUMENTS[:20], "b": DOCUMENTS[20:]}, weights={"a": 1, "b": 2}, shuffle=True, seed=0
    )
    with pytest.raises(
        ValueError, match=r"lengths: expected none with on_record_error='replace' and a MixedSampler"
    ):
        make(source=both, sampler=sampler, on_record_error="replace")
    made = make(source=both, sampler=sampler, num_steps=2, on_record_error=lambda error, at: DOCUMENTS[0])
    assert len(images(made)) == 2


def test_its_name_tells_other_lengths() -> None:
    """Processes compare it, as they would pad otherwise."""
    names = {repr(lk.PadBatch(4, boundaries={"x": "longest"}, lengths=each)) for each in (None, [1], [2])}
    assert len(names) == 3 and "PadBatch(batch_size=4, boundaries={'x': 'longest'})" in names
