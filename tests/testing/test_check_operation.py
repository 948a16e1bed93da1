"""check_operation: every check finds an operation that breaks its rule, and those of loaderkit keep all rules."""

import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.errors import ConformanceError
from loaderkit.testing import check_operation, operation_checks, workers
from loaderkit.testing.operation_calls import OperationCalls
from loaderkit.testing.snapshot import difference, snapshot_of
from loaderkit.testing.workers import in_another_process
from loaderkit.transforms import image
from loaderkit.transforms.operations import as_operations

NAMES = [check.name for check in operation_checks._CHECKS]
ELEMENTS = [{"key": key, "x": np.arange(3.0) + key} for key in (1, 2, 3)]
COUNT = itertools.count()
CHILDREN = itertools.count()


def with_leaf(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda element: {**element, "new": function(element)}


def fails(element: Any) -> Any:
    raise OSError("truncated")


def seeds(element: Any) -> Any:
    np.random.seed(0)
    return np.random.random()


class NoAnswer(lk.Filter):
    def filter(self, element: Any) -> Any:
        element["key"] > 2  # noqa: B015 - the return that is missing


class Forgets(lk.Map):
    def __init__(self, add: int = 0) -> None:
        self.add = add

    def map(self, element: Any) -> Any:
        return element["key"] + self.add

    def __reduce__(self) -> Any:
        return Forgets, (1,)


class Locked(lk.Map):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def map(self, element: Any) -> Any:
        return element


class OpensFile(lk.Map):
    """Can be pickled until it runs."""

    lock: Any = None

    def map(self, element: Any) -> Any:
        self.lock = self.lock or threading.Lock()
        return element


class RemembersFirst(lk.Map):
    """A cache under too short a key."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def map(self, element: Any) -> Any:
        return {**element, "first": self.seen.setdefault("key", element["key"])}


class Buffered(lk.Map):
    def __init__(self) -> None:
        self.buffer = np.zeros(3)

    def map(self, element: Any) -> Any:
        self.buffer[:] = element["x"]
        return self.buffer


def doubles_in_place(element: Any) -> Any:
    element["x"] *= 2
    return element["x"].copy()


class HandsOnGenerator(lk.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return {**element, "rng": rng}


class KeepsRows:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(self, rows: list[Any]) -> Any:
        self.kept.append(rows)
        return np.stack([row["x"] for row in rows])


class SharedPlace(lk.Map):
    place = 0

    def map(self, element: Any) -> Any:
        self.place = element["key"]
        time.sleep(0.0005)
        return self.place


@dataclass(frozen=True)
class CountsItself(lk.Map):
    count: int = 0

    def map(self, element: Any) -> Any:
        object.__setattr__(self, "count", self.count + 1)
        return element


class OtherRepr(lk.Map):
    def __init__(self) -> None:
        self.runs = 0

    def map(self, element: Any) -> Any:
        self.runs += 1
        return element

    def __repr__(self) -> str:
        return f"OtherRepr(runs={self.runs})"


def of_the_process() -> Any:
    trainer = os.getpid()
    return lambda element: os.getpid() - trainer  # by value, so that the worker needn't import this module


# For each check operations that break its rule and no earlier one, with a part of the message.
BROKEN: list[tuple[str, str, Callable[[], Any], str]] = [
    ("result", "raises", lambda: fails, "got OSError: truncated"),
    ("result", "Filter", NoAnswer, "a bool for element 0, got None"),
    (
        "result",
        "max_fan_out",
        lambda: lk.FlatMap(lambda x: [1, 2, 3], max_fan_out=2),
        "at most 2 elements of element 0",
    ),
    (
        "result",
        "endless",
        lambda: lk.FlatMap(lambda x: itertools.repeat(1)),
        "at most 1,000,000 elements of element 0",
    ),
    (
        "global generators",
        "numpy",
        lambda: with_leaf(lambda e: np.random.random()),
        "with another seed of random and",
    ),
    (
        "global generators",
        "random",
        lambda: with_leaf(lambda e: random.random()),
        "Make it a RandomMap and draw from",
    ),
    (
        "global generators unchanged",
        "seeds",
        lambda: seeds,
        "expected the generator of numpy.random as it was",
    ),
    (
        "global generators unchanged",
        "random",
        lambda: lambda e: random.random() < 2,
        "expected the generator of random as",
    ),
    (
        "asked again",
        "counter",
        lambda: with_leaf(lambda e: next(COUNT)),
        "leaf ['new'] of the result of element 0 to be ",
    ),
    (
        "asked again",
        "unseeded",
        lambda: with_leaf(lambda e: np.random.default_rng().random()),
        "when it is asked for again",
    ),
    ("asked again", "urandom", lambda: with_leaf(lambda e: os.urandom(4)), "when it is asked for again"),
    (
        "asked again",
        "Filter",
        lambda: lk.Filter(lambda e: next(COUNT) % 2 == 0),
        "when it is asked for again",
    ),
    (
        "asked again",
        "FlatMap",
        lambda: lk.FlatMap(lambda e: range(next(CHILDREN))),
        "the structure [",
    ),
    (
        "asked again",
        "batch_fn",
        lambda: lk.Batch(3, batch_fn=lambda rows: next(COUNT)),
        "when it is asked for again",
    ),
    (
        "asked again",
        "RandomMap",
        lambda: lk.RandomMap(lambda e, rng: next(COUNT)),
        "when it is asked for again",
    ),
    (
        "pickled copy",
        "state",
        Forgets,
        "of element 0 to be 1 from a pickled copy, got 2. Worker processes get",
    ),
    ("pickled copy", "lock", Locked, "got TypeError: cannot pickle '_thread.lock' object"),
    ("pickled copy", "after it ran", OpensFile, "got TypeError: cannot pickle '_thread.lock' object"),
    (
        "another order",
        "cache",
        RemembersFirst,
        "leaf ['first'] of the result of element 2 to be 1 when a copy is asked",
    ),
    (
        "kept results",
        "buffer",
        Buffered,
        "to be array([1., 2., 3.]) after other elements were worked on, got",
    ),
    (
        "input",
        "in place",
        lambda: doubles_in_place,
        "leaf ['x'] of element 0 that it is given to be array([1., 2., 3.])",
    ),
    ("generator", "handed on", HandsOnGenerator, "leaf ['rng'] of the result of element 0"),
    (
        "rows",
        "kept",
        lambda: lk.Batch(3, batch_fn=KeepsRows()),
        "no reference to the list of rows after the call, got 1",
    ),
    ("threads", "place", SharedPlace, "when several threads call it at once, got"),
    (
        "parameters",
        "field",
        CountsItself,
        """the parameters [{"name":"CountsItself","op":"Map","parameters":{"count":0}}]""",
    ),
    (
        "parameters",
        "repr",
        OtherRepr,
        "expected the repr OtherRepr(runs=0) after it ran, got OtherRepr(runs=",
    ),
    (
        "sent results",
        "lock",
        lambda: lambda element: threading.Lock(),
        "got TypeError: cannot pickle '_thread.lock'",
    ),
    ("another process", "pid", of_the_process, "of the result of element 0 to be 0 in a worker process, got"),
]


@pytest.mark.parametrize(
    ("name", "broken", "said"), [pytest.param(row[0], *row[2:], id=f"{row[0]}-{row[1]}") for row in BROKEN]
)
def test_each_check_finds_what_breaks_its_rule(name, broken, said):
    """By its own name, with what was expected, what came and what to do."""
    with pytest.raises(ConformanceError) as found:
        check_operation(broken(), *ELEMENTS)
    assert found.value.check == name
    text = str(found.value)
    assert text.startswith("check_operation: ") and f"check {name!r}: expected " in text
    assert said in text


def test_every_check_has_an_operation_that_breaks_it():
    """A new check comes with one."""
    assert list(dict.fromkeys(name for name, *_ in BROKEN)) == NAMES


def photograph(key: int) -> dict[str, Any]:
    import cv2

    pixels = np.random.Generator(np.random.Philox(key=key)).integers(0, 256, (40, 56, 3), np.uint8)
    return {"image": cv2.imencode(".jpg", pixels)[1].tobytes()}


JPEGS = [photograph(1), photograph(2)]
PIXELS = [{"image": np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3) + key} for key in (1, 2)]
FLOATS = [{"image": element["image"].astype(np.float32)} for element in PIXELS]
KEY: dict[str, Any] = {"key": "image"}
FIELDS = [{"__key__": f"{at}", "jpg": element["image"], "cls": b"3"} for at, element in enumerate(JPEGS)]
# One feature, x, an Int64List of 5.
EXAMPLE = bytes([0x0A, 12, 0x0A, 10, 0x0A, 1, ord("x"), 0x12, 5, 0x1A, 3, 0x0A, 1, 5])
LENGTHS = [{"x": np.arange(length)} for length in (1, 2, 6)]
COLUMNS: list[dict[str, Any]] = [
    {"age": np.array([17.0, np.nan]), "city": np.array(["Ulm", "Kiel"]), "day": np.array([6, 0])},
    {"age": np.array([70.0, 40.0]), "city": np.array([b"Jena", b"Ulm"], object), "day": np.array([3, 3])},
]
MIXED = [{"x": np.random.default_rng(seed).random((4, 8, 8, 3)), "y": np.arange(4) % 3} for seed in range(3)]
OWN: dict[str, tuple[Any, list[Any]]] = {
    "Map": (lk.Map(lambda e: {"y": e["x"] * 2}), ELEMENTS),
    "a function": (lambda e: {"y": e["x"] * 2}, ELEMENTS),
    "Seeded": (lk.transforms.Seeded(lambda e: np.random.random() + random.random()), ELEMENTS),
    "MapWithIndex": (lk.MapWithIndex(lambda index, e: {**e, "index": index}), ELEMENTS),
    "RandomMap": (lk.RandomMap(lambda e, rng: e["x"] + rng.normal(size=3)), ELEMENTS),
    "Filter": (lk.Filter(lambda e: e["key"] > 1), ELEMENTS),
    "FlatMap": (lk.FlatMap(lambda e: [e] * e["key"], max_fan_out=3), ELEMENTS),
    "Window": (lk.Window(3, lambda elements: elements[::-1]), ELEMENTS),
    "WindowShuffle": (lk.WindowShuffle(3), ELEMENTS),
    "Pack": (lk.Pack(4, window=3), [np.arange(3), np.arange(6), np.arange(1)]),
    "PadTo": (lk.PadTo(6, "x", mask="mask"), LENGTHS),
    "PadTo, truncated": (lk.PadTo(4, "x", truncate=True), LENGTHS),
    "Batch": (lk.Batch(3), ELEMENTS),
    "PadBatch": (lk.PadBatch(3, boundaries={"x": [2, 6]}, mask={"x": "mask"}), LENGTHS),
    "pad": (lk.Batch(global_batch_size=3, remainder="pad"), ELEMENTS),
    "batch_fn": (lk.Batch(3, batch_fn=lambda rows: rows[::-1]), ELEMENTS),
    "one element": (lk.Map(abs), [-3]),
    "containers": (lambda e: e.update(y=1) or e, ELEMENTS),
    "Decode": (image.Decode(**KEY), JPEGS),
    "DecodeCenterCrop": (image.DecodeCenterCrop(16, **KEY), JPEGS),
    "DecodeRandomResizedCrop": (image.DecodeRandomResizedCrop(16, **KEY), JPEGS),
    "Resize": (image.Resize(8, **KEY), PIXELS),
    "RandomResizedCrop": (image.RandomResizedCrop(8, **KEY), PIXELS),
    "RandomCrop": (image.RandomCrop(padding=2, **KEY), PIXELS),
    "RandomFlip": (image.RandomFlip(**KEY), PIXELS),
    "CenterCrop": (image.CenterCrop(8, **KEY), PIXELS),
    "Pad": (image.Pad(2, **KEY), PIXELS),
    "RandomRotate": (image.RandomRotate(30, **KEY), PIXELS),
    "RandomAffine": (image.RandomAffine(30, **KEY), PIXELS),
    "RandomPerspective": (image.RandomPerspective(p=1, **KEY), PIXELS),
    "ColorJitter": (image.ColorJitter(0.4, 0.4, 0.4, 0.1, **KEY), PIXELS),
    "RandomGrayscale": (image.RandomGrayscale(0.5, **KEY), PIXELS),
    "GaussianBlur": (image.GaussianBlur(3, **KEY), PIXELS),
    "RandomErasing": (image.RandomErasing(1, value="random", **KEY), PIXELS),
    "RandAugment": (image.RandAugment(**KEY), PIXELS),
    "TrivialAugment": (image.TrivialAugment(**KEY), PIXELS),
    "MixUp": (image.MixUp("x", "y", 3, group=2), MIXED),
    "CutMix": (image.CutMix("x", "y", 3, group=2), MIXED),
    "ToFloat": (image.ToFloat(**KEY), PIXELS),
    "Normalize": (image.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2), **KEY), PIXELS),
    "Normalize floats": (image.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2), **KEY), FLOATS),
    "HWCToCHW": (image.HWCToCHW(**KEY), PIXELS),
    "AsTuple": (lk.AsTuple("png;jpg", "cls"), FIELDS),
    "AsDict": (lk.AsDict(x=0, y=(1, "y")), [(1, {"y": 2}), (3, {"y": 4})]),
    "ByExtension": (lk.decode.ByExtension("rgb8"), FIELDS),
    "Example": (lk.decode.Example({"x": np.int64}), [EXAMPLE]),
    "Numeric": (lk.features.Numeric("age", mean=40, std=10, default=3), COLUMNS),
    "Bucketized": (lk.features.Bucketized("age", [18, 65], default=3), COLUMNS),
    "Identity": (lk.features.Identity("day", 7), COLUMNS),
    "Vocabulary": (lk.features.Vocabulary("city", ["Ulm"], num_oov_buckets=3), COLUMNS),
    "Hashed": (lk.features.Hashed("city", 100), COLUMNS),
    "Crossed": (lk.features.Crossed(["city", "day"], 100), COLUMNS),
    "OneHot": (lk.features.OneHot("day", 7), COLUMNS),
    "MultiHot": (lk.features.MultiHot("day", 7), COLUMNS),
}


@pytest.mark.parametrize("name", OWN)
def test_the_operations_of_loaderkit_keep_all_rules(name):
    """All but the worker process, which they share below."""
    operation, elements = OWN[name]
    report = check_operation(operation, *elements, skip=["another process"])
    assert len(report.passed) + len(report.skipped) == len(NAMES)
    assert report.pickled_bytes is not None


def run(calls: list[OperationCalls], place: int) -> Any:
    return [[one(at) for at in range(len(one))] for one in calls[place : place + 1]]


def test_the_operations_of_loaderkit_give_the_same_in_a_worker_process():
    """All of them in one."""
    calls = [OperationCalls(as_operations([one])[0], tuple(elements), 0) for one, elements in OWN.values()]
    for place, (name, got) in enumerate(
        zip(OWN, in_another_process(partial(run, calls), len(calls)), strict=True)
    ):
        assert difference(snapshot_of(run(calls, place)), snapshot_of(got)) is None, name


def test_every_public_operation_is_among_them():
    """A new one joins them."""
    operations = {
        name
        for name in dir(lk.transforms)
        if name not in ("ArraySpec", "Transformation", "image", "decode", "features")
    }
    assert operations | {*dir(image)} | {*dir(lk.decode)} - {"VocXml"} | {*dir(lk.features)} <= {*OWN}


def test_what_was_checked_and_what_was_not_is_reported():
    """All of it, in order."""
    report = check_operation(lambda x: x + 1, 1, 2, skip=["another process"])
    reasons = dict(report.skipped)
    assert reasons == {
        "another process": "left out by skip=",
        "generator": "a Map is given no generator",
        "rows": "the operation is no Batch with a batch_fn",
    }
    assert [name for name, _ in report.passed] == [name for name in NAMES if name not in reasons]
    assert str(report).startswith("Map(<lambda>): 11 passed, 3 skipped, ")


def test_what_cannot_be_checked_is_skipped_and_said():
    """One element has no order, and what can't be pickled isn't sent."""
    reasons = dict(check_operation(Locked(), 1, skip=["pickled copy"]).skipped)
    assert reasons["another order"] == reasons["kept results"] == "only one element was given"
    assert reasons["another process"] == "the operation can't be pickled"
    reasons = dict(check_operation(lambda e: threading.Lock(), 1, 2, skip=["sent results"]).skipped)
    assert "can't be sent back to be compared" in reasons["another process"]
    operation, elements = OWN["Seeded"]
    skipped = dict(check_operation(operation, *elements, skip=["another process"]).skipped)
    assert "in threads, which share the generators" in skipped["threads"]


def test_elements_and_global_generators_are_left_alone():
    """Whatever the operation does."""
    element = {"x": np.zeros(3)}
    random.seed(5)
    np.random.seed(5)
    with pytest.raises(ConformanceError):
        check_operation(doubles_in_place, {"x": element["x"] + 1}, element)
    assert element["x"].tolist() == [0, 0, 0]
    with pytest.raises(ConformanceError):
        check_operation(seeds, element)
    expected = random.Random(5).random(), np.random.RandomState(5).random()
    assert (random.random(), np.random.random()) == expected


def test_what_ends_a_thread_is_raised():
    """A program's own exit too."""

    def leaves(element: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit(3)
        return element

    with pytest.raises(SystemExit):
        check_operation(leaves, 1, 2)


def test_arguments_are_checked():
    """With what is expected."""
    with pytest.raises(TypeError, match="elements: expected at least one, got none"):
        check_operation(abs)
    with pytest.raises(TypeError, match="expected an operation or a function"):
        check_operation(3, 1)
    with pytest.raises(ValueError, match="seed: expected an int from 0 to"):
        check_operation(abs, 1, seed=-1)
    with pytest.raises(ValueError, match="skip: expected names among"):
        check_operation(abs, 1, skip=["order"])


def test_a_flat_map_that_reuses_its_buffer_is_found():
    """A child changes while the next one is made."""

    def children(element: Any) -> Any:
        buffer = np.zeros(2)
        for number in range(3):
            buffer[:] = number
            yield buffer

    with pytest.raises(
        ConformanceError, match=r"child 0 of element 0 to be .* after the later children were made"
    ) as found:
        check_operation(lk.FlatMap(children, max_fan_out=3), 1, 2)
    assert found.value.check == "result"


def test_an_operation_of_a_class_within_a_function():
    """The pickle of its class has not the function's name."""

    @dataclass(frozen=True)
    class Scale(lk.Map):
        factor: float = 2.0

        def map(self, element: Any) -> Any:
            return element * self.factor

    check_operation(Scale(), 1, 2)


def test_an_element_that_cannot_be_copied_is_refused():
    """Each call gets a copy; one generator for all of them would be at its end after the first."""
    with pytest.raises(TypeError, match="elements: element 0, a generator, can't be copied"):
        check_operation(lambda element: element, (key for key in range(2)))
    with pytest.raises(TypeError, match="elements: element 1 with a generator can't be copied"):
        check_operation(lambda element: element, 1, {"x": (key for key in range(2))})


@pytest.mark.parametrize("skip", [("threads",), iter(["threads"]), {"threads"}])
def test_skip_is_any_iterable_of_names(skip):
    """A generator is not at its end after the names were checked."""
    report = check_operation(lambda element: element, 1, 2, skip=skip)
    assert ("threads", "left out by skip=") in report.skipped


def test_skip_is_not_none():
    """An error says what it takes."""
    with pytest.raises(TypeError, match="skip: expected a list of names of checks, got None"):
        check_operation(lambda element: element, 1, skip=None)  # type: ignore[arg-type]


def test_an_error_that_ends_with_a_full_stop_has_one():
    """The text is one sentence and the advice."""

    def raises(element: Any) -> Any:
        raise ValueError("no such element.")

    with pytest.raises(ConformanceError, match=r"no such element\. [A-Z]"):
        check_operation(raises, 1)


def test_threads_that_wait_without_end_are_a_failure(monkeypatch):
    """A deadlock in the operation is reported, and does not hang the test run."""
    monkeypatch.setattr(workers, "_MOST_SECONDS", 0.3)
    end = threading.Event()

    def waits(element: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            end.wait(20)
        return element

    with pytest.raises(
        ConformanceError, match=r"all threads to end .* still running in element [01]"
    ) as found:
        check_operation(waits, 1, 2, skip=["pickled copy", "another order", "parameters"])
    end.set()
    assert found.value.check == "threads"


def test_a_class_that_cannot_be_imported_stays_as_it_is():
    """A class of a script that is loaded from a pickle here would get methods that see copies of its globals."""

    class Local(lk.Map):
        def map(self, element: Any) -> Any:
            return element["key"]

    method = Local.map
    check_operation(Local(), *ELEMENTS)
    assert Local.map is method


@pytest.mark.parametrize("inside", [False, True])
def test_what_the_attributes_of_such_a_class_keep_is_found(inside):
    """A copy that hasn't run finds them as they were before any other ran; in a dict too."""

    class Local(lk.Map):
        first = None
        kept: dict[str, int] = {}  # noqa: RUF012 - the sin

        def map(self, element: Any) -> Any:
            if inside:
                return self.kept.setdefault("first", element["key"])
            type(self).first = type(self).first or element["key"]
            return type(self).first

    with pytest.raises(ConformanceError) as error:
        check_operation(Local(), *ELEMENTS)
    assert error.value.check == "another order"
