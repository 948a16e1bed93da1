"""`lk.offline.column_stats` and `loaderkit inspect --values`: beside numpy, the same bits for any workers."""

import json
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import loaderkit as lk
from loaderkit.cli import main
from loaderkit.offline import column_counts as module

Pair = namedtuple("Pair", "x y")


@given(st.lists(arrays(np.float64, st.integers(1, 5), elements=st.floats(-1e6, 1e6)), min_size=1, max_size=9))
def test_moments_of_parts_are_those_of_the_whole(parts):
    moments = module.Moments()
    for part in parts:
        moments.add(part)
    whole, found = np.concatenate(parts), moments.result()
    assert (found["min"], found["max"]) == (whole.min(), whole.max())
    np.testing.assert_allclose(found["mean"], whole.mean(), rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(found["std"], whole.std(), rtol=1e-6, atol=1e-3)


def rows_of(count):
    rng = np.random.default_rng(0)
    return [
        {
            "age": None if k % 10 == 3 else float(rng.normal(40, 9)),
            "pet": ["cat", "dog", "cat"][k % 3],
            "image": rng.integers(0, 255, (4, 5, 3), dtype=np.uint8),
            "label": k % 4,
        }
        for k in range(count)
    ]


def test_each_kind_of_column():
    rows = rows_of(600)
    found = lk.offline.column_stats(rows, vocabulary=2, quantiles=10)
    columns = found["columns"]
    ages = np.array([row["age"] for row in rows if row["age"] is not None])
    assert found["records"] == 600
    assert (columns["age"]["count"], columns["age"]["missing"]) == (540, 60)
    np.testing.assert_allclose(columns["age"]["quantiles"], np.quantile(ages, np.arange(11) / 10))
    np.testing.assert_allclose([columns["age"]["mean"], columns["age"]["std"]], [ages.mean(), ages.std()])
    assert columns["pet"]["vocabulary"] == [["cat", 400], ["dog", 200]]
    assert columns["pet"]["length"]["max"] == 3
    images = np.stack([row["image"] for row in rows]).astype(float)
    np.testing.assert_allclose(columns["image"]["channels"]["mean"], images.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(columns["image"]["channels"]["std"], images.std(axis=(0, 1, 2)))
    assert columns["label"]["kind"] == "integer"
    assert json.loads(json.dumps(found)) == found


def test_workers_change_no_bit():
    rows = rows_of(700)
    assert lk.offline.column_stats(rows, vocabulary=9) == lk.offline.column_stats(
        rows, vocabulary=9, worker_count=2
    )


def test_many_values_are_sampled_by_a_hash_of_their_places(monkeypatch):
    monkeypatch.setattr(module, "MOST_VALUES", 100)
    found = lk.offline.column_stats([{"x": k} for k in range(1000)], quantiles=2)
    assert found["columns"]["x"]["quantiles"][1] == pytest.approx(500, abs=150)
    alternating = lk.offline.column_stats([{"x": k % 2} for k in range(1000)], quantiles=4)["columns"]["x"]
    assert alternating["quantiles"] == [0, 0.0, pytest.approx(0.5, abs=0.5), 1.0, 1]
    monkeypatch.setattr(module, "MOST_TERMS", 10)
    with pytest.raises(
        ValueError, match="vocabulary: expected columns of at most 10 distinct values, got more in 'x'"
    ):
        lk.offline.column_stats([{"x": k} for k in range(20)], vocabulary=3)


def test_numbers_that_json_lacks_are_counted_and_left_out():
    rows = [
        {"x": 1.0, "y": np.array([1.0, np.nan])},
        {"x": np.inf, "y": np.array([3.0, 4.0])},
        {"x": 3.0, "y": None},
    ]
    found = lk.offline.column_stats(rows)["columns"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["x"]["not_finite"], found["x"]["mean"], found["y"]["not_finite"]) == (1, 2.0, 1)
    assert found["y"]["channels"]["mean"] == [3.0, 4.0]
    assert lk.offline.column_stats([{"x": 2**60 + 1}])["columns"]["x"]["max"] == 2**60 + 1


def test_pictures_of_many_sizes_and_a_grey_one():
    """Channels are told of as long as all arrays have as many."""
    pictures = [{"p": np.full((2 + k, 3, 3), k, np.uint8)} for k in range(20)]
    (column,) = lk.offline.column_stats(pictures)["columns"].values()
    assert len(column["channels"]["mean"]) == 3
    for shape in ((4, 4), (4, 1)):
        (column,) = lk.offline.column_stats([*pictures, {"p": np.zeros(shape, np.uint8)}])["columns"].values()
        assert column["count"] == 21 and "channels" not in column


def test_columns_that_come_and_go():
    found = lk.offline.column_stats([{"a": 1}, {"a": 2, "b": 3}, {"b": 4}])["columns"]
    assert (found["a"]["count"], found["a"]["missing"]) == (2, 1)
    assert (found["b"]["count"], found["b"]["missing"]) == (2, 1)
    assert lk.offline.column_stats([1.0, 2.0])["columns"]["record"]["mean"] == 1.5


def test_columns_of_any_element():
    """Of tuples, named tuples and objects without being told; by places, whose names features find again."""
    for element in (lambda a, b: (a, b), Pair, lambda a, b: {"0": a, "1": b}):
        found = lk.offline.column_stats([element(k, k % 2) for k in range(10)])["columns"]
        assert [column["mean"] for column in found.values()] == [4.5, 0.5]
    rows = [({"x": float(k)}, [k, 7]) for k in range(4)] + [({}, None)]
    found = lk.offline.column_stats(rows, [(0, "x"), (1, -1), 1])
    assert [*found["columns"]] == ["0.x", "1.-1", "1"]
    assert [column["missing"] for column in found["columns"].values()] == [1, 1, 1]
    scaled = lk.features.Numeric.from_stats(found, (0, "x")).map(rows[0])
    assert scaled[0]["x"] == np.float32(-1.5 / np.std(range(4))) and scaled[1] == [0, 7]
    with pytest.raises(ValueError, match=r"columns: expected some of '0', '1', got \(0, 'y'\)"):
        lk.offline.column_stats(rows, [(0, "y")])


def test_arguments_that_cannot_be():
    with pytest.raises(TypeError, match="columns: expected a list of names"):
        lk.offline.column_stats([{"a": 1}], "a")
    with pytest.raises(ValueError, match="columns: expected some of 'a', got 'b'"):
        lk.offline.column_stats([{"a": 1}], ["b"])
    with pytest.raises(ValueError, match="quantiles: expected 2 or more"):
        lk.offline.column_stats([{"a": 1}], quantiles=1)


def test_the_command_writes_what_features_take(tmp_path, capsys):
    with open(tmp_path / "x.jsonl", "w") as file:
        file.writelines(json.dumps({"age": k, "pet": "dog" if k % 2 else "cat"}) + "\n" for k in range(50))
    out = tmp_path / "stats.json"
    status = main(
        ["inspect", "--values", str(tmp_path / "x.jsonl"), "--vocabulary", "5", "-o", str(out), "-p", "1"]
    )
    assert status == 0
    assert "age" in capsys.readouterr().out
    assert lk.features.Numeric.from_stats(out, "age").mean == pytest.approx(24.5)
    assert lk.features.Vocabulary.from_stats(out, "pet").map({"pet": np.array(["cat", "dog"])})[
        "pet"
    ].tolist() == [
        0,
        1,
    ]
    assert lk.features.Bucketized.from_stats(out, "age").boundaries == (12.25, 24.5, 36.75)
    assert main(["inspect", "--values", str(tmp_path / "x.jsonl"), "-f", "none"]) == 3


def test_words_of_an_array_are_plain():
    """Not numpy's own type of text, which is no JSON value by its type, and shows as np.str_('Ulm')."""
    source = lk.ArrayDataSource(
        {"city": np.array(["Ulm", "Ulm", "Kiel"]), "raw": np.array([b"a", b"b", b"a"])}
    )
    columns = lk.offline.column_stats(source, vocabulary=2)["columns"]
    words = columns["city"]["vocabulary"] + columns["raw"]["vocabulary"]
    assert words == [["Ulm", 2], ["Kiel", 1], ["a", 2], ["b", 1]] and {type(word) for word, _ in words} == {
        str
    }
    vocabulary = lk.features.Vocabulary.from_stats({"columns": columns}, "city")
    assert vocabulary.map({"city": source.take([2, 0])["city"]})["city"].tolist() == [1, 0]


def test_tuples_and_values_that_are_no_arrays():
    """Each place of a tuple is a column; a list of lists of different lengths is of no kind that has numbers."""
    found = lk.offline.column_stats([(np.ones(2), 3, [[1], [2, 3]]), (np.zeros(2), 5, [])])["columns"]
    assert {name: column["kind"] for name, column in found.items()} == {
        "0": "array",
        "1": "integer",
        "2": "other",
    }
    assert found["1"]["mean"] == 4.0 and found["0"]["mean"] == 0.5
    assert lk.offline.column_stats([(1, 2)], ["1"])["columns"]["1"]["max"] == 2
