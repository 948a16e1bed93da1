"""check_pipeline finds each broken rule and names the operation and the leaf; correct pipelines pass."""

import itertools
import os
import random
import time
import warnings
from typing import Any

import numpy as np
import pytest
from internals import executor_of, was_iterated

import loaderkit as lk
from loaderkit.errors import PurityError

COUNT = itertools.count()
CONSTANT = np.arange(4.0)


def record(x: int) -> dict[str, Any]:
    return {"key": x, "x": np.full(4, x, np.float32)}


def forget_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check doesn't wait for the next second."""
    from loaderkit.testing import pipeline

    monkeypatch.setattr(pipeline, "_CLOCK_SECONDS", 0.0)


def with_leaf(**functions: Any) -> Any:
    def add(element: dict[str, Any]) -> dict[str, Any]:
        return {**element, **{name: function(element) for name, function in functions.items()}}

    return add


class Previous(lk.Map):
    """Keeps the last record."""

    def __init__(self) -> None:
        self.last = 0

    def map(self, element: Any) -> Any:
        made = {**element, "seen": self.last}
        self.last = element["key"]
        return made


class Buffer(lk.Map):
    """Hands the same array out again and again."""

    def __init__(self) -> None:
        self.buffer = np.zeros(4, np.float32)

    def map(self, element: Any) -> Any:
        self.buffer += element["x"]
        return {**element, "sum": self.buffer}


class KeepsRng(lk.RandomMap):
    """Uses the generator of an earlier record."""

    def __init__(self) -> None:
        self.rngs: list[Any] = []

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        self.rngs.append(np.random.default_rng(int(rng.integers(1000))))
        return {**element, "noise": self.rngs[0].random()}


def cache_by_size(element: Any, seen: dict[int, Any] = {}) -> Any:  # noqa: B006 - the sin
    return {**element, "first": seen.setdefault(element["key"] % 3, element["key"])}


def writes_into_constant(element: Any) -> Any:
    CONSTANT[0] += element["key"]
    return {**element, "table": CONSTANT.copy()}


SINS: dict[str, tuple[Any, str, str]] = {
    # operation, the leaf, a word of the reason
    "numpy's global generator": (
        with_leaf(noise=lambda e: np.random.random()),
        "['noise']",
        "lk.transforms.Seeded(function)",
    ),
    "Python's global generator": (
        with_leaf(noise=lambda e: random.random()),
        "['noise']",
        "lk.transforms.Seeded(function)",
    ),
    "an unseeded generator that Seeded can't reach": (
        lk.transforms.Seeded(with_leaf(noise=lambda e: np.random.default_rng().random())),
        "['noise']",
        "unseeded generator",
    ),
    "a clock": (with_leaf(time=lambda e: time.time()), "['time']", "clock"),
    "a clock of seconds": (with_leaf(time=lambda e: int(time.time())), "['time']", "clock"),
    "a set": (with_leaf(words=lambda e: "".join({*"abcdefghijkl"})), "['words']", "order of a set"),
    "the process": (with_leaf(pid=lambda e: os.getpid()), "['pid']", "os.getpid()"),
    "a counter": (with_leaf(n=lambda e: next(COUNT)), "['n']", ""),
    "the record before": (Previous(), "['seen']", "kept from one record to the next"),
    "a buffer": (Buffer(), "['sum']", "kept from one record to the next"),
    "an rng that is kept": (KeepsRng(), "['noise']", "kept from one record to the next"),
    "a cache": (cache_by_size, "['first']", ""),
    "writing into a constant": (writes_into_constant, "['table']", ""),
}


def loader_of(*operations: Any, **options: Any) -> "lk.DataLoader":
    options = {"data_source": range(64), "sampler": lk.IndexSampler(64, shuffle=True, seed=3)} | options
    return lk.DataLoader(operations=operations, **options)


# Found by processes that start again and again; "a set" stands for them in the test command.
SLOW = {"the process", "a cache", "a clock of seconds"}
SOME_SECONDS = {"a set"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SOME_SECONDS)) for name in SINS]
)
def test_each_sin_is_found_and_named(name, nightly, monkeypatch):
    """The operation by its place and name, the leaf by its path, and what it probably does."""
    if name in SLOW and not nightly:
        pytest.skip("the nightly run does it")
    if "seconds" not in name:
        forget_the_clock(monkeypatch)
    sin, leaf, reason = SINS[name]
    loader = loader_of(
        record, with_leaf(y=lambda e: e["key"] + 1), sin, lk.Batch(4), with_leaf(z=lambda b: 0)
    )
    with pytest.raises(PurityError) as found:
        lk.testing.check_pipeline(loader, batches=6)
    assert found.value.operation.startswith("operations[2] ")
    assert found.value.leaf == leaf
    for said in ("operations[2] ", leaf, reason):
        assert said in str(found.value)


@pytest.mark.parametrize(
    "place", ["Filter", "FlatMap", "behind the Batch", "a batch_fn", "MapWithIndex", "without a Batch"]
)
def test_a_sin_is_found_wherever_it_stands(place, monkeypatch):
    """Every kind of operation is tried."""
    forget_the_clock(monkeypatch)
    random_number = with_leaf(noise=lambda e: np.random.random())
    operations = {
        "Filter": [record, lk.Filter(lambda e: np.random.random() < 0.5), lk.Batch(4)],
        "FlatMap": [record, lk.FlatMap(lambda e: [e] * np.random.randint(3)), lk.Batch(4)],
        "behind the Batch": [record, lk.Batch(4), random_number],
        "a batch_fn": [record, lk.Batch(4, batch_fn=lambda rows: rows[np.random.randint(4)])],
        "MapWithIndex": [record, lk.MapWithIndex(lambda i, e: np.random.random()), lk.Batch(4)],
        "without a Batch": [record, random_number],
    }[place]
    culprit = 2 if place == "behind the Batch" else 1
    with pytest.raises(
        PurityError, match=rf"operations\[{culprit}\] .*(draws from|unseeded generator)"
    ) as found:
        lk.testing.check_pipeline(loader_of(*operations))
    assert found.value.operation.startswith(f"operations[{culprit}] ")


class Counter(lk.Map):
    """Breaks a rule from record 20 on, in a step of the whole pipeline and late in its shorter beginnings."""

    def __init__(self) -> None:
        self.count = 0

    def map(self, element: int) -> int:
        if element < 20:
            return element
        self.count += 1
        return element + self.count


def test_a_run_of_few_steps_is_searched_to_its_end(monkeypatch):
    """The loader's num_steps counts batches, and no records of a beginning of the pipeline."""
    forget_the_clock(monkeypatch)
    loader = loader_of(Counter(), lambda x: x, lk.Batch(16), sampler=lk.SequentialSampler(64), num_steps=3)
    with pytest.raises(PurityError) as found:
        lk.testing.check_pipeline(loader, batches=3)
    assert found.value.operation == "operations[0] Counter"


@pytest.mark.slow
def test_the_users_quarantine_file_is_left_alone(tmp_path):
    """Its runs don't count as the user's iterations."""

    def decode(element: int) -> int:
        if element == 0:
            raise ValueError("bad")
        return element

    path = tmp_path / "bad.jsonl"
    lk.testing.check_pipeline(
        loader_of(decode, lk.Batch(16), on_record_error="replace", quarantine=path), batches=4
    )
    assert not path.exists()


@pytest.mark.slow
def test_a_filter_that_leaves_less_the_next_time_is_named():
    """Elements that are missing differ too."""
    left = iter(range(30))
    loader = loader_of(
        lk.Filter(lambda x: next(left, None) is not None),
        data_source=range(40),
        sampler=lk.SequentialSampler(40),
        worker_kind="thread",
    )
    with pytest.raises(PurityError, match=r"operations\[0\] Filter.*element 0.*is there .* and missing"):
        lk.testing.check_pipeline(loader, batches=30)


class Owner:
    """A source that hands out arrays of its own."""

    def __init__(self) -> None:
        self.records = [record(x) for x in range(64)]

    def __len__(self) -> int:
        return 64

    def __getitem__(self, key: int) -> Any:
        return self.records[key]


def scale(element: Any) -> Any:
    element["x"] *= 2
    return element


@pytest.mark.parametrize("source", [Owner, lambda: Owner().records], ids=["own source", "list"])
def test_writing_into_the_source_is_found_and_does_no_harm(source):
    """The record and the leaf are named, and the source is as it was."""
    data = source()
    loader = loader_of(with_leaf(y=lambda e: 1), scale, lk.Batch(4), data_source=data)
    with pytest.raises(
        PurityError, match=r"operations\[1\] Map\(scale\) writes .*\['x'\] of record_key \d+.*copy"
    ):
        lk.testing.check_pipeline(loader)
    assert [int(data[k]["x"][0]) for k in range(64)] == [*range(64)]


class Restless:
    """A source whose records change."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, key: int) -> Any:
        return {"key": key, "read": next(COUNT)}


def test_a_source_that_changes_is_named():
    """No operation is blamed for it."""
    with pytest.raises(
        PurityError, match=r"data_source\[\d+\]: expected the same record .*\['read'\]"
    ) as found:
        lk.testing.check_pipeline(loader_of(lk.Batch(4), data_source=Restless()))
    assert (found.value.operation, found.value.leaf) == ("data_source", "['read']")


def noisy(element: Any, rng: np.random.Generator) -> Any:
    return {**element, "noise": rng.normal(size=3)}


def legacy(element: Any) -> Any:
    return {**element, "noise": np.random.random() + random.random()}


def fresh(element: Any) -> Any:
    element["x"] = element["x"] + 1  # the dict is its own
    element["x"] *= 2  # and so is the new array
    return element


class Opener(lk.Map):
    """Keeps what doesn't change results."""

    def __init__(self) -> None:
        self.table: Any = None

    def map(self, element: Any) -> Any:
        if self.table is None:
            self.table = np.arange(100)
        return {**element, "looked up": self.table[element["key"]]}


# The others run with threads here, which start at once.
IN_PROCESSES = {"Seeded", "logical streams"}
CLEAN: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "nothing": ([], {}),
    "Batch": ([lk.Batch(4)], {}),
    "Map": ([record, fresh, lk.Batch(4)], {}),
    "RandomMap": ([record, lk.RandomMap(noisy), lk.Batch(4), lk.RandomMap(noisy)], {}),
    "Seeded": ([record, lk.transforms.Seeded(legacy), lk.Batch(4)], {}),
    "MapWithIndex": ([record, lk.MapWithIndex(lambda i, e: {**e, "i": i})], {}),
    "Filter": ([record, lk.Filter(lambda e: e["key"] % 3 > 0), lk.RandomMap(noisy), lk.Batch(4)], {}),
    "FlatMap": ([lk.FlatMap(range), record, lk.RandomMap(noisy), lk.Batch(4)], {}),
    "batches of batches": ([record, lk.Batch(2), lk.Batch(2, batch_fn=lambda rows: rows[::-1])], {}),
    "what is opened late": ([record, Opener(), lk.Batch(4)], {}),
    "a finite stream": ([record, lk.Batch(5)], {"sampler": lk.IndexSampler(64, num_epochs=1)}),
    "a shard": ([record, lk.Batch(global_batch_size=8)], {"shard_options": lk.ShardOptions(1, 2)}),
    "logical streams": (
        [record, lk.Filter(lambda e: e["key"] % 3 > 0), lk.Batch(global_batch_size=8)],
        {"shard_options": lk.ShardOptions(1, 2), "logical_streams": 2},
    ),
    "threads": ([record, lk.RandomMap(noisy), lk.Batch(4)], {"worker_kind": "thread", "worker_count": 2}),
    "sets and NaNs as values": ([lambda x: {"s": frozenset("abc"), "n": float("nan"), "o": object}], {}),
    "arrays of its own": ([fresh, lk.Batch(4)], {"data_source": lk.ArrayDataSource({"x": np.ones((64, 2))})}),
}


@pytest.mark.parametrize("name", CLEAN)
def test_clean_pipelines_pass(name, monkeypatch):
    """The loader and the global generators are unchanged after it."""
    operations, options = CLEAN[name]
    forget_the_clock(monkeypatch)
    options = {"worker_kind": "process" if name in IN_PROCESSES else "thread"} | options
    loader = loader_of(*operations, **options)
    random.seed(5)
    np.random.seed(5)
    lk.testing.check_pipeline(loader)
    assert (random.random(), np.random.random()) == (
        random.Random(5).random(),
        np.random.RandomState(5).random(),
    )
    assert executor_of(loader) is None and not was_iterated(loader)


class KeepsFirst(lk.Map):
    """Divides all by what the first record had: the same in each forward run of one object."""

    def __init__(self) -> None:
        self.mean: Any = None

    def map(self, element: Any) -> Any:
        if self.mean is None:
            self.mean = element["x"].mean()
        return {**element, "scaled": element["x"] - self.mean}


class KeepsSet(lk.Map):
    """Keeps what stops changing after a few records."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def map(self, element: Any) -> Any:
        new = element["key"] % 3 not in self.seen
        self.seen.add(element["key"] % 3)
        return {**element, "new": new}


class KeepsScale(lk.RandomMap):
    """Draws once."""

    def __init__(self) -> None:
        self.scale: Any = None

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        if self.scale is None:
            self.scale = rng.random()
        return {**element, "x": element["x"] * self.scale}


class Novel(lk.Filter):
    """Keeps the first of like records."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def filter(self, element: Any) -> bool:
        kind = element["key"] % 5
        novel = kind not in self.seen or element["key"] % 2 > 0
        self.seen.add(kind)
        return novel


def kept_by_a_batch_fn() -> Any:
    first: list[Any] = []

    def stacked(rows: list[Any]) -> Any:
        first.append(rows[0]["key"])
        return {"key": np.array([row["key"] for row in rows]), "first": first[0]}

    return lk.Batch(4, batch_fn=stacked)


def kept_in_a_closure() -> Any:
    mean = None

    def scaled(element: Any) -> Any:
        nonlocal mean
        mean = element["key"] if mean is None else mean
        return {**element, "scaled": element["key"] - mean}

    return scaled


def kept_in_a_class() -> Any:
    class Keeps(lk.Map):
        mean = None

        def map(self, element: Any) -> Any:
            if type(self).mean is None:
                type(self).mean = element["key"]
            return {**element, "scaled": element["key"] - type(self).mean}

    return Keeps()


LIMITS: dict[str, int] = {}


KEPT: dict[str, Any] = {
    "the first record": KeepsFirst,
    "a set that is soon full": KeepsSet,
    "what was drawn first": KeepsScale,
    "a Filter": Novel,
    "a batch_fn": kept_by_a_batch_fn,
    "a closure": kept_in_a_closure,
    "a class that can't be imported": kept_in_a_class,
    "a global": lambda: with_leaf(limit=lambda e: LIMITS.setdefault("limit", e["key"])),
}


def unchanged(element: Any) -> Any:
    return {**element}


@pytest.mark.parametrize("kept", KEPT)
def test_what_the_first_run_fills_is_found_at_the_operation_that_keeps_it(kept, monkeypatch):
    """Each run has copies of its own: none is equal to another because an earlier one filled what both use."""
    forget_the_clock(monkeypatch)
    behind = [lambda x: x, lambda x: x] if kept == "a batch_fn" else [unchanged, lk.Batch(4)]
    loader = loader_of(record, unchanged, KEPT[kept](), *behind, worker_kind="thread")
    with pytest.raises(PurityError, match="kept from one record to the next") as found:
        lk.testing.check_pipeline(loader, batches=6)
    assert found.value.operation.startswith("operations[2] ")


def mixed(*, of_a_part: Any = None, draws: bool = False) -> Any:
    """Two parts, one of them with an operation more, which stands in the source where no part draws."""
    one, two = (lk.Dataset(range(32)).shuffle(seed=1).repeat().map(record) for _ in range(2))
    if draws:
        one, two = (each.random_map(noisy) for each in (one, two))
    if of_a_part is not None:
        one, two = one.map(of_a_part), two.map(lambda x: {**x, "scaled": x["x"]})
    return lk.Dataset.mix({"one": one, "two": two}, seed=0)


def test_what_a_part_of_a_mixture_keeps_is_found(monkeypatch):
    """Also where its operations are functions of the source, which is named then, with the function."""
    forget_the_clock(monkeypatch)
    options = {"worker_kind": "thread"}
    loader = mixed(of_a_part=KeepsFirst()).map(unchanged).batch(4).loader(**options)
    with pytest.raises(PurityError, match=r"\. It is MapDataSource\(KeepsFirst\.map\)$") as found:
        lk.testing.check_pipeline(loader)
    assert found.value.operation == "data_source"
    loader = mixed(of_a_part=KeepsFirst(), draws=True).batch(4).loader(**options)
    with pytest.raises(PurityError, match=r"kept from one record") as found:
        lk.testing.check_pipeline(loader)
    assert found.value.operation == "one: KeepsFirst"
    with pytest.raises(PurityError, match=r"kept from one record") as found:
        lk.testing.check_pipeline(mixed().map(KeepsFirst()).batch(4).loader(**options))
    assert found.value.operation == "operations[0] KeepsFirst"
    lk.testing.check_pipeline(mixed(draws=True).batch(4).loader(**options))
    lk.testing.check_pipeline(mixed(of_a_part=lambda x: {**x, "scaled": x["x"]}).batch(4).loader(**options))


def test_the_functions_of_a_source_are_those_from_before_afterwards(monkeypatch):
    """The copies stand in a MapDataSource for the time of the check alone."""
    forget_the_clock(monkeypatch)
    function = KeepsFirst()
    source = lk.ConcatDataSource({"a": lk.MapDataSource([record(x) for x in range(64)], function.map)})
    with pytest.raises(PurityError):
        lk.testing.check_pipeline(loader_of(lk.Batch(4), data_source=source, worker_kind="thread"))
    assert function.mean is None
    assert source[3]["scaled"].tolist() == [0.0] * 4 and function.mean == 3.0


def test_a_warning_of_a_second_run_is_none_of_the_users(monkeypatch):
    """A loader of one shuffled epoch passes where warnings are errors."""
    forget_the_clock(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = lk.load(list(range(64)), batch_size=4, shuffle=True, num_epochs=1, seed=0)
        lk.testing.check_pipeline(loader)


def test_an_operation_that_knows_an_object_of_the_source_is_shared(monkeypatch):
    """Threads give it the object itself, which a copy of the operation's globals isn't."""
    forget_the_clock(monkeypatch)
    names = {"__name__": "__main__", "MISSING": object()}
    exec("def number(x): return -1 if x is MISSING else int(x)", names)
    source = [names["MISSING"] if x % 5 == 0 else x for x in range(64)]
    operations = [lk.Map(names["number"]), lk.Batch(4)]
    report = lk.testing.check_pipeline(loader_of(*operations, data_source=source, worker_kind="thread"))
    assert "operations[0] Map(number)" in report.shared


class KeepsAndRaises(KeepsFirst):
    """And finds the record 3 bad."""

    def map(self, element: Any) -> Any:
        if element["key"] == 3:
            raise ValueError("bad record")
        return super().map(element)


def test_the_function_of_a_source_is_named_beside_a_bad_record(monkeypatch):
    """The record is left out by the loader, and says nothing of the function."""
    forget_the_clock(monkeypatch)
    source = lk.MapDataSource([record(x) for x in range(64)], KeepsAndRaises().map)
    loader = loader_of(lk.Batch(4), data_source=source, worker_kind="thread", on_record_error="skip")
    with pytest.raises(PurityError, match=r"It is MapDataSource\(KeepsAndRaises\.map\)$"):
        lk.testing.check_pipeline(loader)


def test_a_source_that_two_others_read_is_named_before_these(monkeypatch):
    """Whichever of them stands first."""
    forget_the_clock(monkeypatch)
    bad = lk.MapDataSource([record(x) for x in range(64)], KeepsFirst().map)
    clean = lk.MapDataSource(bad, unchanged)
    for parts in ([clean, bad], [bad, clean]):
        loader = loader_of(lk.Batch(4), data_source=lk.ConcatDataSource(parts), worker_kind="thread")
        with pytest.raises(PurityError, match=r"It is MapDataSource\(KeepsFirst\.map\)$"):
            lk.testing.check_pipeline(loader)


class Remembers(lk.Map):
    """Hands out what it made before, which a later operation has changed by then."""

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}

    def map(self, element: Any) -> Any:
        return self.made.setdefault(element["key"], {**element})


def test_what_shows_when_a_record_comes_again_is_found(monkeypatch):
    """Two runs in a row have the same objects."""
    forget_the_clock(monkeypatch)

    def doubled(element: Any) -> Any:
        element["x"] *= 2
        return element

    with pytest.raises(PurityError, match=r"in this process again") as found:
        lk.testing.check_pipeline(loader_of(record, Remembers(), doubled, lk.Batch(4), worker_kind="thread"))
    assert found.value.operation == "operations[2] Map(doubled)"


class InItsClass(lk.Map):
    """Of a module: keeps what no copy of it has."""

    seen: set[int] = set()  # noqa: RUF012 - the sin

    def map(self, element: Any) -> Any:
        new = element["key"] % 3 not in self.seen
        self.seen.add(element["key"] % 3)
        return {**element, "new": new}


def test_where_it_shows_once_only_no_operation_is_blamed(monkeypatch):
    """What a class keeps is full when single operations are tried: none is named for the one before it."""
    forget_the_clock(monkeypatch)
    loader = loader_of(record, InItsClass(), unchanged, lk.Batch(4), worker_kind="thread")
    with pytest.raises(PurityError, match=r"leaf \['new'\].*check_operation") as found:
        lk.testing.check_pipeline(loader)
    assert found.value.operation == "operations"


class Handle:
    """Can't be copied, as an open file of a library."""

    def __reduce__(self) -> Any:
        raise TypeError("no copies")


class Large(Owner):
    """A source that would be slow to copy."""

    def __reduce__(self) -> Any:
        raise AssertionError("copied")


def test_what_cannot_be_copied_is_shared_by_all_runs_and_said(monkeypatch):
    """It is checked as far as that shows, those beside it with copies; the source is never copied."""
    forget_the_clock(monkeypatch)
    handle = Handle()
    opened = lk.Map(lambda x: {**x, "y": handle is not None})
    options = {"data_source": Large(), "worker_kind": "thread"}
    report = lk.testing.check_pipeline(loader_of(unchanged, opened, lk.Batch(4), **options))
    assert len(report.shared) == 1 and report.shared[0].startswith("operations[1] Map(")
    assert lk.testing.check_pipeline(loader_of(unchanged, lk.Batch(4), **options)).shared == ()
    with pytest.raises(PurityError) as found:
        lk.testing.check_pipeline(loader_of(opened, KeepsFirst(), unchanged, lk.Batch(4), **options))
    assert found.value.operation == "operations[1] KeepsFirst"


def test_operations_that_share_an_object_share_it_in_the_copies(monkeypatch):
    """As in a worker process."""
    forget_the_clock(monkeypatch)
    table: dict[int, int] = {}

    def fill(element: Any) -> Any:
        table[element["key"]] = 2 * element["key"]
        return element

    def look_up(element: Any) -> Any:
        return {**element, "twice": table[element["key"]]}

    lk.testing.check_pipeline(loader_of(record, fill, look_up, lk.Batch(4), worker_kind="thread"))
    assert table == {}  # nor do the user's own objects change


def test_what_an_operation_raises_is_raised():
    """An operation may fail; the error says where, as always."""
    with pytest.raises(ZeroDivisionError) as error:
        lk.testing.check_pipeline(loader_of(lambda x: 1 // (x - x), lk.Batch(4)))
    assert any("operations[0]" in note for note in error.value.__notes__)


def test_an_operation_that_cannot_travel_is_named():
    """The check runs it in workers too."""
    import threading

    lock = threading.Lock()
    with pytest.raises(lk.errors.TransportError, match=r"operations\[0\] Map"):
        lk.testing.check_pipeline(loader_of(lambda x: lock and x, lk.Batch(4)))


@pytest.mark.parametrize(("arguments", "error"), [((iter([1]),), TypeError), ((None, 1), TypeError)])
def test_anything_else_is_refused(arguments, error):
    """A loader, and at least two batches."""
    with pytest.raises(error):
        lk.testing.check_pipeline(*arguments)
    with pytest.raises(ValueError, match="batches"):
        lk.testing.check_pipeline(loader_of(), batches=1)
