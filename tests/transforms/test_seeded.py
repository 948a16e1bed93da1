"""Transforms that draw from generators of their own give one stream, and leave the generators as they were."""

import random
import sys
import types
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.transforms import Seeded
from loaderkit.transforms.seeding import SeededCall

MODULE_RNG = np.random.default_rng()


class Leaf:
    """A transform with generators of its own, as those of albumentations have."""

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        self.random_generator = rng or np.random.default_rng()
        self.random = random.Random()

    def __call__(self) -> list[float]:
        return [self.random_generator.random(), self.random_generator.standard_normal(), self.random.gauss()]


class Slotted:
    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = np.random.RandomState()


class Everything:
    """Draws from each generator that a transform may have; one is shared by two of its parts."""

    def __init__(self) -> None:
        shared = np.random.default_rng()
        self.parts = [Leaf(shared), {"inner": (Leaf(shared), Leaf())}]
        self.old, self.other = Slotted(), np.random.Generator(np.random.Philox())

    def __call__(self, element: int) -> list[float]:
        numbers = [
            random.gauss(),
            np.random.standard_normal(),
            float(np.random.random()),
            MODULE_RNG.random(),
        ]
        for leaf in (self.parts[0], *self.parts[1]["inner"]):
            numbers += leaf()
        return [*numbers, self.old.rng.standard_normal(), self.other.random(), float(element)]

    def states(self) -> list[Any]:
        leaves = [self.parts[0], *self.parts[1]["inner"]]
        return [
            random.getstate(),
            repr(np.random.get_state()),
            MODULE_RNG.bit_generator.state,
            *(leaf.random_generator.bit_generator.state for leaf in leaves),
            *(leaf.random.getstate() for leaf in leaves),
            repr(self.old.rng.get_state()),
            repr(self.other.bit_generator.state),
        ]


def stream_of(operation: Any, batch: Any = None, **options: Any) -> list[Any]:
    sampler = lk.IndexSampler(6, shuffle=True, seed=3, num_epochs=2)
    operations = [operation, lk.Map(np.asarray), batch or lk.Batch(4)]
    with lk.DataLoader(data_source=range(6), sampler=sampler, operations=operations, **options) as loader:
        return [batch.tolist() for batch in loader]


@pytest.mark.slow
def test_one_stream_for_workers_states_and_hosts():
    """Another transform each time, with generators that stand elsewhere: the same stream."""
    expected = stream_of(Seeded(Everything()))
    assert len({tuple(row) for batch in expected for row in batch}) == 12
    assert [stream_of(Seeded(Everything()), worker_count=count) for count in (1, 2)] == [expected, expected]
    hosts = [
        stream_of(Seeded(Everything()), lk.Batch(global_batch_size=4), shard_options=lk.ShardOptions(host, 2))
        for host in range(2)
    ]
    assert [one + other for one, other in zip(*hosts)] == expected


def test_a_restored_stream_goes_on():
    """A state in the middle, restored into a loader with another transform."""

    def iterator() -> Any:
        return iter(
            lk.load(
                range(6), seed=3, num_epochs=1, operations=[Seeded(Everything()), np.asarray], batch_size=2
            )
        )

    with iterator() as it, iterator() as other:
        next(it)
        other.set_state(it.get_state())
        assert [each.tolist() for each in it] == [each.tolist() for each in other]


@pytest.mark.parametrize("fails", [False, True])
def test_generators_are_put_back(fails):
    """Behind an element each is where it was, with its cached normal, also where the transform raises."""
    transform = Everything()
    transform(0)
    np.random.standard_normal()
    before = transform.states()

    def failing(element: int) -> Any:
        transform(element)
        raise ZeroDivisionError

    with iter(lk.load([1], seed=0, operations=[Seeded(failing if fails else transform)])) as it:
        if fails:
            with pytest.raises(ZeroDivisionError):
                next(it)
        else:
            next(it)
    assert transform.states() == before


def test_generators_of_a_transform_draw_other_numbers():
    """Two of one kind aren't seeded alike, and a shared one goes on from part to part."""
    one, other = Leaf(), Leaf()
    numbers = stream_of(Seeded(lambda _: [*one(), *other()]))
    assert len(np.unique(np.concatenate(numbers))) == 12 * 6


def test_a_function_reaches_what_it_names():
    """Its closure, defaults, bound object and the functions that it calls are looked into."""
    rng, old = np.random.default_rng(), np.random.RandomState()

    def inner() -> float:
        return old.random_sample()

    def outer(element: int, default: random.Random = random.Random()) -> list[float]:  # noqa: B008 - looked into
        return [inner(), default.random(), *(rng.random() for _ in range(2))]

    assert len(SeededCall(outer).own) == 3
    assert stream_of(Seeded(outer)) == stream_of(Seeded(outer))


class Late:
    """Makes its generator in its first call."""

    rng: Any = None

    def __call__(self, element: int) -> float:
        self.rng = self.rng or np.random.default_rng()
        return float(self.rng.random())


def test_a_generator_that_the_first_call_makes_is_an_error():
    """No record has seeded it, so each process would begin with other numbers; it names the operation."""
    with pytest.raises(ValueError, match=r"got 1 that it made.*make them in __init__") as error:
        stream_of(Seeded(Late()))
    assert "operations[0] Seeded(Late)" in "".join(error.value.__notes__)


class Compiled:
    """Shows no generator, and takes a seed."""

    def __init__(self) -> None:
        self.set_random_seed(id(self))

    def set_random_seed(self, seed: int) -> None:
        self.draw = iter(lambda state=[seed]: state.__setitem__(0, state[0] * 5 % 2**31) or state[0], None)

    def __call__(self, element: int) -> int:
        return next(self.draw)


def test_an_object_that_only_takes_a_seed_gets_one():
    """As `set_random_seed` of compiled transforms."""
    assert stream_of(Seeded(Compiled())) == stream_of(Seeded(Compiled()))


def legacy(element: int) -> tuple[float, float]:
    return random.random(), float(np.random.random())


def test_the_former_names_give_the_same_numbers():
    """`Map(function, seed_globals=True)` and the attribute of a class, each with a warning at its line."""
    with pytest.warns(DeprecationWarning, match=r"write lk.transforms.Seeded\(legacy\)") as told:
        former = lk.Map(legacy, seed_globals=True)
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"Former.seed_globals: write the base lk.transforms.Seeded"):

        class Former(lk.Map):
            seed_globals = True

            def map(self, element: int) -> Any:
                return legacy(element)

    class Now(Seeded):
        def map(self, element: int) -> Any:
            return legacy(element)

    expected = repr(stream_of(Seeded(legacy)))
    assert [repr(stream_of(each)) for each in (former, Former(), Now())] == [expected] * 3
    with pytest.raises(TypeError, match="seed_globals: expected True or False, got 1"):
        lk.Map(legacy, seed_globals=1)  # type: ignore[arg-type]


Pair = namedtuple("Pair", ["x", "y"])


@dataclass
class Fields:
    x: int
    y: int


@pytest.mark.parametrize(
    ("key", "element", "expected"),
    [
        ("x", {"x": -1, "y": -2}, {"x": 1, "y": -2}),
        (1, (-1, -2), (-1, 2)),
        (("a", 0), {"a": [-1, -2]}, {"a": [1, -2]}),
        ("x", Pair(-1, -2), Pair(1, -2)),
        (("a", "x"), {"a": Fields(-1, -2)}, {"a": Fields(1, -2)}),
    ],
)
def test_a_key_names_the_part(key, element, expected):
    """A key, a position, a field, or a path; what is around the part stays, and so do the kinds of containers."""
    assert Seeded(abs, key).map(element) == expected


def test_bad_arguments_are_named():
    """Each with what was expected."""
    for wrong, message in [
        (lambda: Seeded(None), "Seeded: expected a function or a transform"),
        (lambda: Seeded(lk.Map(abs)), r"got Map\(abs\), which is an operation; write it itself"),
        (lambda: Seeded(abs, [1]), r"key: expected a dict's key, .*got \[1\]"),
        (lambda: Seeded(abs, "x").map(3), "leaf 'x': expected a place in the element, got int itself"),
    ]:
        with pytest.raises(TypeError, match=message):
            wrong()
    with pytest.raises(KeyError, match=r"leaf 'y': .* a dict with the keys \['x'\]"):
        Seeded(abs, "y").map({"x": 1})


def stand_in(name: str, call: Any) -> Any:
    return type("Flip", (), {"__module__": f"{name}.flips", "__call__": call})()


def test_albumentations_gets_arrays_by_name():
    """A dict by its names, one picture as `image`."""
    flip = stand_in(
        "albumentations",
        lambda self, **named: {**named, "image": np.ascontiguousarray(named["image"][:, ::-1])},
    )
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    whole = Seeded(flip).map({"image": picture, "cls": 3})
    assert whole["cls"] == 3 and (whole["image"] == picture[:, ::-1]).all()
    assert (Seeded(flip, "jpg").map({"jpg": picture})["jpg"] == picture[:, ::-1]).all()


def test_what_a_backend_gives_is_an_array():
    """A layer of Keras gives tensors of its backend."""

    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.ones(2)

    assert type(Seeded(stand_in("keras", lambda self, element: Tensor())).map(0)) is np.ndarray


def test_kinds_of_generators_of_libraries(monkeypatch):
    """torch's own and Keras's are seeded and put back as the others are."""
    torch = types.ModuleType("torch")
    legacy = random.Random(1)
    methods = {"get_state": random.Random.getstate, "set_state": random.Random.setstate}
    of_torch = type("Generator", (random.Random,), {**methods, "manual_seed": random.Random.seed})
    of_torch.__module__ = "torch._C"
    torch.random = types.SimpleNamespace(
        get_rng_state=legacy.getstate,
        set_rng_state=legacy.setstate,
        default_generator=types.SimpleNamespace(manual_seed=legacy.seed),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)

    class State:
        def __init__(self) -> None:
            self.value = np.array([0, 1], np.uint32)

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return self.value

        def assign(self, value: np.ndarray) -> None:
            self.value = np.array(value, np.uint32)

    own, keras = of_torch(5), type("SeedGenerator", (), {})()
    keras.state = State()
    draw = Seeded(lambda _: [own.random(), float(keras.state.value[0]), float(keras.state.value[1])])
    before = own.getstate(), keras.state.value.tolist()
    first = stream_of(draw)
    assert first == stream_of(draw) and len(np.unique(first[0])) == 12
    assert (own.getstate(), keras.state.value.tolist()) == before
