"""Rows that lack some documents, through all sources that pass them on, beside a loop over the pieces."""

import pickle
from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order.stage_keys import STAGE_SHIFT
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.optional import column_reader, many_reader
from loaderkit._source.protocol import read_records
from loaderkit.sources.exclusion import documents_of, excluding, rows_excluded
from loaderkit.sources.staged import StagedDataSource

ROW = 6


def corpus_of(lengths, first):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return lk.TokenDataSource(np.arange(first, first + offsets[-1]).astype(np.uint16), offsets)


def naive_rows(corpus, plan, documents, *, across):
    """Each row's tokens, segment ids, positions and mask without the documents, how many pieces it loses and has."""
    pieces = plan.rows(range(len(plan)))
    every = zip(pieces.documents.tolist(), pieces.starts.tolist(), pieces.lengths.tolist())
    for count in pieces.counts.tolist():
        row = {"tokens": [], "tokens_segment_ids": [], "tokens_positions": [], "targets": [], "mask": []}
        found = list(islice(every, count))
        left = [piece for piece in found if piece[0] not in documents]
        for number, (document, start, length) in enumerate(left, 1):
            piece = corpus[document]["tokens"][start : start + length].tolist()
            row["tokens"] += piece
            row["tokens_segment_ids"] += [number] * length
            row["tokens_positions"] += range(length)
            behind = corpus[document]["tokens"][start + length :].tolist() if across else []
            row["targets"] += [*piece[1:], *behind[:1], 0][:length]
            row["mask"] += [True] * (length - 1) + [bool(behind)]
        gap = ROW - len(row["tokens"])
        yield {name: values + [0] * gap for name, values in row.items()}, len(found) - len(left), len(found)


def as_lists(row):
    return {name: np.asarray(leaf).tolist() for name, leaf in row.items() if name[:8] != "targets_"}


def rows_of(source):
    return [as_lists(row) for row in read_records(source, range(len(source)))]


@st.composite
def packed(draw, number):
    """A corpus, its rows behind some other sources, the documents to leave out, and what is expected of all rows."""
    lengths = draw(st.lists(st.integers(0, 14), min_size=1, max_size=14).filter(any))
    corpus = corpus_of(lengths, 1000 * number + 1)
    plan = lk.plan_packing(
        lengths,
        ROW,
        how=draw(st.sampled_from(["best_fit", "first_fit", "concat_then_split"])),
        long=draw(st.sampled_from(["split", "truncate"])),
        block=draw(st.integers(2, 15)),
        order=draw(
            st.sampled_from([None, lk.IndexSampler(len(lengths), shuffle=True, seed=3, num_epochs=1)])
        ),
    )
    documents = draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6))
    given = draw(st.sampled_from([corpus, lk.InMemoryDataSource(list(corpus)), list(corpus)]))
    targets = draw(st.sampled_from([True, "document"]))
    source = lk.PackedDataSource(given, plan, targets=targets, mask="mask", max_read_factor=99)
    expected = list(naive_rows(corpus, plan, set(documents), across=targets == "document"))
    wrapped = draw(st.sampled_from(["", "map", "cache", "subset", "range"]))
    if wrapped == "map":
        source = lk.MapDataSource(source, dict)
    elif wrapped == "cache":
        source = lk.CachedDataSource(source)
    elif wrapped:
        keys = draw(st.permutations(range(len(plan))))[: draw(st.integers(1, len(plan)))]
        if wrapped == "range":
            keys = range(len(plan))[:: draw(st.sampled_from([1, 2, -1]))]
        source, expected = lk.SubsetDataSource(source, keys), [expected[key] for key in keys]
    return source, documents, expected


@given(st.data())
def test_rows_beside_a_loop_over_the_pieces(data):
    """Of a mixture of packed corpora: rows without documents, which lost some pieces and which all, any way to read."""
    corpora = {
        name: data.draw(packed(number)) for number, name in enumerate("abc"[: data.draw(st.integers(1, 3))])
    }
    named = data.draw(st.booleans())
    sources = {name: source for name, (source, *_) in corpora.items()}
    source = lk.ConcatDataSource(sources if named else [*sources.values()])
    documents = {name: documents for name, (_, documents, _) in corpora.items()}
    if not named:
        starts = np.cumsum([0, *(len(documents_of(each)) for each in sources.values())])
        documents = [key + start for keys, start in zip(documents.values(), starts.tolist()) for key in keys]
    expected = [row for *_, rows in corpora.values() for row in rows]
    assert rows_of(source) == rows_of(source.excluding({} if named else []))

    gone, touched = rows_excluded(source, documents)
    assert gone.tolist() == [key for key, (_, lost, all_) in enumerate(expected) if lost == all_]
    assert touched.tolist() == [key for key, (_, lost, all_) in enumerate(expected) if 0 < lost < all_]
    left = pickle.loads(pickle.dumps(excluding(source, documents)))
    assert len(left) == len(source)
    assert rows_of(left) == [row for row, *_ in expected]

    plain = rows_of(source)
    staged = StagedDataSource(source, {1: {} if named else [], 2: documents})
    keys = data.draw(st.lists(st.integers(0, len(source) - 1), min_size=1, max_size=9))
    stages = data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=len(keys), max_size=len(keys)))
    wanted = [expected[key][0] if stage == 2 else plain[key] for key, stage in zip(keys, stages)]
    keys = [key | stage << STAGE_SHIFT for key, stage in zip(keys, stages)]
    assert [as_lists(staged[key]) for key in keys[:2]] == wanted[:2]
    assert list(map(as_lists, staged.read_each(np.array(keys)))) == wanted
    assert [staged.name(key) for key in keys] == [
        (left if stage == 2 else source).name(key & (1 << STAGE_SHIFT) - 1)
        for key, stage in zip(keys, stages)
    ]
    if (many := many_reader(staged)) is not None:
        assert list(map(as_lists, many(keys))) == wanted
    assert (column_reader(staged) is None) == (column_reader(source) is None)
    if (take := column_reader(staged)) is not None:
        columns = take(np.array(keys))
        out = [np.full_like(leaf, 77) for leaf in columns.values()]
        take(np.array(keys), out=out)
        for taken in (columns, dict(zip(columns, out))):
            assert [as_lists(dict(zip(taken, row))) for row in zip(*taken.values())] == wanted
    assert staged.fingerprint() == fingerprint_of(source)


def test_a_cache_keeps_no_row_that_lacks_documents(tmp_path):
    corpus = corpus_of([3, 2, 4], 1)
    rows = lk.PackedDataSource(corpus, lk.plan_packing(corpus.lengths, ROW))
    cached = lk.CachedDataSource(rows, tmp_path / "cache")
    before = rows_of(cached)
    without = rows_of(cached.excluding([0]))
    assert without == rows_of(rows.excluding([0])) != before
    assert rows_of(cached) == before
