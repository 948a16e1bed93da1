"""Batching equals np.stack of all the batch's rows, leaf by leaf, wherever and in how many parts they were made."""

import re
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import variant_of
from pipelines import Running, runnings
from stream_twin import assert_same, difference, outcomes, stacked

import loaderkit as lk

IN_A_PROCESS = pytest.param(Running(1, "process"), marks=pytest.mark.slow)

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Picture:
    pixels: np.ndarray
    label: int


def loader_of(rows: list[Any], running: Running, *operations: Any, **options: Any) -> "lk.DataLoader":
    loader = lk.DataLoader(
        data_source=rows,
        sampler=lk.IndexSampler(len(rows), num_epochs=1, seed=0),
        operations=operations,
        worker_count=running.workers,
        worker_kind=running.kind,
        prefetch_batches=running.prefetch,
        **options,
    )
    return variant_of(loader, task_rows=running.task_rows)


def batches_of(rows: list[Any], size: int, running: Running, *operations: Any) -> list[Any]:
    with loader_of(rows, running, *operations, lk.Batch(size)) as loader:
        return list(loader)


# What a leaf may be from one row to the next: mostly alike, so that rows are written in place, and now and then not.
SCALARS = [
    lambda k: k,
    lambda k: k / 3,
    lambda k: k % 2 == 0,
    np.int16,
    np.float32,
    np.uint16,
    lambda k: 2**63 + k,
    lambda k: -k,
    lambda k: complex(k, 1),
    lambda k: np.datetime64(k, "s"),
    lambda k: np.array(k, np.int32),
    lambda k: np.array(k, ">i4"),
]
TEXTS = [lambda k: "abc"[: k % 4], lambda k: "ä" * (k % 3), lambda k: np.str_("x" * (k % 5))]
BYTES = [lambda k: b"ab\0"[: k % 4], lambda k: b"\0" * (k % 2)]
ARRAYS = [
    lambda k: np.arange(6, dtype=np.float32).reshape(2, 3) + k,
    lambda k: np.arange(6, dtype=np.int8).reshape(2, 3),
    lambda k: np.asfortranarray(np.arange(6.0).reshape(2, 3) * k),
    lambda k: (np.arange(12).reshape(2, 6) + k)[:, ::2],
    lambda k: np.arange(6, dtype=np.uint64).reshape(2, 3),
    lambda k: np.arange(6).reshape(2, 3) % 2 == k % 2,
]
LARGE = [lambda k: np.full((40, 40), k, np.float32), lambda k: np.full((40, 40), k, np.int64)]


@given(
    family=st.sampled_from([SCALARS, TEXTS, BYTES, ARRAYS, LARGE]),
    size=st.integers(1, 9),
    data=st.data(),
    running=runnings(),
)
def test_equals_np_stack(family, size, data, running):
    """Whatever mixture of types the rows hold, values, shapes, dtypes and layout are those of np.stack."""
    kinds = data.draw(st.lists(st.sampled_from(range(len(family))), min_size=1, max_size=3, unique=True))
    order = data.draw(st.lists(st.sampled_from(kinds), min_size=20, max_size=20))
    rows = [{"x": family[kind](k), "k": k} for k, kind in enumerate(order)]
    expected, failed = outcomes(stacked(rows[first : first + size]) for first in range(0, 20, size))
    with loader_of(rows, running, lk.Batch(size)) as loader:
        found, error = outcomes(iter(loader))
    assert_same(found, expected)
    assert (error is None) == (failed is None)


@pytest.mark.slow
def test_promotion_is_over_all_rows_at_once():
    """int16, uint16 and float32 rows make float32 together, in whatever parts they were made (in parts: float64)."""
    rows = [np.int16(1), np.uint16(2), np.float32(3)] * 4
    for running in (
        Running(),
        Running(task_rows=1),
        Running(2, task_rows=1),
        Running(2, "process", task_rows=2),
    ):
        for batch in batches_of(rows, 6, running):
            assert batch.dtype == np.float32


@pytest.mark.parametrize("running", [Running(), Running(2, task_rows=2), IN_A_PROCESS], ids=str)
def test_a_guess_that_fails_is_never_another_answer(running):
    """After batches of one dtype a row of another comes: the batch is what np.stack says, not what fits the place."""
    rows: list[Any] = [np.float32(k) for k in range(12)] + [7.25] + [np.float32(k) for k in range(11)]
    batches = batches_of(rows, 4, running)
    assert [batch.dtype for batch in batches] == [np.float32] * 3 + [np.float64] + [np.float32] * 2
    assert_same(batches, [np.stack(rows[first : first + 4]) for first in range(0, 24, 4)])


@pytest.mark.parametrize("running", [Running(), Running(2), IN_A_PROCESS], ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda k: {"a": k, "b": {"c": np.arange(2) + k}},
        lambda k: [k, (k, [k])],
        lambda k: Pair(k, {"x": np.float32(k)}),
        lambda k: (k, None, [None]),
        lambda k: Picture(np.full((2, 2), k, np.uint8), k),
        lambda k: {"z": k, "a": k} if k % 2 else {"a": k, "z": k},
    ],
    ids=["dicts", "lists", "namedtuples", "none", "dataclasses", "another order of keys"],
)
def test_any_tree(make, running):
    """The tree of a batch is the tree of its rows, with the first row's order of keys; None is structure."""
    rows = [make(k) for k in range(6)]
    found = batches_of(rows, 3, running)
    assert len(found) == 2
    for place, batch in enumerate(found):
        group = rows[3 * place : 3 * place + 3]
        if isinstance(batch, Picture):
            assert difference(batch.pixels, np.stack([row.pixels for row in group])) is None
            assert difference(batch.label, np.stack([row.label for row in group])) is None
        elif isinstance(batch, Pair):
            expected = Pair(stacked([row.left for row in group]), stacked([row.right for row in group]))
            assert type(batch) is Pair
            assert difference(tuple(batch), tuple(expected)) is None
        else:
            assert difference(batch, stacked(group)) is None


def test_batches_whose_dicts_have_another_order_of_keys_keep_their_values():
    """A worker writes the leaves where the trainer reads them, whichever orders of the keys it was told before."""
    rows = [{"z": k, "a": -k} if k // 4 % 2 else {"a": -k, "z": k} for k in range(96)]
    found = batches_of(rows, 4, Running(2, "process", task_rows=2))
    assert difference(found, [stacked(rows[k : k + 4]) for k in range(0, 96, 4)]) is None


@pytest.mark.parametrize("running", [Running(), Running(2), IN_A_PROCESS], ids=str)
def test_batches_can_be_written_and_kept(running):
    """A batch is the user's: writable, and never overwritten by a later one."""
    rows = [np.full(3, k, np.float32) for k in range(60)]
    with loader_of(rows, running, np.negative, lk.Batch(3)) as loader:
        kept = []
        for batch in loader:
            batch += 0.5
            kept.append(batch)
        for place, batch in enumerate(kept):
            assert batch.flags.writeable
            assert batch[:, 0].tolist() == [0.5 - 3 * place - row for row in range(3)]
        del batch, kept


@pytest.mark.parametrize("running", [Running(), Running(2), IN_A_PROCESS], ids=str)
def test_above_the_memory_limit_batches_are_copied_out(running):
    """max_memory bounds what is held in shared memory: a loop that keeps every batch still gets the same ones."""
    rows = [np.full((50, 50), k, np.float32) for k in range(40)]
    with loader_of(rows, running, np.negative, lk.Batch(2), max_memory=50_000) as loader:
        kept = list(loader)
        assert_same(kept, [np.stack([-rows[k], -rows[k + 1]]) for k in range(0, 40, 2)])
        del kept


@pytest.mark.parametrize("running", [Running(), Running(2, task_rows=1), IN_A_PROCESS], ids=str)
def test_batch_fn_sees_the_rows_as_they_were_made(running):
    """batch_fn gets the list of rows in order, objects and all, and what it returns is the batch."""
    rows = [{"k": k, "text": "x" * k, "ragged": np.arange(k)} for k in range(7)]

    def pad(group: list[Any]) -> Any:
        assert isinstance(group, list)
        assert all(type(row["k"]) is int for row in group)
        longest = max(len(row["ragged"]) for row in group)
        return np.array([np.pad(row["ragged"], (0, longest - len(row["ragged"]))) for row in group])

    with loader_of(rows, running, lambda row: row, lk.Batch(3, batch_fn=pad)) as loader:
        assert_same(list(loader), [pad(rows[first : first + 3]) for first in (0, 3, 6)])


# What can't be batched: the rows, and what the error must name.
SHAPES = [np.zeros(2), np.zeros(2), np.zeros(3), np.zeros(2)]
MISMATCHES = {
    "shape": (
        [{"x": {"y": row}} for row in SHAPES],
        r"record_key 0.*record_key 2|index 0.*index 2",
        r"\['x'\]\['y'\]",
    ),
    "keys": ([{"x": 1}, {"x": 1}, {"y": 1}, {"x": 1}], r"index 0.*index 2", "x"),
    "length": ([(1,), (1,), (1, 2), (1,)], r"index 0.*index 2", ""),
    "kind": ([[1], [1], (1,), [1]], r"index 0.*index 2", r"\[\*\].*\(\*,\)"),
    "none": ([[None], [None], [1], [None]], r"index 0.*index 2", "None"),
    "masked": ([np.ma.masked_array([1], [True])] * 4, "", "masked"),
    "trailing NUL": (["a", "b", "c\0", "d"], "index 2", "NUL"),
}


@pytest.mark.parametrize("running", [Running(), Running(2, task_rows=1), IN_A_PROCESS], ids=str)
@pytest.mark.parametrize("name", MISMATCHES)
def test_what_cant_be_batched_is_named(name, running):
    """Both records, by index and record_key, and the path of the leaf; the position stays at that batch."""
    rows, indices, what = MISMATCHES[name]
    with loader_of([*rows, *rows], running, lambda row: row, lk.Batch(4)) as loader:
        it = iter(loader)
        with pytest.raises(lk.errors.BatchError) as raised:
            next(it)
        said = " ".join([str(raised.value), *raised.value.__notes__]).replace("\n", " ")
        for pattern in (indices, what, r"record_key", r"Batch\(batch_size=4\)", "step 0"):
            assert re.search(pattern, said), pattern
        assert it.step == 0
        del raised


def test_a_failing_batch_fn_keeps_its_error():
    """What batch_fn raises keeps its type and names its records."""

    def refuse(group: list[Any]) -> Any:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no") as raised:
        next(iter(loader_of(list(range(6)), Running(), lk.Batch(3, batch_fn=refuse))))
    assert "Batch(batch_size=3, batch_fn=refuse)" in raised.value.__notes__[0]
    assert all(f"index {k} (record_key {k})" in raised.value.__notes__[0] for k in range(3))


@pytest.mark.parametrize("running", [Running(), Running(2), IN_A_PROCESS], ids=str)
def test_columns_are_gathered_as_rows_are(running):
    """A columnar source without operations gives the same batches as its rows do."""
    columns = {"x": np.arange(60, dtype=np.float32).reshape(20, 3), "label": np.arange(20, dtype=np.uint8)}
    sampler = lk.IndexSampler(20, shuffle=True, seed=1, num_epochs=2)
    found = []
    for operations in ([lk.Batch(6)], [lambda row: row, lk.Batch(6)], [lk.Batch(6), lambda batch: batch]):
        with lk.DataLoader(
            data_source=lk.ArrayDataSource(columns),
            sampler=sampler,
            operations=operations,
            worker_count=running.workers,
            worker_kind=running.kind,
        ) as loader:
            found.append(list(loader))
    keys = sampler.record_keys(range(40))
    expected = [
        {name: column[keys[first : first + 6]] for name, column in columns.items()}
        for first in range(0, 40, 6)
    ]
    for batches in found:
        assert_same(batches, expected)
    del found, batches


@pytest.mark.parametrize("inner", [[], [lk.Batch(2)]], ids=["one Batch", "two"])
def test_where_rows_change_a_batch_has_the_keys_in_the_order_of_its_own_first_row(inner):
    """However the tasks are cut: a batch may begin at any of a task's rows."""

    def turned(index: int) -> dict[str, int]:
        return {"a": index, "b": index} if index % 3 else {"b": index, "a": index}

    operations = [lk.Map(turned), lk.Filter(lambda row: row["a"] % 5 > 0), *inner, lk.Batch(4)]
    for task_rows in (None, 1, 7):
        loader = lk.DataLoader(
            data_source=lk.RangeDataSource(0, 40, 1), sampler=lk.SequentialSampler(40), operations=operations
        )
        loader = variant_of(loader, task_rows=task_rows)
        assert [[*batch] for batch in loader] == [[*turned(batch["a"].flat[0])] for batch in loader]


def test_columns_of_a_whole_batch_are_the_batch():
    """Arrays that a source gathered for one batch aren't copied once more."""

    given = []

    class Columns:
        def __len__(self):
            return 100

        def __getitem__(self, record_key):
            return {"x": np.full(4096, record_key)}

        def take(self, record_keys, out=None):
            assert out is None
            given.append(np.repeat(np.asarray(record_keys)[:, None], 4096, axis=1))
            return {"x": given[-1]}

    batches = list(lk.load(Columns(), num_epochs=1, batch_size=10))
    assert all(batch["x"] is gathered for batch, gathered in zip(batches, given, strict=True))
