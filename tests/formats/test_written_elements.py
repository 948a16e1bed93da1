"""Elements that aren't dicts: a format keeps them, or its refusal has the line to write, which works."""

import dataclasses
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import loaderkit as lk


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Record:
    x: Any
    y: Any


IDS = np.arange(3, dtype=np.uint16)
KINDS: dict[str, Any] = {
    "tuple": (IDS, 7),
    "list": [IDS, 7],
    "namedtuple": Pair(IDS, 7),
    "object": Record(IDS, 7),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["array_record", "tfrecord", "parquet", "arrow", "tar", "jsonl"])
def test_a_container_comes_back_or_the_error_says_the_line(form: str, kind: str, tmp_path: Any) -> None:
    """Tuples and lists come back from tar and JSON Lines; the line makes dicts with the same values."""
    source = [KINDS[kind]] * 3
    path = f"{tmp_path}/x"
    if form in ("tar", "jsonl") and kind in ("tuple", "list"):
        lk.write(source, path, format=form)
        found = lk.open(path)[2]
        assert type(found) is type(source[0])
    else:
        with pytest.raises(TypeError, match=r"for all records lk\.MapDataSource") as error:
            lk.write(source, path, format=form)
        line = re.search(r"for all records (lk\.MapDataSource\(source, .*\))$", str(error.value))
        assert line is not None
        lk.write(eval(line[1], {"lk": lk, "source": source}), path, format=form)
        first = lk.open(path)[2]
        assert [*first] == (["a", "b"] if kind in ("tuple", "list") else ["x", "y"])
        found = [*first.values()]
    assert found[0].tolist() == [0, 1, 2] and found[0].dtype == IDS.dtype and found[1] == 7


@pytest.mark.parametrize("form", ["array_record", "parquet", "tar", "jsonl"])
def test_an_object_inside_a_record_is_named(form: str, tmp_path: Any) -> None:
    """By its place, with what makes a dict of it."""
    with pytest.raises(TypeError, match=r"'a'.* got Record; make it a dict: lk\.AsDict\(\)\.map"):
        lk.write([{"a": Record(1, 2)}], f"{tmp_path}/x", format=form)


def test_a_field_missing_in_a_record_is_named(tmp_path: Any) -> None:
    """Where the columns of a table are those of the first record."""
    with pytest.raises(ValueError, match=r"record 1: .* \['x', 'y'\], as the first .* a dict of \['x'\]"):
        lk.write(iter([{"x": 1, "y": 2}, {"x": 3}]), f"{tmp_path}/x.parquet")


def test_tuples_are_shown_by_position(tmp_path: Any, capsys: Any) -> None:
    """`loaderkit show` has a field for each value, and takes a path to one inside."""
    from loaderkit.cli import main

    lk.write([(7, {"y": [4, 5]})], f"{tmp_path}/x.jsonl")
    assert main(["show", f"{tmp_path}/x.jsonl"]) in (0, None)
    assert re.search(r"0 +7\n +1 +\{\"y\"", capsys.readouterr().out)
    assert main(["show", f"{tmp_path}/x.jsonl", "-f", "1.y.1", "--raw"]) in (0, None)
    assert capsys.readouterr().out == "5\n"
