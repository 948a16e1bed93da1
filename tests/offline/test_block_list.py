"""Block lists: which records are listed, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._source.block_list import read_block_list
from loaderkit._source.fingerprint import fingerprint_of

RECORDS = [
    {"id": f"page-{number}", "number": np.int64(number), "raw": b"%d" % number} for number in range(3000)
]


def test_a_list_has_what_it_was_made_of_and_is_named_by_its_bytes(tmp_path: Path) -> None:
    """Ids, ids of a file, ints, bytes, keys and a function list the same records; a list made twice is two files."""
    file = tmp_path / "ids.txt"
    file.write_text("page-2500\n\npage-7\n")
    ways: list[dict[str, Any]] = [
        {"ids": ["page-7", "page-2500"]},
        {"ids": file},
        {"ids": [7, 2500], "id_field": "number"},
        {"ids": ["7", "2500"], "id_field": "raw"},
        {"keys": [2500, 7, 7]},
        {"keys": np.array([7, 2500])},
        {"where": lambda record: record["number"] in (7, 2500)},
    ]
    for way in ways:
        path = lk.offline.block_list(RECORDS, tmp_path / "lists", reason="a test", **way)
        made = read_block_list(path)
        assert made.keys.tolist() == [7, 2500]
        assert made.source == fingerprint_of(RECORDS)
        assert made.reason == "a test" and made.time.endswith("+00:00")
    assert read_block_list(path).ids == []
    path = lk.offline.block_list(RECORDS, tmp_path / "lists", reason="a test", ids=["page-7"], worker_count=1)
    assert read_block_list(path).ids == ["page-7"]


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({}, "expected one of ids, keys and where, got none"),
        ({"ids": ["a"], "keys": [1]}, "expected one of ids, keys and where, got none or several"),
        ({"ids": ["page-1", "page-3000", "x"]}, "got 2 others: 'page-3000', 'x'; compare the field 'id'"),
        ({"ids": ["page-1", "page-1"]}, "expected each once, got 'page-1' several times"),
        ({"ids": [0], "id_field": "half"}, r"with a field 'half', got \['id', 'number', 'raw'\]"),
        ({"keys": []}, "expected one record or more to leave out, got none"),
        ({"where": lambda record: False}, "expected one record or more to leave out, got none"),
        ({"keys": [1], "reason": " "}, "reason: expected a text that says why"),
    ],
)
def test_what_lists_nothing_or_not_one_record_is_refused(
    how: dict[str, Any], text: str, tmp_path: Path
) -> None:
    """No file is written then."""
    with pytest.raises(ValueError, match=text):
        lk.offline.block_list(RECORDS, tmp_path / "lists", **{"reason": "a test", **how})
    assert not (tmp_path / "lists").exists()


def test_an_id_of_two_records_is_refused_with_both(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"of one record each, got 1 others, such as records \[1, 2\]: 'b'"):
        lk.offline.block_list(
            [{"id": "a"}, {"id": "b"}, {"id": "b"}], tmp_path, ids=["a", "b"], reason="a test"
        )


def test_other_arguments_have_errors_that_name_them(tmp_path: Path) -> None:
    with pytest.raises(IndexError, match="3000"):
        lk.offline.block_list(RECORDS, tmp_path, keys=[3000], reason="a test")
    with pytest.raises(TypeError, match=r"ids: expected texts or ints, got 1\.5"):
        lk.offline.block_list(RECORDS, tmp_path, ids=[1.5], reason="a test")  # type: ignore[list-item]
    with pytest.raises(TypeError, match="expected True or False for each record, got 'page-0'"):
        lk.offline.block_list(RECORDS, tmp_path, where=lambda record: record["id"], reason="a test")


@given(asked=st.sets(st.integers(0, 2999), min_size=1, max_size=50))
def test_ids_list_exactly_their_records(asked: set[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = lk.offline.block_list(RECORDS, folder, ids=[f"page-{key}" for key in asked], reason="a test")
        assert read_block_list(path).keys.tolist() == sorted(asked)
