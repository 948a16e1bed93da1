"""Packed rows of a plan, beside naive concatenation, in pipelines, and with documents that aren't as planned."""

import itertools
import os
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.testing import check_source

LENGTHS = [5, 3, 0, 9, 20, 1, 6, 2, 8, 4]
DOCUMENTS = [np.arange(100 * k, 100 * k + n, dtype=np.uint16) for k, n in enumerate(LENGTHS)]
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
PAD = 9


def token_source(documents=DOCUMENTS):
    return lk.TokenDataSource(
        np.concatenate([[], *documents]).astype(np.uint16),
        np.concatenate([[0], np.cumsum([*map(len, documents)])]),
    )


def naive_row(plan, key, documents, row, *, targets=False, pad=PAD, columns=None, per_document=None):
    """A row as lists, token by token.

    columns: by leaf, a list for each document; per_document: by leaf, a number of each.
    """
    found = {name: [] for name in ("tokens", "tokens_segment_ids", "tokens_positions")}
    if targets:
        found |= {name: [] for name in ("targets", "targets_segment_ids", "targets_positions")}
    found |= {name: [] for name in (*(columns or {}), *(per_document or {}))}
    pieces = plan.rows([key])
    for number, (document, start, length) in enumerate(
        zip(pieces.documents.tolist(), pieces.starts.tolist(), pieces.lengths.tolist()), 1
    ):
        tokens = documents[document].tolist()
        for place in range(start, start + length):
            found["tokens"].append(tokens[place])
            found["tokens_segment_ids"].append(number)
            found["tokens_positions"].append(place - start)
            end = len(tokens) if targets == "document" else start + length
            at = place + bool(targets)  # whose values stand here
            if targets:
                found["targets"].append(tokens[at] if at < end else pad)
                found["targets_segment_ids"].append(number if at < end else 0)
                found["targets_positions"].append(place - start)
            for name, values in (columns or {}).items():
                found[name].append(values[document][at] if at < end else 0)
            for name, values in (per_document or {}).items():
                found[name].append(values[document] if at < end else 0)
    for name, values in found.items():
        values += [pad if name in ("tokens", "targets") else 0] * (row - len(values))
    return found


def as_lists(row):
    return {name: leaf.tolist() for name, leaf in row.items()}


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=12).filter(any),
    st.integers(1, 9),
    st.sampled_from(["best_fit", "first_fit", "concat_then_split"]),
    st.sampled_from(["split", "truncate"]),
    st.sampled_from([False, True, "document"]),
    st.data(),
)
def test_rows_beside_naive_concatenation(lengths, row, how, long, targets, data):
    """Each way to read gives the rows that a loop over the pieces gives."""
    documents = [np.arange(20 * k, 20 * k + n, dtype=np.uint16) for k, n in enumerate(lengths)]
    plan = lk.plan_packing(lengths, row, how=how, long=long, block=data.draw(st.integers(1, 13)))
    expected = [naive_row(plan, key, documents, row, targets=targets) for key in range(len(plan))]
    keys = data.draw(st.lists(st.integers(0, len(plan) - 1), max_size=8))
    for source in (token_source(documents), documents, [{"tokens": one} for one in documents]):
        rows = lk.PackedDataSource(source, plan, targets=targets, pad=PAD)
        assert [as_lists(one) for one in rows] == expected
        assert [as_lists(one) for one in rows.__getitems__(keys)] == [expected[key] for key in keys]
        for leaf in ("tokens_segment_ids", "tokens_positions"):
            assert rows[0][leaf].dtype == np.int32
        assert rows[0]["tokens"].dtype == np.uint16
    rows = lk.PackedDataSource(token_source(documents), plan, targets=targets, pad=PAD)
    taken = rows.take(keys)
    assert [{name: leaf[n].tolist() for name, leaf in taken.items()} for n in range(len(keys))] == [
        expected[key] for key in keys
    ]


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=12).filter(any),
    st.integers(1, 9),
    st.sampled_from(["best_fit", "first_fit", "concat_then_split"]),
    st.sampled_from(["split", "truncate", "drop"]),
    st.sampled_from([False, True, "document"]),
)
@settings(max_examples=max(12, settings.default.max_examples // 2))
def test_masks_and_weights_belong_to_targets(tmp_path_factory, lengths, row, how, long, targets):
    """Of token files, of any source with and without parts, of Pack: what a loop over the tokens gives."""
    assume(long != "drop" or any(0 < n <= row for n in lengths))
    rng = np.random.default_rng(len(lengths))
    records = [
        {
            "tokens": np.arange(20 * k + 1, 20 * k + 1 + n, dtype=np.uint16),
            "counts": rng.random(n) < 0.5,
            "weight": rng.integers(1, 9, n).astype(np.float32),
            "source": np.int32(k + 1),
        }
        for k, n in enumerate(lengths)
    ]
    plan = lk.plan_packing(lengths, row, how=how, long=long)
    tokens = [one["tokens"] for one in records]
    columns = {
        leaf: [one[name].tolist() for one in records]
        for leaf, name in (("mask", "counts"), ("weight", "weight"))
    }
    numbers = {"source": [int(one["source"]) for one in records]}
    leaves = {
        "targets": targets,
        "mask": "mask",
        "loss": "counts",
        "columns": ["weight"],
        "per_document": ["source"],
    }
    expected = [
        naive_row(plan, key, tokens, row, targets=targets, columns=columns, per_document=numbers)
        for key in range(len(plan))
    ]
    path = lk.write(records, tmp_path_factory.mktemp("files") / "a.tokens")
    for source in (lk.TokenDataSource(path), records, Ranges(records)):
        found = lk.PackedDataSource(source, plan, pad=PAD, **leaves).__getitems__(range(len(plan)))
        assert [as_lists(one) for one in found] == expected
        if found:
            assert found[0]["mask"].dtype == np.bool_ and found[0]["weight"].dtype == np.float32
    packed = lk.Pack(row, how=how, long=long, window=len(records), pad=PAD, **leaves).window(records)
    mask = [row["mask"].sum() for row in packed]
    assert sum(mask) == sum(map(sum, (row["mask"] for row in expected)))
    if how == "first_fit":
        one, other = (
            sorted([float(v) for leaf in row.values() for v in leaf] for row in rows)
            for rows in (map(as_lists, packed), expected)
        )
        assert one == other


class Ranges(list):
    """Documents that are read in parts."""

    def read_range(self, key, start, stop):
        return {name: one[start:stop] if np.ndim(one) else one for name, one in self[key].items()}


def test_pairs_have_targets_and_masks_of_their_own():
    """Segment k of both is a pair; names of the feature stand before those of its leaves, in documents too."""
    rng = np.random.default_rng(0)
    pairs = [
        {
            "chosen": np.arange(10 * k, 10 * k + n),
            "rejected": -np.arange(10 * k, 10 * k + m) - 1,
            "chosen_counts": rng.random(n) < 0.5,
            "rejected_counts": rng.random(m) < 0.5,
            "reward": k,
        }
        for k, (n, m) in enumerate(rng.integers(1, 6, (20, 2)).tolist())
    ]
    sizes = {name: [len(one[name]) for one in pairs] for name in ("chosen", "rejected")}
    plan = lk.plan_packing(sizes, {"chosen": 8, "rejected": 9}, how="first_fit")
    leaves = {"targets": True, "mask": "mask", "loss": "counts", "per_document": ["reward"]}
    seen = 0
    for row in lk.PackedDataSource(pairs, plan, **leaves):
        for segment in range(1, row["chosen_segment_ids"].max() + 1):
            of = set()
            for name in ("chosen", "rejected"):
                here = row[f"{name}_segment_ids"] == segment
                (pair,) = (one for one in pairs if np.array_equal(one[name], row[name][here]))
                of.add(pair["reward"])
                assert row[f"{name}_targets"][here][:-1].tolist() == pair[name][1:].tolist()
                assert row[f"{name}_mask"][here].tolist() == [*pair[f"{name}_counts"][1:].tolist(), False]
                assert row[f"{name}_reward"][here].tolist() == [pair["reward"]] * (len(pair[name]) - 1) + [0]
            assert len(of) == 1
            seen += 1
    assert seen == len(pairs)
    rows = lk.Pack({"chosen": 8, "rejected": 9}, how="first_fit", window=20, **leaves).window(pairs)
    assert len(rows) == len(plan) and {*rows[0]} == {*lk.PackedDataSource(pairs, plan, **leaves)[0]}


def test_values_that_do_not_fit_their_tokens(tmp_path):
    """A loss column of another length, a column that isn't there or is of documents: an error that names it."""
    records = [{"tokens": np.arange(n), "counts": np.ones(n - (n == 3), bool), "id": "a"} for n in (2, 3)]
    with pytest.raises(ValueError, match=r"record\['counts'\]: expected 3 values, one for each token, got 2"):
        lk.write(records, tmp_path / "a.tokens")
    plan = lk.plan_packing([2, 3], 5)
    with pytest.raises(ValueError, match="document 1: expected 3 tokens in 'counts', as planned, got 2"):
        list(lk.PackedDataSource(records, plan, mask="mask", loss="counts"))
    with pytest.raises(
        ValueError, match="element 1 of the window: expected 3 values in 'counts', one for each"
    ):
        lk.Pack(5, mask="mask", loss="counts").window([{**one, "id": 1} for one in records])
    lk.write(records[:1], tmp_path / "a.tokens")
    source, plan = lk.TokenDataSource(tmp_path / "a.tokens"), lk.plan_packing([2], 5)
    for name, leaves in [
        ("id", {"loss": "id", "mask": "m"}), ("other", {"columns": ["other"]}), ("counts", {"per_document": ["counts"]})
    ]:  # fmt: skip
        with pytest.raises(
            ValueError, match=f"expected names of a .* which the source has: .*, got '{name}'"
        ):
            lk.PackedDataSource(source, plan, **leaves)
    with pytest.raises(ValueError, match="document 0: expected a number in 'id', got 'a'"):
        lk.PackedDataSource(records[:1], plan, per_document=["id"])[0]


def test_a_number_of_a_document_has_the_dtype_of_its_row():
    """Whichever rows are read with it: no whole number is rounded because another row has a fraction."""
    records = [{"tokens": np.arange(3), "weight": weight} for weight in (2**53 + 1, 0.5)]
    packed = lk.PackedDataSource(records, lk.plan_packing([3, 3], 3), per_document=["weight"])
    for together, alone in zip(packed.__getitems__([0, 1]), map(packed.__getitem__, range(2))):
        assert together["weight"].dtype == alone["weight"].dtype
        assert together["weight"].tolist() == alone["weight"].tolist()


def test_columns_are_written_in_place(monkeypatch):
    """Also in several groups, and to arrays that aren't contiguous."""
    plan = lk.plan_packing(LENGTHS, 8)
    rows = lk.PackedDataSource(token_source(), plan, targets=True, mask="mask")
    expected = rows.take(range(len(rows)))
    monkeypatch.setattr("loaderkit._order.packing.leaves._AT_ONCE", 17)
    for step in (1, 2):
        out = [np.full((step * len(rows), 8), 77, leaf.dtype)[::step] for leaf in expected.values()]
        assert rows.take(range(len(rows)), out=out)["mask"] is out[-1]
        for leaf, place in zip(expected.values(), out, strict=True):
            assert np.array_equal(leaf, place)


def test_rows_of_more_tokens_than_16_bits_count():
    """Positions and segment ids are exact beyond 65,535."""
    lengths, row = [3, 70_000, 1, 1, 8], 80_000
    source = token_source([np.full(n, n % 7, np.uint16) for n in lengths])
    (found,) = lk.PackedDataSource(source, lk.plan_packing(lengths, row))
    ids = found["tokens_segment_ids"]
    assert sorted(np.bincount(ids)[1:]) == sorted(lengths) and ids.max() == len(lengths)
    used = np.count_nonzero(ids)
    begins = np.flatnonzero(np.diff(ids[:used], prepend=0))
    assert np.array_equal(found["tokens_positions"][:used], np.arange(used) - begins[ids[:used] - 1])


def test_leaves_share_one_allocation():
    """Of a call without `out`: each begins at a cache line, none overlaps another."""
    rows = lk.PackedDataSource(token_source(), lk.plan_packing(LENGTHS, 11), targets=True, mask="mask")
    leaves = rows.take(range(3))
    bases = {id(leaf.base) for leaf in leaves.values()}
    assert len(bases) == 1 and next(iter(leaves.values())).base.ndim == 1
    places = sorted((leaf.__array_interface__["data"][0], leaf.nbytes) for leaf in leaves.values())
    assert all((place - places[0][0]) % 64 == 0 for place, _ in places)
    assert all(place + size <= after for (place, size), (after, _) in itertools.pairwise(places))


@pytest.mark.parametrize("targets", [True, False])
def test_a_mask_says_where_the_loss_counts(targets):
    plan = lk.plan_packing(LENGTHS, 8)
    for source in (token_source(), DOCUMENTS):
        for row in lk.PackedDataSource(source, plan, targets=targets, mask="loss"):
            counted = row["targets_segment_ids" if targets else "tokens_segment_ids"] != 0
            assert row["loss"].dtype == np.bool_
            assert np.array_equal(row["loss"], counted)
            assert list(row)[-1] == "loss"


def test_names():
    plan = lk.plan_packing(LENGTHS, 8)
    source = token_source()
    assert list(lk.PackedDataSource(source, plan, names="maxtext", targets=True)[0]) == [
        "inputs",
        "inputs_segmentation",
        "inputs_position",
        "targets",
        "targets_segmentation",
        "targets_position",
    ]
    renamed = lk.PackedDataSource(source, plan, names={"tokens": "ids", "tokens_positions": "position_ids"})
    assert list(renamed[0]) == ["ids", "tokens_segment_ids", "position_ids"]
    with pytest.raises(ValueError, match=r"names: expected some of \['tokens', .*got 'inputs'"):
        lk.PackedDataSource(source, plan, names={"inputs": "ids"})
    with pytest.raises(ValueError, match="names: expected another name for each leaf, got 'x' for two"):
        lk.PackedDataSource(source, plan, names={"tokens": "x"}, mask="x")
    with pytest.raises(TypeError, match="names: expected 'maxtext', a mapping of names or None, got 'grain'"):
        lk.PackedDataSource(source, plan, names="grain")
    with pytest.raises(TypeError, match="mask: expected the name of the mask or None, got True"):
        lk.PackedDataSource(source, plan, mask=True)


def test_several_features_of_one_length():
    records = [{"ids": one, "weights": one / 2, "more": 1} for one in DOCUMENTS]
    plan = lk.plan_packing(LENGTHS, 8)
    row = lk.PackedDataSource(records, plan, feature=["ids", "weights"])[1]
    assert list(row)[3:] == ["weights", "weights_segment_ids", "weights_positions"]
    assert np.array_equal(row["weights"], row["ids"] / 2)
    assert np.array_equal(row["weights_segment_ids"], row["ids_segment_ids"])
    short = [{**record, "weights": record["weights"][1:]} for record in records]
    with pytest.raises(ValueError, match=r"document \d: expected \d+ tokens in 'weights', as planned, got"):
        lk.PackedDataSource(short, plan, feature=["ids", "weights"])[1]


def test_features_with_lengths_of_their_own():
    inputs, targets = [3, 5, 0, 2, 7], [1, 2, 4, 1, 3]
    records = [
        {"inputs": np.arange(10 * k, 10 * k + n), "targets": np.arange(-m, 0)}
        for k, (n, m) in enumerate(zip(inputs, targets))
    ]
    plan = lk.plan_packing(
        {"inputs": inputs, "targets": targets}, {"inputs": 8, "targets": 4}, how="first_fit"
    )
    rows = lk.PackedDataSource(records, plan)
    seen = []
    for row in rows:
        assert row["inputs"].shape == (8,)
        assert row["targets"].shape == (4,)
        for number in range(1, row["targets_segment_ids"].max() + 1):
            ids = row["inputs"][row["inputs_segment_ids"] == number].tolist()
            seen.append((ids, row["targets"][row["targets_segment_ids"] == number].tolist()))
    assert sorted(seen) == sorted((r["inputs"].tolist(), r["targets"].tolist()) for r in records)


def test_each_feature_is_truncated_to_its_own_length():
    records = [{"inputs": np.arange(9), "targets": np.arange(20, 27)}]
    lengths = {"inputs": 8, "targets": 4}
    plan = lk.plan_packing({"inputs": [9], "targets": [7]}, lengths, how="first_fit", long="truncate")
    (row,) = lk.PackedDataSource(records, plan)
    assert row["inputs"].tolist() == [*range(8)] and row["targets"].tolist() == [*range(20, 24)]


def test_arrays_with_more_axes():
    documents = [np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32) for n in LENGTHS]
    row = lk.PackedDataSource(documents, lk.plan_packing(LENGTHS, 8), feature="frames", targets=True)[0]
    assert row["frames"].shape == row["targets"].shape == (8, 3)
    places = np.flatnonzero(row["targets_segment_ids"])
    assert np.array_equal(row["targets"][places], row["frames"][places + 1])


class Counting(list):
    """Documents that say how often each was read."""

    def __init__(self, documents):
        super().__init__(documents)
        self.reads = Counter()

    def __getitem__(self, key):
        self.reads[key] += 1
        return super().__getitem__(key)


class Ranged(Counting):
    def read_range(self, key, start, stop):
        self.reads["ranges"] += stop - start
        return list.__getitem__(self, key)[start:stop]


def test_each_document_is_read_once_a_call():
    source = Counting(DOCUMENTS)
    rows = lk.PackedDataSource(source, lk.plan_packing(LENGTHS, 4))
    source.reads.clear()
    rows.__getitems__(list(range(len(rows))))
    assert set(source.reads.values()) == {1}


def test_parts_of_documents_are_read_where_the_source_can():
    source = Ranged(DOCUMENTS)
    plan = lk.plan_packing(LENGTHS, 4)
    rows = lk.PackedDataSource(source, plan)
    source.reads.clear()
    got = rows.__getitems__(list(range(len(rows))))
    assert [as_lists(row) for row in got] == [
        naive_row(plan, key, DOCUMENTS, 4, pad=0) for key in range(len(rows))
    ]
    long = {key: length for key, length in enumerate(LENGTHS) if length > 4}
    assert source.reads.pop("ranges") == sum(long.values())
    assert set(source.reads).isdisjoint(long)


def test_a_plan_that_reads_most_documents_many_times():
    plan = lk.plan_packing([100, 3], 4)
    documents = [np.arange(100), np.arange(3)]
    text = (
        "max_read_factor: expected a plan that reads at most 4.0 tokens for each in a row, got 24.3, as split"
    )
    with pytest.raises(ValueError, match=text):
        lk.PackedDataSource(lk.InMemoryDataSource(documents), plan)
    rows = lk.PackedDataSource(lk.InMemoryDataSource(documents), plan, max_read_factor=30)
    assert rows[0]["tokens"].tolist() == lk.PackedDataSource(documents, plan)[0]["tokens"].tolist()
    assert rows.chunk_records == len(rows)


# --- in loaders -----------------------------------------------------------------------------------------------------


def mapped(tmp_path):
    """A token source of files, and a plan in a file."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 60, 200)
    np.save(tmp_path / "tokens.npy", rng.integers(0, 1000, lengths.sum()).astype(np.uint16))
    np.save(tmp_path / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
    source = lk.TokenDataSource(tmp_path / "tokens.npy", tmp_path / "offsets.npy")
    return source, lk.plan_packing(source.lengths, 32, tmp_path / "rows.plan")


def loader_of(source, plan, **options):
    rows = lk.PackedDataSource(source, plan, targets=True, mask="mask")
    sampler = lk.IndexSampler(len(rows), shuffle=True, seed=3, num_epochs=2)
    return lk.DataLoader(data_source=rows, sampler=sampler, operations=[lk.Batch(7)], **options)


def contents(batches):
    return [{name: leaf.tobytes() for name, leaf in batch.items()} for batch in batches]


def test_the_same_batches_with_workers_after_a_restore_and_of_any_source(tmp_path):
    source, plan = mapped(tmp_path)
    with loader_of(source, plan) as loader:
        expected = contents(loader)
    with loader_of(source, plan, worker_count=2) as loader:
        it = iter(loader)
        got = contents(next(it) for _ in range(9))
        state = it.get_state()
        assert got == expected[:9]
    with loader_of(source, plan, worker_count=1) as loader:
        it = iter(loader)
        it.set_state(state)
        assert contents(it) == expected[9:]
    documents = [source[key] for key in range(len(source))]
    with loader_of(documents, plan) as loader:
        assert contents(loader) == expected


def test_batches_are_written_without_rows(tmp_path, monkeypatch):
    """The source gives columns, so that no Python object is made for a row."""

    def never(*arguments):
        raise AssertionError

    monkeypatch.setattr(lk.PackedDataSource, "__getitems__", never)
    assert next(iter(loader_of(*mapped(tmp_path))))["tokens"].shape == (7, 32)


def test_both_are_sources(tmp_path):
    source, plan = mapped(tmp_path)
    check_source(lk.PackedDataSource(source, plan, targets=True, mask="mask"), skip=["another process"])
    documents = lk.InMemoryDataSource(DOCUMENTS)
    check_source(lk.PackedDataSource(documents, lk.plan_packing(LENGTHS, 8)), skip=["another process"])


def test_a_pickle_is_small_and_the_same(tmp_path):
    source, plan = mapped(tmp_path)
    rows = lk.PackedDataSource(source, plan)
    copy = pickle.loads(pickle.dumps(rows))
    assert as_lists(copy[5]) == as_lists(rows[5])
    assert copy.fingerprint() == rows.fingerprint()
    with pytest.raises(AttributeError, match="take: a PackedDataSource has it for a TokenDataSource only"):
        _ = lk.PackedDataSource(DOCUMENTS, lk.plan_packing(LENGTHS, 8)).take


def test_a_replaced_file_is_an_error_in_a_worker(tmp_path):
    source, plan = mapped(tmp_path)
    np.save(tmp_path / "other.npy", np.load(tmp_path / "tokens.npy") + np.uint16(1))
    with loader_of(source, plan, worker_count=1) as loader:
        os.replace(tmp_path / "other.npy", tmp_path / "tokens.npy")
        with pytest.raises(lk.errors.FileChangedError, match=r"tokens\.npy"):
            list(loader)


def test_fingerprint_says_what_differs():
    plan, source = lk.plan_packing(LENGTHS, 8), token_source()
    rows = lk.PackedDataSource(source, plan)
    assert rows.fingerprint() == lk.PackedDataSource(token_source(), plan, feature="tokens").fingerprint()
    for other in (
        lk.PackedDataSource(source, plan, pad=1),
        lk.PackedDataSource(source, plan, mask="mask"),
        lk.PackedDataSource(source, lk.plan_packing(LENGTHS, 8, seed=1)),
        lk.PackedDataSource(token_source([one + np.uint16(1) for one in DOCUMENTS]), plan),
    ):
        assert rows.fingerprint() != other.fingerprint()
    names = [
        name for key in range(len(plan)) for name in rows.name(key).removeprefix("documents ").split(", ")
    ]
    assert {*map(int, names)} == {key for key, length in enumerate(LENGTHS) if length}


# --- what is wrong --------------------------------------------------------------------------------------------------


def test_documents_that_are_not_as_planned():
    plan = lk.plan_packing([5, 3, 0, 9, 20, 1, 7, 2, 8, 4], 8)
    text = "document 6: expected 7 tokens in 'tokens', as planned, got 6; measure and plan this source again"
    with pytest.raises(ValueError, match=text):
        lk.PackedDataSource(token_source(), plan)
    with pytest.raises(ValueError, match=text):
        list(lk.PackedDataSource(DOCUMENTS, plan))


def test_columns_of_documents_that_are_not_as_planned(monkeypatch):
    """Also where the samples at the beginning hit others: no row begins within another document."""
    plan = lk.plan_packing([5, 3, 0, 9, 20, 1, 7, 2, 8, 4], 8)
    with monkeypatch.context() as patch:
        patch.setattr(lk.PackedDataSource, "_check_lengths", lambda *_: None)
        source = lk.PackedDataSource(token_source(), plan)
    with pytest.raises(ValueError, match="document 6: expected 7 tokens in 'tokens', as planned, got 6"):
        source.take(np.arange(len(source)))


def test_a_plan_of_another_source(tmp_path):
    lk.offline.measure(DOCUMENTS, len, tmp_path / "lengths.npy")
    plan = lk.plan_packing(tmp_path / "lengths.npy", 8)
    assert len(lk.PackedDataSource(DOCUMENTS, plan)) == len(plan)
    with pytest.raises(
        ValueError, match="plan: expected one of lengths of a list of 10 records, got one of another"
    ):
        lk.PackedDataSource([one + 1 for one in DOCUMENTS], plan)
    with pytest.raises(ValueError, match=r"plan: expected one of at most 9 documents, got PackPlan\("):
        lk.PackedDataSource(DOCUMENTS[:9], lk.plan_packing(LENGTHS, 8))
    with pytest.raises(
        ValueError, match=r"plan: expected one of lengths of TokenDataSource.*, got fewer lengths"
    ):
        lk.PackedDataSource(token_source(), lk.plan_packing(LENGTHS[:9], 8))


@pytest.mark.parametrize(
    ("source", "options", "error", "text"),
    [
        (
            token_source,
            {"feature": "text"},
            ValueError,
            r"feature: expected \['tokens'\], which the source has, got",
        ),
        (
            token_source,
            {"feature": []},
            ValueError,
            r"feature: expected a name, or different names, got \[\]",
        ),
        (token_source, {"pad": -1}, ValueError, "pad: expected an int from 0 to .*, got -1"),
        (token_source, {"pad": 0.5}, TypeError, "pad: expected an int, got 0.5"),
        (
            lambda: [{"ids": one} for one in DOCUMENTS],
            {},
            ValueError,
            r"feature: expected one of \['ids'\], .*'ids'",
        ),
        (
            lambda: [1] * 10,
            {},
            TypeError,
            r"document \d: expected an array \(tokens, ...\) for 'tokens', got 1",
        ),
        (
            lambda: [one.astype(np.int32) if k % 2 else one for k, one in enumerate(DOCUMENTS)],
            {},
            ValueError,
            r"document \d: expected 'tokens' as in document \d, which is in the same row",
        ),
    ],
)
def test_wrong_arguments_and_documents(source, options, error, text):
    with pytest.raises(error, match=text):
        list(lk.PackedDataSource(source(), lk.plan_packing(LENGTHS, 8), **options))


def test_other_objects_as_plan_and_source():
    with pytest.raises(TypeError, match=r"plan: expected what lk.plan_packing gives, got 'rows.plan'"):
        lk.PackedDataSource(token_source(), "rows.plan")
    with pytest.raises(TypeError, match="source: expected"):
        lk.PackedDataSource(iter(DOCUMENTS), lk.plan_packing(LENGTHS, 8))
    rows = lk.PackedDataSource(token_source(), lk.plan_packing(LENGTHS, 8))
    with pytest.raises(IndexError, match="record_key: expected an int from -"):
        rows[len(rows)]


# --- beside Grain ---------------------------------------------------------------------------------------------------


def test_rows_beside_grains_first_fit():
    """With as many bins as it needs, and without its shuffle, Grain makes the rows of one first-fit block."""
    grain = pytest.importorskip("grain")
    experimental = pytest.importorskip("grain.experimental")
    lengths = np.random.default_rng(1).integers(1, 30, 60)
    documents = [{"tokens": np.arange(100 * k, 100 * k + n)} for k, n in enumerate(lengths)]
    theirs = experimental.FirstFitPackIterDataset(
        grain.MapDataset.source(documents).to_iter_dataset(),
        length_struct={"tokens": 32},
        num_packing_bins=60,
        shuffle_bins=False,
    )
    ours = lk.PackedDataSource(documents, lk.plan_packing(lengths, 32, how="first_fit"))

    def described(rows):
        return sorted(
            [[name, str(row[name].dtype), row[name].tolist()] for name in sorted(row)]
            for row in map(dict, rows)
        )

    assert described(ours) == described(theirs)


@pytest.mark.parametrize("pad", [300, -1])
def test_a_pad_that_the_documents_cannot_hold(pad):
    rows = lk.PackedDataSource([np.arange(2, dtype=np.uint8)], lk.plan_packing([2], 4), pad=pad)
    with pytest.raises(
        ValueError, match=f"pad: expected a number of uint8, as 'tokens' of document 0 is, got {pad}"
    ):
        rows[0]


class RenamedTokens:
    """Tokens in one array that aren't a TokenDataSource: the same documents under another name."""

    def __init__(self, tokens: lk.TokenDataSource) -> None:
        self.feature, self.dtype, self.bounds, self.slices = "ids", tokens.dtype, tokens.bounds, tokens.slices
        self._tokens = tokens

    def __len__(self):
        return len(self._tokens)

    def __getitem__(self, record_key):
        return {"ids": self._tokens[record_key]["tokens"]}


def test_any_source_of_tokens_in_one_array_is_packed_by_columns():
    """By what it offers, not by its class."""
    tokens = lk.TokenDataSource(np.arange(10, 40), [0, 3, 8, 10, 21, 30])
    plan = lk.plan_packing(tokens.lengths, 12)
    expected = lk.PackedDataSource(tokens, plan).take([1, 0])
    got = lk.PackedDataSource(RenamedTokens(tokens), plan).take([1, 0])
    assert [*got] == [name.replace("tokens", "ids") for name in expected]
    for one, other in zip(expected.values(), got.values()):
        assert np.array_equal(one, other) and one.dtype == other.dtype
