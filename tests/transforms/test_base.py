"""Operations: subclasses and functions, errors, and what the engine gets of them."""

import dataclasses
import functools
from typing import Any

import cloudpickle
import numpy as np
import pytest

from loaderkit.transforms import Batch, Filter, FlatMap, Map, MapWithIndex, RandomMap, Transformation
from loaderkit.transforms.base import function_of, label_of
from loaderkit.transforms.operations import as_operations

RNG = np.random.Generator(np.random.Philox(key=1))

# kind, its method, the arguments of a call
KINDS: list[tuple[Any, str, tuple[Any, ...]]] = [
    (Map, "map", (3,)),
    (MapWithIndex, "map_with_index", (7, 3)),
    (RandomMap, "random_map", (3, RNG)),
    (Filter, "filter", (3,)),
    (FlatMap, "flat_map", (3,)),
]
each_kind = pytest.mark.parametrize(
    ("kind", "method", "arguments"), KINDS, ids=lambda value: getattr(value, "__name__", "")
)


def seen(*arguments: Any) -> list[Any]:
    return ["seen", *arguments]


@each_kind
def test_a_function_is_called_as_it_was_given(kind: Any, method: str, arguments: tuple[Any, ...]) -> None:
    """The engine gets the function itself; the method of the class calls it."""
    operation = kind(seen)
    assert function_of(operation) is seen
    answer = getattr(operation, method)(*arguments)
    assert answer == (True if kind is Filter else ["seen", *arguments])
    assert label_of(operation) == repr(operation) == f"{kind.__name__}(seen)"


@each_kind
def test_a_subclass_is_called_by_its_method(kind: Any, method: str, arguments: tuple[Any, ...]) -> None:
    """Also one whose __init__ doesn't call ours, with any names of attributes."""

    def init(self: Any) -> None:
        self.function = self.label = self._function = "mine"

    subclass = type(
        "Mine", (kind,), {"__init__": init, method: lambda self, *arguments: [self.label, *arguments]}
    )
    operation = subclass()
    assert function_of(operation)(*arguments) == ["mine", *arguments]
    assert function_of(operation) == getattr(operation, method)
    assert label_of(operation) == repr(operation) == "Mine"


@each_kind
def test_a_subclass_without_its_method_is_refused_when_made(kind: Any, method: str, arguments: Any) -> None:
    """The error names the method with its arguments."""
    subclass = type("Mine", (kind,), {})
    with pytest.raises(
        TypeError, match=rf"Mine: expected the method {method}\(self.* derives from {kind.__name__}"
    ):
        subclass()


@each_kind
def test_a_subclass_of_a_subclass_works(kind: Any, method: str, arguments: tuple[Any, ...]) -> None:
    """The method may come from any class in between, mixins too."""
    mixin = type("Mixin", (), {method: lambda self, *arguments: list(arguments)})
    operation = type("Mine", (type("Between", (mixin, kind), {}),), {})()
    assert function_of(operation)(*arguments) == list(arguments)


@each_kind
@pytest.mark.parametrize("came", [None, 3, "decode", [seen]])
def test_what_is_no_function_is_refused(kind: Any, method: str, arguments: Any, came: Any) -> None:
    """The error says what the function takes, and what came."""
    with pytest.raises(TypeError, match=rf"{kind.__name__}: expected a function of \(.*element.*\), got "):
        kind(came)


@each_kind
def test_operations_travel(kind: Any, method: str, arguments: tuple[Any, ...]) -> None:
    """Lambdas, closures and local classes reach a worker with cloudpickle."""
    factor = [10]
    subclass = type("Mine", (kind,), {method: lambda self, *arguments: [self.factor, *arguments]})
    local = subclass()
    local.factor = 5
    for operation, wanted in (
        (kind(lambda *given: [factor, *given]), [[10], *arguments]),
        (local, [5, *arguments]),
    ):
        travelled = cloudpickle.loads(cloudpickle.dumps(operation))
        assert function_of(travelled)(*arguments)[0] == wanted[0]
        assert label_of(travelled) == label_of(operation)


def test_a_dataclass_is_a_transform() -> None:
    """Frozen ones too: nothing of ours is set in the instance."""

    @dataclasses.dataclass(frozen=True)
    class Scale(Map):
        factor: int

        def map(self, element: Any) -> Any:
            return element * self.factor

    assert function_of(Scale(3))(2) == 6
    assert repr(Scale(3)).endswith("Scale(factor=3)")


def test_the_base_and_mixed_kinds_are_refused() -> None:
    """An operation is of exactly one kind."""
    for cls in (Transformation, type("Mine", (Transformation,), {}), type("Both", (Map, Filter), {})):
        with pytest.raises(TypeError, match=f"{cls.__name__}: expected exactly one base of Map, "):
            cls()


def test_a_subclass_takes_no_function_besides() -> None:
    """Its method and a function would contradict each other."""
    subclass = type("Mine", (Map,), {"map": lambda self, element: element})
    with pytest.raises(TypeError, match="Mine: expected no function, as the class defines map"):
        subclass(seen)


def test_a_class_in_place_of_a_function_is_refused() -> None:
    """Map(Decode), where Decode is an operation itself; other classes are functions that make values."""
    subclass = type("Decode", (Map,), {"map": lambda self, element: element})
    with pytest.raises(TypeError, match=r"write Decode\(\) in its place"):
        Map(subclass)
    assert function_of(Map(np.float32))(2) == np.float32(2)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda element: element, "<lambda>"),
        (functools.partial(functools.partial(seen, 1), 2), "seen"),
        ("abc".startswith, "startswith"),
        (np.random.default_rng(0).permutation, "permutation"),
    ],
    ids=["lambda", "partial", "builtin method", "method"],
)
def test_a_label_has_no_address(function: Any, name: str) -> None:
    """The label is part of the state, and must be the same in every process."""
    assert label_of(Map(function)) == f"Map({name})"


def test_options_of_map_and_flat_map() -> None:
    """Options are arguments, or attributes of a subclass; the error names a wrong one."""
    assert FlatMap(seen).max_fan_out is None
    assert FlatMap(seen, max_fan_out=3).max_fan_out == 3
    with pytest.raises(TypeError, match=r"max_fan_out: expected an int, got 2\.5"):
        FlatMap(seen, max_fan_out=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_fan_out: expected 1 or more, got 0"):
        FlatMap(seen, max_fan_out=0)


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "message"),
    [
        ((), {}, ValueError, "exactly one of batch_size and global_batch_size, got neither"),
        (
            (2,),
            {"global_batch_size": 4},
            ValueError,
            "exactly one of batch_size and global_batch_size, got both",
        ),
        ((0,), {}, ValueError, "batch_size: expected 1 or more, got 0"),
        ((-3,), {}, ValueError, "batch_size: expected 1 or more, got -3"),
        ((), {"global_batch_size": 0}, ValueError, "global_batch_size: expected 1 or more, got 0"),
        ((2.0,), {}, TypeError, r"batch_size: expected an int, got 2\.0"),
        ((True,), {}, TypeError, "batch_size: expected an int, got True"),
        (("8",), {}, TypeError, "batch_size: expected an int, got '8'"),
        ((2,), {"remainder": "fill"}, ValueError, "remainder: expected 'keep', .*, got 'fill'"),
        ((2,), {"remainder": None}, ValueError, "remainder: expected 'keep', .*, got None"),
        (
            (2,),
            {"remainder": "pad", "drop_remainder": True},
            ValueError,
            "drop_remainder: .*got True with remainder='pad'",
        ),
        ((2,), {"drop_remainder": "no"}, TypeError, "drop_remainder: expected True or False, got 'no'"),
        ((2,), {"batch_fn": 3}, TypeError, "batch_fn: expected a function of a list of rows, got 3"),
        ((2,), {"drop_last": True}, TypeError, r"Batch\(\) has no argument drop_last; .*drop_remainder=True"),
        ((2,), {"collate_fn": list}, TypeError, r"Batch\(\) has no argument collate_fn; .*batch_fn"),
    ],
)
def test_a_wrong_batch_is_refused(
    arguments: Any, keywords: Any, error: type[Exception], message: str
) -> None:
    """Construction raises an error with the argument, the expected and the given value."""
    with pytest.raises(error, match=message):
        Batch(*arguments, **keywords)


def test_a_batch_keeps_what_it_was_told() -> None:
    """drop_remainder=True is remainder="drop"; numpy's ints are ints."""
    batch = Batch(np.int32(8), drop_remainder=True, batch_fn=list)  # type: ignore[arg-type]
    assert (batch.batch_size, batch.global_batch_size, batch.remainder, batch.batch_fn) == (
        8,
        None,
        "drop",
        list,
    )
    assert type(batch.batch_size) is int
    assert repr(batch) == "Batch(batch_size=8, remainder='drop', batch_fn=list)"
    assert repr(Batch(global_batch_size=256)) == "Batch(global_batch_size=256)"
    assert Batch(2).remainder == "keep"


def test_bare_functions_are_maps() -> None:
    """A list of operations becomes a tuple of transformations in the same order."""
    keep = Filter(callable)
    given: list[Any] = [seen, keep, Batch(2)]
    mapped, kept, batch = as_operations(iter(given))
    assert type(mapped) is Map
    assert function_of(mapped) is seen
    assert kept is keep
    assert isinstance(batch, Batch)
    assert as_operations(()) == ()


class Decode(Map):
    """A transform that is given as a class below."""

    def map(self, element: Any) -> Any:
        """Nothing is done."""
        return element


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([seen, 3], r"operations\[1\]: expected an operation or a function of one element, got int 3"),
        ([None], r"operations\[0\]: expected an operation or a function of one element, got NoneType None"),
        ([[seen]], r"operations\[0\]: expected an operation or a function of one element, got list "),
        ([Decode], r"operations\[0\]: expected an operation, got the class Decode; write Decode\(\.\.\.\)"),
        ([Batch], r"operations\[0\]: expected an operation, got the class Batch; write Batch\(\.\.\.\)"),
        (Decode(), "operations: expected a list of operations, got Decode Decode"),
        (Batch(2), r"got Batch Batch\(batch_size=2\); write \[Batch\(...\)\]"),
        (seen, "operations: expected a list of operations, got function "),
        ("map", "operations: expected a list of operations, got str 'map'"),
        ({"map": seen}, "operations: expected a list of operations, got dict "),
        (None, "operations: expected a list of operations, got NoneType None"),
    ],
)
def test_what_is_no_operation_is_named_with_its_place(operations: Any, message: str) -> None:
    """The error comes at construction, not when the first record is read."""
    with pytest.raises(TypeError, match=message):
        as_operations(operations)


def test_only_the_last_batch_has_a_global_size() -> None:
    """An inner one counts rows of its own shard; the error says which is the last."""
    as_operations([Batch(2), seen, Batch(global_batch_size=4)])
    with pytest.raises(
        ValueError, match=r"operations\[0\]: .* before the last Batch, which is operations\[2\]"
    ):
        as_operations([Batch(global_batch_size=4), seen, Batch(2)])


def test_transforms_of_grain_get_our_spelling() -> None:
    """An instance or a class that derives from Grain's is refused with the class to derive it from."""
    transforms = pytest.importorskip("grain").transforms

    class Theirs(transforms.Map):  # type: ignore[misc, name-defined]
        def map(self, element: Any) -> Any:
            return element

    for operation in (Theirs(), Theirs, transforms.Batch(batch_size=2)):
        with pytest.raises(TypeError, match=r"operations\[0\].* from lk\.(Map|Batch)"):
            as_operations([operation])
