"""Corpora one after the other: packed as fast as one, and mixed where their tokens are of one dtype."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.testing import check_source

LENGTHS = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=4).filter(
    lambda of: any(map(any, of))
)


def corpus(lengths, first=0, dtype=np.uint16):
    return lk.TokenDataSource(np.arange(first, first + sum(lengths), dtype=dtype), np.cumsum([0, *lengths]))


def same_rows(one, other, keys):
    one, other = one.take(keys), other.take(keys)
    return [*one] == [*other] and all(map(np.array_equal, one.values(), other.values()))


@given(LENGTHS, st.integers(1, 8), st.booleans(), st.data())
def test_corpora_are_packed_as_one(cuts, row, nested, data):
    """Lengths, parts and packed rows of several are those of all documents in one array; sources may be empty."""
    firsts = np.cumsum([0, *map(sum, cuts)])
    parts = [corpus(lengths, first) for lengths, first in zip(cuts, firsts.tolist())]
    flat = [n for lengths in cuts for n in lengths]
    one = corpus(flat)
    joined = lk.ConcatDataSource([lk.ConcatDataSource(parts[:1]), *parts[1:]] if nested else parts)
    assert joined.lengths.tolist() == flat and joined.lengths.dtype == np.uint32
    key = data.draw(st.integers(0, len(flat) - 1))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, flat[key])] * 2)))
    assert joined.read_range(key, start, stop)["tokens"].tolist() == one[key]["tokens"][start:stop].tolist()
    plan = lk.plan_packing(joined.lengths, row)
    keys = data.draw(st.lists(st.integers(0, len(plan) - 1), max_size=6))
    assert same_rows(lk.PackedDataSource(joined, plan), lk.PackedDataSource(one, plan), keys)


@given(LENGTHS, st.integers(1, 8), st.data())
def test_chosen_documents_are_packed_as_a_corpus_of_them(cuts, row, data):
    """A slice, or chosen keys, of several corpora: lengths, parts and rows of the same documents in one array."""
    firsts = np.cumsum([0, *map(sum, cuts)]).tolist()
    joined = lk.ConcatDataSource([corpus(lengths, first) for lengths, first in zip(cuts, firsts)])
    keys = st.lists(st.integers(0, len(joined) - 1), min_size=1, max_size=6)
    how = data.draw(st.one_of(keys, st.integers(1, 3).map(lambda step: slice(None, None, -step))))
    part = joined[how]
    tokens = [record["tokens"] for record in part]
    flat = [*map(len, tokens)]
    assert part.lengths.tolist() == flat
    key = data.draw(st.integers(0, len(flat) - 1))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, flat[key])] * 2)))
    assert part.read_range(key, start, stop)["tokens"].tolist() == tokens[key][start:stop].tolist()
    if not any(flat):
        return
    one = lk.TokenDataSource(np.concatenate(tokens), np.cumsum([0, *flat]))
    plan = lk.plan_packing(part.lengths, row)
    assert same_rows(lk.PackedDataSource(part, plan), lk.PackedDataSource(one, plan), range(len(plan)))


def test_what_all_parts_have(tmp_path):
    """Parts of documents are read where all sources read some; columns by place where all are of like tokens."""
    other = lk.ConcatDataSource([corpus([3]), corpus([2], dtype=np.int32)])
    assert other.lengths.tolist() == [3, 2] and other.read_range(1, 0, 1)["tokens"].tolist() == [0]
    mixed = lk.ConcatDataSource([corpus([3]), [{"tokens": np.arange(2)}]])
    for name, source in (("dtype", other), ("slices", other), ("lengths", mixed), ("read_range", mixed)):
        with pytest.raises(AttributeError, match="a ConcatDataSource has it for sources"):
            getattr(source, name)
    rows = [{"tokens": np.arange(k, dtype=np.uint8), "id": f"{k}"} for k in range(5)]
    for name in ("a", "b"):
        lk.write(rows, tmp_path / f"{name}.tokens")
    files = lk.ConcatDataSource([lk.TokenDataSource(tmp_path / f"{name}.tokens") for name in ("a", "b")])
    assert files.document_column("id", [7, 1]).tolist() == ["2", "1"]
    assert [*files.columns] == ["id"]
    part = files[::-2]
    assert (part.document_column("id", [1]).tolist(), [*part.columns]) == (["2"], ["id"])
    for source in (files, part):
        check_source(source, skip=["another process"])
    for name in ("slices", "dtype", "bounds", "lengths", "read_range"):
        assert not hasattr(lk.SubsetDataSource(rows, [1]), name)


def test_a_mixture_of_tokens_of_two_dtypes_is_an_error():
    """A batch's dtype depended on its step; of documents, and of packed rows."""
    sources = {"web": corpus([3, 4]), "code": corpus([5], dtype=np.int32)}
    packed = {
        name: lk.PackedDataSource(one, lk.plan_packing(one.lengths, 4)) for name, one in sources.items()
    }
    for given_sources in (sources, packed):
        with pytest.raises(
            ValueError, match="expected tokens of one dtype, got 'web' of uint16, 'code' of int32"
        ):
            lk.mix(given_sources)
    source, _ = lk.mix({"web": sources["web"], "more": corpus([5])}, id_key="of")
    assert source.read_range(2, 1, 3) == {"tokens": pytest.approx([1, 2]), "of": 1}
