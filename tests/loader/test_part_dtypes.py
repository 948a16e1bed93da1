"""Parts of a stream that give elements of other dtypes or structures are told before a batch depends on chance."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hosts import shards, together

import loaderkit as lk
from loaderkit._loader import part_dtypes, parts
from loaderkit._order.mixture.runs import MixtureRuns
from loaderkit._runtime.worker.reading import RecordReader

SINGLE = [{"x": np.float32(key), "y": key} for key in range(40)]
DOUBLE = [{"x": np.float64(key), "y": key} for key in range(40)]


def mixed(one: Any, other: Any) -> tuple[Any, Any]:
    return lk.mix({"web": one, "code": other}, {"web": 9, "code": 1}, shuffle=True, seed=0)


def in_turn(one: Any, other: Any) -> tuple[Any, Any]:
    return lk.interleave({"web": one, "code": other}, num_epochs=None)


def joined(one: Any, other: Any) -> tuple[Any, Any]:
    source = lk.MapDataSource(lk.ConcatDataSource({"web": one, "code": other}), dict)
    return source, lk.IndexSampler(len(source))


def by_class(one: Any, other: Any) -> tuple[Any, Any]:
    return lk.balance([*one, *other], ["web"] * len(one) + ["code"] * len(other), shuffle=True, seed=0)


def by_length(one: Any, other: Any) -> tuple[Any, Any]:
    return [*one, *other], lk.samplers.InterleavedSampler([len(one), len(other)], num_epochs=None)


def loader_of(parts: tuple[Any, Any], *operations: Any, batch: Any = None, **options: Any) -> "lk.DataLoader":
    operations = (*operations, batch or lk.Batch(4))
    return lk.DataLoader(data_source=parts[0], sampler=parts[1], operations=operations, **options)


@pytest.mark.parametrize("make", [mixed, in_turn, joined, by_class, by_length])
@pytest.mark.parametrize("workers", [0, 2])
def test_other_dtypes_are_an_error_that_says_the_cast(make: Any, workers: int) -> None:
    """It names the parts, the leaf and both dtypes, again at each next(); with the cast pasted the loader works."""
    options = {"worker_count": workers, "worker_kind": "thread"}
    with loader_of(make(SINGLE, DOUBLE), **options) as loader, iter(loader) as it:
        for _ in range(2):
            with pytest.raises(
                lk.errors.BatchError, match=r"^parts .* of one dtype in leaf \['x'\], got float"
            ) as error:
                next(it)
        assert it.step == 0
    text = str(error.value)
    assert {"float32", "float64"} <= {*re.findall(r"\w+", text.partition("(")[0])}
    names = {"0", "1"} if make is by_length else {"web", "code"}
    assert {*re.findall(r"'(\w+)'", text.partition(":")[0])} == names
    cast = eval(text.partition("put before the Batch ")[2], {"lk": lk, "np": np})
    with loader_of(make(SINGLE, DOUBLE), cast, **options) as loader:
        assert {next(it)["x"].dtype for it in [iter(loader)] for _ in range(5)} == {np.dtype(np.float64)}


def quiet(parts: tuple[Any, Any], *operations: Any, **options: Any) -> list[Any]:
    """Some batches, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        it = iter(loader_of(parts, *operations, **options))
        return [next(it) for _ in range(4)]


def test_what_is_not_compared() -> None:
    """Shapes before a PadBatch, the order of keys, a Python number and numpy's, and what a batch_fn is given."""
    rows = [[{"y": 3, "x": np.arange(key, dtype=np.int32)} for key in range(1, 9)], []]
    rows[1] = [{"x": np.arange(9, dtype=np.int32), "y": np.int64(3)} for _ in range(8)]
    quiet(in_turn(*rows), batch=lk.PadBatch(4, boundaries={"x": [16]}))
    quiet(in_turn(SINGLE, DOUBLE), batch=lk.Batch(4, batch_fn=list))
    loader = lk.DataLoader(data_source=in_turn(SINGLE, DOUBLE)[0], sampler=lk.SequentialSampler(80))
    assert len(list(loader)) == 80
    quiet(in_turn([{"x": "a"}], [{"x": "abc"}]))
    with pytest.raises(
        lk.errors.BatchError, match=r"int64 and uint64 .* put before the Batch a Map that makes them equal$"
    ):
        next(iter(loader_of(in_turn([np.int64(1)], [np.uint64(1)]))))


def test_structures_and_what_a_pack_gives_are_compared() -> None:
    """Another key, and the dtype of a packed row."""
    with pytest.raises(
        lk.errors.BatchError, match=r"of one structure, got \{'x': \*, 'y': \*\} and \{'x': \*\}"
    ):
        next(iter(loader_of(in_turn(SINGLE, [{"x": 1.5}]))))
    packed = in_turn([{"ids": np.arange(3, dtype=np.int32), "url": "a"}], [{"ids": np.arange(3)}])
    with pytest.raises(lk.errors.BatchError, match=r"dtype in leaf \['ids'\], got int32 and int64"):
        next(iter(loader_of(packed, lk.Pack(8, window=4, feature="ids"))))
    same = in_turn([{"ids": np.arange(3), "url": "a"}], [{"ids": np.arange(3)}])
    quiet(same, lk.Pack(8, window=4, feature="ids"))


def bad(element: Any) -> Any:
    if element["y"] % 2 == 0:
        raise ValueError("bad")
    return element


def test_a_bad_or_filtered_record_says_nothing() -> None:
    """The stream goes on as its user says."""
    others = [{"x": "none", "y": 0}, *SINGLE[1::2]]
    assert {
        batch["x"].dtype.name for batch in quiet(in_turn(SINGLE, others), bad, on_record_error="replace")
    } == {"float32"}
    quiet(in_turn(SINGLE, others), lk.Filter(lambda element: element["y"] % 2), batch=lk.Batch(4))


def test_at_a_restored_state_it_is_a_warning() -> None:
    """A run that has gone on so until now goes on."""
    with iter(loader_of(mixed(SINGLE, DOUBLE), lambda element: element["y"])) as it:
        next(it)
        saved = it.get_state()
    it = iter(loader_of(mixed(SINGLE, DOUBLE)))
    it.set_state(saved, allow={"parameters"})
    with pytest.warns(
        UserWarning, match=r"^parts 'web' and 'code': expected elements of one dtype in leaf \['x'\]"
    ):
        next(it)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(it)


@pytest.mark.parametrize(("parts", "each", "other"), [(100, 30, 80), (3, 10_000, 2)])
def test_the_first_parts_are_made_before_the_first_step_others_when_the_stream_meets_them(
    parts: int, each: int, other: int
) -> None:
    """At most 64 records are read for it then, and the steps before a part that differs are as ever."""
    made: list[int] = []

    def value(key: int) -> Any:
        made.append(key)
        return np.float64(key) if key // each == other else np.float32(key)

    source = lk.ConcatDataSource(
        [lk.RangeDataSource(part * each, (part + 1) * each, 1) for part in range(parts)]
    )
    it = iter(loader_of((source, lk.SequentialSampler(parts * each)), value, batch=lk.Batch(10)))
    it.start_prefetch()
    assert made == [part * each for part in range(64 if parts > 64 else 1)]
    rows = [key for _ in range(other * each // 10) for key in next(it).tolist()]
    for _ in range(2):
        with pytest.raises(
            lk.errors.BatchError, match=rf"'0' and '{other}': .* \(record keys 0 and {other * each}\)"
        ):
            next(it)
    assert rows == [*range(other * each)]


def test_a_part_is_compared_in_the_step_that_meets_it() -> None:
    """Where that step is the first one behind what was looked through, it was compared a step later."""
    source = lk.ConcatDataSource([range(9000), range(9000, 20_000)])
    sampler = lk.SequentialSampler(20_000)
    loader = loader_of(
        (source, sampler), lambda key: float(key) if key < 9000 else key, batch=lk.Batch(10_000)
    )
    with pytest.raises(lk.errors.BatchError, match=r"record keys 0 and 9000"):
        next(iter(loader))


def test_a_function_whose_dtype_depends_on_the_record_is_told_once() -> None:
    """With the step, and the keys of two records."""

    def value(key: int) -> Any:
        return np.float32(key) if key < 45 else np.float64(key)

    source = lk.ConcatDataSource([range(40), range(40, 400)])
    for operations in ([value], [lk.Filter(lambda key: key != 7), value]):
        it = iter(loader_of((source, lk.SequentialSampler(400)), *operations, batch=lk.Batch(10)))
        told = r"^step \d: .* of one dtype, got float32 and float64 \(record keys 0 and 45\).*'float64'\)\)$"
        with pytest.warns(UserWarning, match=told) as caught:
            assert len(list(it)) == 40
        assert len(caught) == 1


def test_parts_that_come_one_after_the_other_are_made_by_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """One was made at each step that met a part, which asks all parts: 0.8 ms of 3,000."""
    made: list[Any] = []
    monkeypatch.setattr(
        part_dtypes,
        "RecordReader",
        lambda *args, **options: made.append(args) or RecordReader(*args, **options),
    )
    source = lk.ConcatDataSource([range(part, part + 20) for part in range(0, 4000, 20)])
    it = iter(loader_of((source, lk.IndexSampler(4000, shuffle=True, seed=0))))
    rows = [next(it) for _ in range(500)]
    assert len(rows) == 500 and len(made) == 1


def test_a_component_that_reweigh_begins_with_is_compared_as_it_comes() -> None:
    """Its place was looked for by the weights of before, 8,192 indices ahead."""
    it = iter(
        loader_of(lk.mix({"web": SINGLE, "code": SINGLE, "late": DOUBLE}, {"web": 1, "code": 1}, seed=0))
    )
    next(it)
    it.reweigh({"web": 1, "late": 1})
    with pytest.raises(lk.errors.BatchError, match="and 'late': expected elements of one dtype"):
        [next(it) for _ in range(4)]


def test_what_is_done_for_each_step_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of weight 0 isn't looked for in the order, and batches with containers in them aren't described again.

    Both took half as much time as the steps.
    """
    rows = [{"x": np.float32(key), "more": {"y": key, "text": "t" * key}} for key in range(40)]
    weights = {"web": 1, "code": 1, "none": 0}
    it = iter(loader_of(lk.mix(dict.fromkeys(weights, rows), weights, seed=0)))
    next(it)
    watch = it._reader._watch
    assert watch is not None
    for module, name in ((part_dtypes, "_spec_of"), (parts, "record_keys_of"), (MixtureRuns, "__call__")):
        monkeypatch.setattr(module, name, None)
    before, after = it._reader.position, it._reader.position._replace(step=2000)
    for text in ("a", "abc"):
        batch = {"x": np.ones(4, np.float32), "more": {"y": np.arange(4), "text": np.array([text] * 4)}}
        watch.after_step(it._plan, before, after, batch)


def test_classes_that_a_restored_run_has_begun_are_compared() -> None:
    """Only the first record of each was known to be of it, and was behind."""
    it = iter(loader_of(by_class(SINGLE * 400, DOUBLE * 400)))
    it.seek(100)
    with pytest.warns(UserWarning, match=r"^parts '(web|code)' and '(web|code)': expected elements of one"):
        next(it)


def test_hosts_compare_what_elements_are() -> None:
    """A host whose functions give other dtypes is told at once; it took the store's timeout, and the error misled."""
    hosts = shards(2, timeout=20)

    def first(host: int) -> Any:
        kind = np.float64 if host else np.float32
        loader = loader_of(in_turn(range(9), range(9)), lk.Map(kind), shard_options=hosts[host])
        return next(iter(loader))

    with pytest.raises(ValueError, match=r"elements: .*float32.* on process 0; .*float64.* on process 1"):
        together(first, 2)
