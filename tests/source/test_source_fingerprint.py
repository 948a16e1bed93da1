"""The fingerprint of a source: equal for equal data in any process, different for other data."""

import copy
import dataclasses
import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._source.content import SAMPLED_BYTES, content_hash, sampled_keys, stable_repr
from loaderkit._source.fingerprint import fingerprint_of

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Row:
    x: int


# No two of these are the same data.
DISTINCT = [
    0, 1, True, 0.0, -0.0, 1.0, 1j, None, "", "1", "a", b"", b"1", b"a", (), [], {}, set(), {1}, {1, 2},
    frozenset(), [1], (1,), [1, 2], [2, 1], [[1], 2], {"a": 1}, {"a": 2}, {"b": 1}, {1: 1}, {"a": None},
    Point(1, 2), Point(2, 1), Row(1), Row(2), np.int8(1), np.int64(1), np.float32(1), np.zeros(2),
    np.zeros((2, 1)), np.zeros(2, np.int64), np.array(["a"]), np.array(["a", None], object),
    np.array(["b", None], object),
    np.array([(1, 2)], "i4,i8"), "a\0", b"a\0", "\udc80", float("nan"), float("inf"),
    np.datetime64(0, "s"), np.datetime64(0, "ms"), [1, [2]],
]  # fmt: skip


def test_other_values_have_other_hashes():
    """Types, shapes, nesting and keys count as much as numbers."""
    hashes = [content_hash([value]) for value in DISTINCT]
    assert hashes == [content_hash([value]) for value in copy.deepcopy(DISTINCT)]
    first_with = {}
    for value, seen in zip(DISTINCT, hashes):
        assert first_with.setdefault(seen, value) is value


@given(st.lists(st.integers() | st.text(), max_size=4), st.lists(st.integers() | st.text(), max_size=4))
def test_where_one_element_ends_counts(a, b):
    """The same leaves in other elements are other data."""
    assert (content_hash([a, b]) == content_hash([b, a])) == (a == b)
    assert content_hash([[*a, *b]]) != content_hash([a, b])


def test_the_order_of_dict_keys_does_not_count():
    """A dict is the same data however it was filled."""
    assert content_hash([{"a": 1, "b": 2}]) == content_hash([{"b": 2, "a": 1}])


@pytest.mark.parametrize("size", [100, 2 * SAMPLED_BYTES + 1, 10 * SAMPLED_BYTES])
@pytest.mark.parametrize(
    "make", [lambda n: np.zeros(n, np.uint8), lambda n: np.zeros((n // 4, 4), np.uint8).T]
)
def test_both_ends_of_a_long_array_count(size, make):
    """Its length and both ends are read, for any memory layout."""
    array = make(size)
    seen = content_hash([array])
    assert seen == content_hash([np.ascontiguousarray(array)])
    for place in (0, -1):
        changed = array.copy()
        changed.flat[place] = 1
        assert content_hash([changed]) != seen
    assert content_hash([array[..., :-1]]) != seen


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, 2**62])
def test_the_sampled_keys(n):
    """A few, ascending, with the first and the last among them."""
    keys = sampled_keys(n)
    assert len(keys) == min(n, 16)
    assert keys == sorted(set(keys))
    assert keys[:1] + keys[-1:] == ([0, n - 1] if n else [])


class Plain:
    def __len__(self):
        return 3

    def __getitem__(self, key):
        return key


class Named(Plain):
    def __repr__(self):
        return f"Named(function={fingerprint_of!r}, of={object()!r})"


class Declared(Plain):
    def __init__(self, said):
        self.said = said

    def fingerprint(self):
        return self.said


def test_a_foreign_source_is_what_can_be_seen():
    """Type, length, and the repr without addresses, unless it is the default one."""
    assert fingerprint_of(Plain()) == {"kind": "foreign", "type": f"{__name__}.Plain", "records": 3}
    seen = fingerprint_of(Named())
    assert "0x" not in seen["repr"]
    assert seen == fingerprint_of(Named())


class Remote(Plain):
    """Every record costs a request, or is drawn anew."""

    def __getitem__(self, key):
        raise AssertionError("read before the loader is iterated")

    __getitems__ = take = __getitem__


def test_no_record_of_a_users_source_is_read_for_it():
    """A read may be slow, or give another record the next time, so only class, length and repr are compared."""
    assert fingerprint_of(Remote()) == {"kind": "foreign", "type": f"{__name__}.Remote", "records": 3}


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_plain_memory_is_known_by_its_content(kind):
    """A list's repr would be all of its data."""
    seen = fingerprint_of(kind(range(1000)))
    assert seen == fingerprint_of(kind(range(1000)))
    assert len(json.dumps(seen)) < 200
    assert seen != fingerprint_of(kind([*range(999), 0]))
    assert seen != fingerprint_of(kind(range(999)))


def test_a_long_repr_is_cut():
    """The state stays small; a change past the cut is still seen."""

    class Talkative(Plain):
        def __init__(self, end):
            self.end = end

        def __repr__(self):
            return "x" * 10_000 + self.end

    assert len(stable_repr(Talkative("a"))) < 200
    assert stable_repr(Talkative("a")) != stable_repr(Talkative("b"))


def test_a_declared_fingerprint_is_taken_as_json():
    """It is converted to JSON values at once, so that a later comparison compares equal types."""
    seen = fingerprint_of(Declared({"version": (1, 2), "n": 3}))
    assert seen == {"kind": "declared", "version": [1, 2], "n": 3}
    assert json.loads(json.dumps(seen)) == seen


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"x": np.zeros(2)}, "expected JSON values"),
        ({"x": float("nan")}, "expected JSON values"),
        ([1], "expected a dict, got .1."),
        (None, "expected a dict, got None"),
    ],
)
def test_a_declared_fingerprint_that_is_not_json(said, says):
    """Is an error that names the source's class, not a state that can't be saved."""
    with pytest.raises(TypeError, match=rf"Declared\.fingerprint\(\): .*{says}"):
        fingerprint_of(Declared(said))


def test_tfds_sources_are_known_by_version_and_split():
    """The library's repr leaves out the version."""

    class Tfds(Plain):
        def __init__(self, version, split):
            self.dataset_info = SimpleNamespace(full_name=f"digits/{version}")
            self.split = split

    seen = fingerprint_of(Tfds("1.0.0", "train[:50%]"))
    assert (seen["tfds"], seen["split"]) == ("digits/1.0.0", "train[:50%]")
    assert seen != fingerprint_of(Tfds("1.0.1", "train[:50%]"))
    assert seen != fingerprint_of(Tfds("1.0.0", "train"))


def test_another_process_sees_the_same():
    """Hash seeds, addresses and import order are no part of it."""
    code = (
        "import json, numpy as np\n"
        "from loaderkit._source.fingerprint import fingerprint_of\n"
        "data = [{'tags': {'a', 'b', 'c'}, 'x': np.arange(3), 'f': len, 'n': i} for i in range(50)]\n"
        "print(json.dumps(fingerprint_of(data)))\n"
    )
    root = str(Path(__file__).parents[2])
    seen = set()
    for seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": root}
        seen.add(
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout
        )
    assert len(seen) == 1
