"""PadTo and PadBatch alone: what is padded, what is refused."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.testing import check_operation
from loaderkit.transforms.padding import with_valid


def test_pad_to_pads_cuts_and_masks() -> None:
    row = {"x": np.ones((3, 2), np.float32), "y": 1}
    made = lk.PadTo(5, "x", mask="m", value=-1).map(row)
    assert made["x"].tolist() == [[1, 1]] * 3 + [[-1, -1]] * 2 and made["x"].dtype == np.float32
    assert made["m"].tolist() == [True] * 3 + [False] * 2 and made["y"] == 1
    assert lk.PadTo(2, "x", truncate=True, mask="m").map(row)["m"].tolist() == [True, True]
    assert row.keys() == {"x", "y"}
    check_operation(lk.PadTo(5, "x", mask="m"), row, {"x": np.zeros((1, 2)), "y": 2}, progress=False)


@pytest.mark.parametrize(
    ("how", "row", "error"),
    [
        (
            {"key": "x"},
            {"x": np.zeros(4)},
            "leaf 'x': expected a length of at most 3, got 4; give truncate=True",
        ),
        (
            {"key": "z"},
            {"x": np.zeros(2)},
            r"leaf 'z': expected a place in the element, got a dict with the keys \['x'\]",
        ),
        (
            {"key": "x"},
            {"x": [1, 2]},
            r"leaf 'x': expected an array \(n, ...\), got list; make it one in a Map",
        ),
        ({"key": "x"}, np.zeros(2), "leaf 'x': expected a place in the element, got ndarray itself"),
        ({"key": "x", "mask": "x"}, {"x": np.zeros(2)}, "mask: expected the place of a new leaf, got 'x'"),
    ],
)
def test_rows_that_pad_to_refuses(how: Any, row: Any, error: str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError), match=error):
        lk.PadTo(3, **how).map(row)


def test_arguments_of_pad_to() -> None:
    with pytest.raises(ValueError, match="length: expected 0 or more, got -1"):
        lk.PadTo(-1, "x")
    with pytest.raises(TypeError, match=r"key: expected a dict's key, a position, .* got \[3\]"):
        lk.PadTo(1, [3])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"mask\[0\]: expected a dict's key, a position, .* got \[3\]"):
        lk.PadBatch(1, boundaries={0: [1]}, mask={0: [3]})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="truncate: expected True or False, got 1"):
        lk.PadTo(1, "x", truncate=1)  # type: ignore[arg-type]


def test_several_leaves_take_the_bucket_that_holds_both() -> None:
    batch = lk.PadBatch(2, boundaries={"x": [2, 4, 8], "y": [10, 20, 20]}, padding_values={"y": 7})
    rows = [{"x": np.ones(1), "y": np.ones(20, np.int8)}, {"x": np.ones(2), "y": np.ones(3, np.int8)}]
    made = batch.stacked([rows], str)
    assert made["x"].shape == (2, 4) and made["y"].shape == (2, 20)
    assert made["y"][1].tolist() == [1] * 3 + [7] * 17 and batch.buckets == 3
    with pytest.raises(
        lk.errors.BatchError, match="row 1 can't be padded: leaf 'x': expected a length of at most 8"
    ):
        batch.stacked([[rows[0], {**rows[1], "x": np.ones(9)}]], "row {}".format)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"boundaries": {}}, "boundaries: expected lengths by leaf, such as"),
        ({"boundaries": [1, 2]}, "boundaries: expected lengths by leaf, such as"),
        ({"boundaries": {"x": 3}}, r"boundaries\['x'\]: expected a list of ints, got 3"),
        ({"boundaries": {"x": []}}, r"boundaries\['x'\]: expected ascending lengths, one or more, got \(\)"),
        (
            {"boundaries": {"x": [3, 1]}},
            r"boundaries\['x'\]: expected ascending lengths, one or more, got \(3, 1\)",
        ),
        (
            {"boundaries": {"x": [1, 3], "y": [2]}},
            "boundaries: expected as many for each leaf, .* got 2 of 'x', 1 of 'y'",
        ),
        (
            {"boundaries": {"x": [1]}, "mask": {"y": "m"}},
            "mask: expected a dict by leaf, of some that boundaries has",
        ),
        ({"boundaries": {"x": [1]}, "padding_values": 3}, "padding_values: expected a dict by leaf"),
    ],
)
def test_arguments_of_pad_batch(how: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        lk.PadBatch(2, **how)


def test_the_mark_of_a_row_goes_into_a_dict_of_its_own() -> None:
    """Also where it is of a class of the user's, which stays."""
    held = defaultdict(list, x=1)
    marked = with_valid(held)
    assert (type(marked), {**marked}, {**held}) == (defaultdict, {"x": 1, "valid": True}, {"x": 1})


def test_its_name() -> None:
    batch = lk.PadBatch(global_batch_size=4, boundaries={"x": [2]}, mask={"x": "m"}, remainder="pad")
    assert repr(batch) == (
        "PadBatch(global_batch_size=4, remainder='pad', boundaries={'x': (2,)}, mask={'x': 'm'})"
    )
