"""Batching in single cases: what is exact, what np.stack would lose, and what the errors say."""

import itertools
from typing import Any

import numpy as np
import pytest
from np_stack_twin import STRUCTURED, Subclass, assert_same_array, assert_same_batch, describe, room_for, twin

import loaderkit as lk
from loaderkit._base.tree import map_leaves, structure_of, unflatten
from loaderkit.errors import BatchError
from loaderkit.transforms.stack import Block, LeafSpec, RowSpec, collect, stack, write


@pytest.mark.parametrize("order", list(itertools.permutations(["int16", "uint16", "float32"])))
@pytest.mark.parametrize("cut", range(4))
def test_promotion_is_over_all_rows_at_once(order: tuple[str, ...], cut: int) -> None:
    """int16, uint16 and float32 rows give what np.stack gives together, not what their parts would give."""
    rows = [np.ones(2, dtype) for dtype in order]
    parts = [collect(part) or part for part in (rows[:cut], rows[cut:])]
    assert_same_array(stack(parts, describe), np.stack(rows))


def test_a_guess_doesnt_survive_a_row_that_promotes() -> None:
    """Rows of an int column with one float are refused by write, and the batch is float64."""
    spec = collect([{"x": 1}]).spec()  # type: ignore[union-attr]
    rows = [{"x": 1}, {"x": 2.5}]
    assert write(rows, spec, [np.empty(2, np.int64)]) is False  # type: ignore[arg-type]
    assert_same_array(stack([rows], describe)["x"], np.array([1.0, 2.5]))


@pytest.mark.parametrize(
    ("leaves", "spec"),
    [
        ([True, False], LeafSpec((), np.dtype(bool))),
        ([1, 2**63 - 1], LeafSpec((), np.dtype("int64"))),
        ([1, np.int64(2)], LeafSpec((), np.dtype("int64"))),
        ([1.5, np.float64(2)], LeafSpec((), np.dtype("float64"))),
        ([np.float32(1), np.array(2, "f4")], LeafSpec((), np.dtype("float32"))),
        ([np.datetime64(1, "s"), np.datetime64(2, "s")], LeafSpec((), np.dtype("M8[s]"))),
        ([np.zeros((2, 3), "f4"), np.ones((2, 3), "f4", order="F")], LeafSpec((2, 3), np.dtype("f4"))),
        ([1, 2**63], None),
        ([1, True], None),
        ([1, 1.0], None),
        (["ab", "cd"], None),
        ([np.array("ab"), np.array("cd")], None),
        ([b"ab", b"cd"], None),
        ([np.bytes_(b"ab"), np.bytes_(b"cd")], None),
        ([1j, 2j], None),
        ([np.datetime64(1, "s"), np.datetime64(2, "ms")], None),
        ([np.zeros(2), np.zeros(3)], None),
        ([np.zeros((2, 1)), np.zeros(2)], None),
        ([np.zeros(2, ">f4"), np.zeros(2, ">f4")], None),
        ([np.zeros(2, object), np.zeros(2, object)], None),
        ([np.zeros(2, STRUCTURED), np.zeros(2, STRUCTURED)], None),
        ([np.zeros(2).view(Subclass), np.zeros(2).view(Subclass)], None),
    ],
)
def test_which_rows_have_a_spec(leaves: list[Any], spec: LeafSpec | None) -> None:
    """Arrays, numpy scalars, bool, float and int within int64, all of one dtype and shape; nothing else."""
    block = collect([{"x": leaf} for leaf in leaves])
    assert block is not None
    wanted = None if spec is None else RowSpec(structure_of({"x": 0}), (spec,))
    assert block.spec() == wanted


def test_a_dtype_from_another_package_is_written_in_place() -> None:
    """bfloat16, which numpy knows only as a foreign type, is a dtype like any other."""
    bfloat16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    rows = [{"x": np.arange(3).astype(bfloat16), "y": bfloat16.type(row)} for row in range(4)]
    block = collect(rows)
    assert block is not None
    spec = block.spec()
    assert spec is not None
    out = room_for(spec, 4)
    assert write(rows, spec, out)
    assert_same_batch(unflatten(spec.structure, out), twin(rows))


def test_bytes_keep_their_trailing_nuls() -> None:
    """Bytes give an array of objects, with or without other leaves in the column, wherever it is cut."""
    rows: list[Any] = [b"a\0\0", b"", b"\0"]
    batch = stack([rows[:1], rows[1:]], describe)
    assert batch.dtype == object
    assert batch.tolist() == rows
    for cut in range(5):
        batch = stack(
            [collect(part) or part for part in ([1, 2, *rows][:cut], [1, 2, *rows][cut:])], describe
        )
        assert [type(leaf) for leaf in batch] == [np.int64, np.int64, bytes, bytes, bytes]


def test_an_error_of_a_batch_names_the_rows_that_differ() -> None:
    """And no other of the batch."""
    rows = [{"x": np.zeros(2 if key == 5 else 3)} for key in range(8)]
    with iter(lk.load(rows, batch_size=8)) as it, pytest.raises(BatchError) as caught:
        next(it)
    assert "for index 0 (record_key 0), index 5 (record_key 5) of list" in caught.value.__notes__[0]


@pytest.mark.parametrize("other", ["b", 3])
def test_a_text_that_numpy_would_shorten_is_refused(other: Any) -> None:
    """A str that ends in NUL is an error that names the record and the leaf."""
    rows = [{"name": other}, {"name": "a\0"}]
    with pytest.raises(BatchError, match=r"record_key 11 \(index 1\).*leaf \['name'\].*NUL"):
        stack([rows], describe)
    assert stack([[{"name": "a\0b"}]], describe)["name"].tolist() == ["a\0b"]


def test_a_masked_array_is_refused() -> None:
    """Its mask would be lost: the error names the record and the leaf."""
    rows = [(np.zeros(2),), (np.ma.masked_array([1.0, 2.0], [True, False]),)]
    with pytest.raises(BatchError, match=r"record_key 11 \(index 1\).*leaf \[0\] is a masked array"):
        stack([rows], describe)


@pytest.mark.parametrize("cut", range(4))
@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        ([np.zeros(3), np.zeros(3), np.zeros(4)], r"shape \(3,\) in the first and \(4,\) in the second"),
        ([np.zeros(3), np.zeros(3), 1.0], r"shape \(3,\) in the first and \(\) in the second"),
        ([np.zeros(3), np.zeros(3), b"a"], r"shape \(3,\) in the first and \(\) in the second"),
        ([1.5, 2.5, np.datetime64(1, "s")], r"dtype float64 in the first and datetime64\[s\] in the second"),
        (
            [1, 2, None],
            r"the structure of \['x'\] is \* in the first and None in the second; None is no value of an array: put",
        ),
        ([1, 2, {"a": 1}], r"the structure of \['x'\] is \* in the first and {'a': \*} in the second"),
    ],
)
def test_rows_that_dont_fit_are_named_wherever_they_are_cut(
    leaves: list[Any], message: str, cut: int
) -> None:
    """The error has both records, the leaf's path and both shapes, dtypes or structures."""
    rows = [{"x": leaf, "y": 0} for leaf in leaves]
    parts = [collect(part) or part for part in (rows[:cut], rows[cut:])]
    with pytest.raises(
        BatchError, match=rf"record_key 10 \(index 0\) and record_key 12 \(index 2\).*{message}"
    ) as error:
        stack(parts, describe)
    assert "['x']" in str(error.value)


@pytest.mark.parametrize("cut", range(4))
def test_the_first_row_that_differs_is_named_wherever_they_are_cut(cut: int) -> None:
    """Row 1 differs in the last leaf and row 2 in the first: the error is about row 1."""
    rows: list[Any] = [{"a": 0, "b": 0}, {"a": 0, "b": None}, {"a": None, "b": 0}]
    parts = [collect(part) or part for part in (rows[:cut], rows[cut:])]
    with pytest.raises(
        BatchError, match=r"record_key 11 .* the structure of \['b'\] is \* in the first and None"
    ):
        stack(parts, describe)


def test_what_numpy_cant_read_is_named() -> None:
    """An object that fails to become an array is an error with the record, the leaf and the reason."""

    class Stubborn:
        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            raise RuntimeError("no array today")

    with pytest.raises(BatchError, match=r"record_key 10 .*leaf \['x'\] is a Stubborn .*no array today"):
        stack([[{"x": Stubborn()}]], describe)


def test_the_first_row_decides_the_order_of_keys() -> None:
    """Rows with the keys in another order fit; the batch has its first row's order, written in place too."""
    one, other = {"a": 1, "b": 2.0}, {"b": 3.0, "a": 4}
    for rows in ([one, other], [other, one]):
        parts = [collect(rows[:1]), collect(rows[1:])]
        assert_same_batch(stack(parts, describe), twin(rows))  # type: ignore[arg-type]
    spec = collect([one]).spec()  # type: ignore[union-attr]
    assert write([one, other], spec, room_for(spec, 2)) is True  # type: ignore[arg-type]
    assert write([other, one], spec, room_for(spec, 2)) is False  # type: ignore[arg-type]


def test_a_batch_shares_no_memory_with_a_view() -> None:
    """A block over memory that is written again is copied, also where it is the only part."""
    memory = np.zeros((4, 2))
    whole = Block(structure_of(0), (memory[:],), 4)
    assert not np.shares_memory(stack([whole], describe), memory)
    row = np.zeros(3)
    assert not np.shares_memory(stack([[row]], describe), row)


def test_rows_of_different_structure_make_no_block() -> None:
    """collect gives None for them, and for no rows; stack of no rows is an error."""
    assert collect([{"a": 1}, {"b": 1}]) is None
    assert collect([]) is None
    with pytest.raises(ValueError, match="expected one row or more"):
        stack([[]], describe)


def test_elements_without_leaves_make_a_batch() -> None:
    """Containers and None alone are rows too: the batch is one of them."""
    rows: list[Any] = [{"a": None, "b": []}] * 3
    block = collect(rows)
    assert block is not None
    assert block.rows(1, 3) == rows[1:]
    assert stack([block, rows], describe) == rows[0]


def test_a_large_row_is_written_like_a_small_one() -> None:
    """Rows of 64 KB, contiguous or not, written in place equal the batch."""
    rng = np.random.default_rng(0)
    rows = [map_leaves(np.asfortranarray, {"image": rng.random((64, 128))}) for _ in range(3)]
    spec = collect(rows).spec()  # type: ignore[union-attr]
    assert spec is not None
    out = room_for(spec, 3)
    assert write(rows, spec, out)
    assert_same_batch(unflatten(spec.structure, out), twin(rows))
