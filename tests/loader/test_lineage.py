"""Lineage: what steps say of documents, and documents of steps, is what was read, whatever the history of a run."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._source.origins import Origins, corpora_of, origins_of, records_with
from loaderkit.samplers import MixedSampler
from loaderkit.sources.subset import SampledKeys

BAD = {3, 4, 11}


class Fragile(lk.RangeDataSource):
    """Some records can't be read."""

    def __getitem__(self, key):
        if key in BAD:
            raise ValueError(f"{key} is bad")
        return super().__getitem__(key)


def packed(first, seed):
    """Rows of documents whose tokens are all different, and what reads them back."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, rng.integers(8, 30))
    lengths[0] = 5
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = lk.TokenDataSource(np.arange(first, first + offsets[-1], dtype=np.int32), offsets)
    how = ["best_fit", "concat_then_split"][seed % 2]
    return lk.PackedDataSource(tokens, lk.plan_packing(tokens.lengths, 6, how=how, block=7)), offsets


class Corpora:
    """A source of one or several corpora, each with values of its own, and what a row says of them."""

    def __init__(self, kind, names, fragile):
        self.parts, self.starts, self.offsets = {}, {}, {}
        for place, name in enumerate(names):
            self.starts[name] = first = 1000 * place + 1
            if kind == "packed":
                self.parts[name], self.offsets[name] = packed(first, place)
            else:
                self.parts[name] = (Fragile if fragile else lk.RangeDataSource)(
                    first, first + 13 + 7 * place, 1
                )
        self.whole = lk.ConcatDataSource(self.parts) if len(names) > 1 else self.parts[names[0]]
        self.several = len(names) > 1

    def wrapped(self, how):
        """The same documents behind another source."""
        match how:
            case "subset":
                keys = np.random.default_rng(1).integers(0, len(self.whole), len(self.whole))
                return lk.SubsetDataSource(self.whole, keys)
            case "every second":
                return lk.SubsetDataSource(self.whole, slice(None, None, 2))
            case "mapped":
                return lk.MapDataSource(self.whole, lambda record: record)
            case "cached":
                return lk.sources.CachedDataSource(lk.MapDataSource(self.whole, lambda record: record))
        return self.whole

    def read(self, batch):
        """(row, corpus, document, start, stop) of all that a batch has."""
        if not isinstance(batch, dict):
            values = np.asarray(batch).tolist()
            return [(row, *self._of(value)) for row, value in enumerate(values) if value]
        found = []
        for row, (tokens, ids) in enumerate(zip(batch["tokens"], batch["tokens_segment_ids"])):
            for each in range(1, ids.max(initial=0) + 1):
                piece = tokens[ids == each]
                name = max((n for n, first in self.starts.items() if first <= piece[0]), key=self.starts.get)
                place = int(piece[0]) - self.starts[name]
                document = int(np.searchsorted(self.offsets[name], place, "right")) - 1
                start = place - int(self.offsets[name][document])
                found.append((row, name if self.several else None, document, start, start + len(piece)))
        return found

    def _of(self, value):
        name = max((n for n, first in self.starts.items() if first <= value), key=self.starts.get)
        return name if self.several else None, value - self.starts[name], 0, -1


def said(documents):
    """The rows of Documents, as `Corpora.read` gives them."""
    columns = (documents.row, documents.corpus, documents.document, documents.start, documents.stop)
    return list(zip(*(column.tolist() for column in columns)))


@st.composite
def histories(draw):
    """(corpora, source, sampler of a source, batches, options of a loader, moves)."""
    kind, names = draw(st.sampled_from(["plain", "plain", "packed"])), "abc"[: draw(st.integers(1, 3))]
    replaced = kind == "plain" and draw(st.booleans())
    corpora = Corpora(kind, names, replaced)
    how = draw(st.sampled_from(["plain", "subset", "every second", "mapped", "cached"]))
    word, epochs, seed = (
        draw(st.sampled_from(["index", "chunk", "mixed", "mixed"])),
        draw(st.none() | st.integers(1, 3)),
        7,
    )
    source = corpora.whole if word == "mixed" else corpora.wrapped(how)
    count = len(source)
    if word == "mixed":
        parts = {
            name: lk.IndexSampler(len(each), shuffle=True, seed=5, num_epochs=epochs)
            for name, each in corpora.parts.items()
        }
        rule = None if epochs is None else draw(st.sampled_from(["stop", "drop"]))
        sampler = MixedSampler(parts, weights=dict.fromkeys(names, 1), when_exhausted=rule)
    elif word == "chunk":
        sampler = lk.ChunkSampler(count, chunk=3, window=2, seed=seed, num_epochs=epochs)
    else:
        sampler = lk.IndexSampler(count, shuffle=draw(st.booleans()), seed=seed, num_epochs=epochs)
    batch, remainder = draw(st.integers(1, 8)), draw(st.sampled_from(["keep", "drop", "pad", "wrap"]))
    options = {"on_record_error": "replace"} if replaced else {}
    if corpora.several if word == "mixed" else how == "plain" and not corpora.several:
        options["exclude"] = dict.fromkeys(names, None) if word == "mixed" else None
    moves = draw(
        st.lists(
            st.sampled_from(
                ["next", "next", "skip", "seek", "reweigh", "exclude", "resize", "restore"]
            ).flatmap(lambda move: st.tuples(st.just(move), st.integers(1, 6))),
            min_size=1,
            max_size=6,
        )
    )
    return corpora, source, sampler, batch, remainder, options, moves


class Run:
    """A run with its history: what each step gave when it was made last."""

    def __init__(self, folder, corpora, source, sampler, batch, remainder, options):
        self.corpora, self.given, self.folder = corpora, {}, folder
        if "exclude" in options:
            lists = {name: folder / name for name in corpora.parts}
            for each in lists.values():
                each.mkdir()
            mixed = options["exclude"] is not None
            options = {**options, "exclude": lists if mixed else lists[next(iter(lists))]}
        self.how = {"data_source": source, "sampler": sampler, **options}
        self.remainder = remainder
        self.open(batch, None)

    def open(self, batch, state):
        self.batch = batch
        operations = [lk.Batch(global_batch_size=batch, remainder=self.remainder)]
        self.loader = lk.DataLoader(**self.how, operations=operations)
        self.it = iter(self.loader)
        if state is not None:
            self.it.set_state(state, allow={"global_batch_size"})

    def move(self, word, number):
        it = self.it
        try:
            match word:
                case "next":
                    for _ in range(number):
                        step, batch = it.step, next(it)
                        self.given = {t: kept for t, kept in self.given.items() if t < step}
                        self.given[step] = self.corpora.read(batch)
                case "skip":
                    it.skip(number % 3)
                    self.given = {t: kept for t, kept in self.given.items() if t < it.step}
                case "seek":
                    it.seek(max(0, it.step - 3 + number))
                case "reweigh":
                    names = list(self.corpora.parts)
                    it.reweigh({name: (number + place) % 4 for place, name in enumerate(names)})
                case "exclude" if "exclude" in self.how:
                    name, part = next(iter(self.corpora.parts.items()))
                    documents = getattr(part, "documents", part)
                    lk.offline.block_list(
                        documents, self.folder / name, keys=[number, number + 1], reason="a test"
                    )
                    it.exclude()
                case "resize" | "restore":
                    state = it.get_state()
                    it.close()
                    self.open(number if word == "resize" else self.batch, state)
        except (StopIteration, IndexError, TypeError, ValueError):
            pass  # no such step, no mixture, no weights, or another batch size at that step

    def close(self):
        self.it.close()


def naive_counts(read, corpus, count):
    """[(count, last)] of documents, from all rows of `documents(range)`."""
    steps = {
        document: [each[0] for each in read if each[2:4] == (corpus, document)] for document in range(count)
    }
    return [(len(found), max(found, default=-1)) for found in steps.values()]


@pytest.mark.filterwarnings("ignore:exclude:UserWarning")
@given(history=histories())
def test_both_directions_are_what_was_read(history, tmp_path_factory):
    """Steps say the documents that were read, documents the steps, and counts are those of all steps."""
    corpora, source, sampler, batch, remainder, options, moves = history
    folder = tmp_path_factory.mktemp("lineage")
    run = Run(folder, corpora, source, sampler, batch, remainder, options)
    try:
        for word, number in moves:
            run.move(word, number)
        it, steps = run.it, 0
        for step in range(it.step):
            try:
                documents = it.documents(step)
            except IndexError:
                break  # the iterator is behind the last step
            assert step not in run.given or said(documents) == run.given[step]
            steps += 1
        documents = it.documents(range(steps))
        read = [(int(documents.step[k]), *each) for k, each in enumerate(said(documents))]
        of_steps = {
            step: [each[1:] for each in read if each[0] == step] for step in run.given if step < steps
        }
        assert of_steps == {step: run.given[step] for step in of_steps}
        counted = np.load(seen_file(it, steps, folder))
        begin = 0
        for name, part in corpora.parts.items():
            corpus = name if corpora.several else None
            for document in sorted({each[3] for each in read if each[2] == corpus})[:3]:
                found = it.steps_of(corpus, key=document, until=steps)
                expected = [each for each in read if each[2:4] == (corpus, document)]
                assert list(zip(found.step.tolist(), said(found))) == [
                    (each[0], each[1:]) for each in expected
                ]
                some = it.steps_of(corpus, key=document, start=1, until=min(3, steps))
                assert some.step.tolist() == [each[0] for each in expected if 1 <= each[0] < 3]
            count = len(corpora.offsets[name]) - 1 if corpora.offsets else len(part)
            of_corpus = counted[begin : begin + count][["count", "last"]].tolist()
            assert of_corpus == naive_counts(read, corpus, count)
            begin += count
        assert begin == len(counted)
    finally:
        run.close()


def seen_file(it, steps, folder):
    """What `seen` wrote."""
    it.seen(steps, folder / "seen.npy")
    return folder / "seen.npy"


def test_no_worker_and_no_host_changes_what_is_said():
    """Two hosts with workers together read what each of them says of a step, its wrapped end too."""
    corpora = Corpora("packed", "ab", fragile=False)
    how = {"data_source": corpora.whole, "sampler": lk.IndexSampler(len(corpora.whole), num_epochs=1)}
    operations = [lk.Batch(global_batch_size=6, remainder="wrap")]
    said_by, read = [], {}
    for host in range(2):
        options = {"shard_options": lk.ShardOptions(host, 2), "worker_count": 1}
        with lk.DataLoader(**how, operations=operations, **options) as loader, iter(loader) as it:
            for step, batch in enumerate(it):
                read.setdefault(step, []).extend(
                    [(row + 3 * host, *rest) for row, *rest in corpora.read(batch)]
                )
            said_by.append([said(it.documents(step)) for step in range(it.step)])
    assert said_by[0] == said_by[1] == [read[step] for step in sorted(read)]


def token_source(count):
    lengths = np.arange(count) * 5 % 11
    return lk.TokenDataSource(np.arange(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))


def token_files(path):
    """As `files`, of tokens with ids, packed."""
    for place, count in enumerate((2, 5)):
        records = [{"tokens": np.arange(k + 1), "id": f"{place}-{k}"} for k in range(count)]
        lk.write(records, path / f"{place}", format="tokens")
    tokens = lk.TokenDataSource([f"{path}/0", f"{path}/1"])
    assert origins_of(tokens, [3]).ids.tolist() == ["1-1"]
    return lk.PackedDataSource(tokens, lk.plan_packing(tokens.lengths, 4))


def files(path, extension):
    """Two files of three records and five; the second half of the first isn't read."""
    for place, count in enumerate((3, 5)):
        lk.write([{"x": k} for k in range(count)], path / f"{place}.{extension}")
    return lk.open([f"{path}/0.{extension}[0:2]", f"{path}/1.{extension}"], format=extension)


SOURCES = {
    "packed of a concatenation": lambda path: lk.PackedDataSource(
        lk.ConcatDataSource({"a": token_source(9), "b": token_source(5)}),
        lk.plan_packing(np.concatenate([token_source(9).lengths, token_source(5).lengths]), 7, block=4),
    ),
    "parts of parts": lambda path: lk.ConcatDataSource(
        {"web": lk.ConcatDataSource({"c4": "abc", "cc": "de"}), "code": "fgh"}
    ),
    "without names": lambda path: lk.ConcatDataSource(["abc", "de"]),
    "chosen by a sampler": lambda path: lk.SubsetDataSource(
        range(30), SampledKeys(lk.IndexSampler(30, shuffle=True, seed=3), range(2, 21, 3))
    ),
    "backwards": lambda path: lk.SubsetDataSource(range(30), range(20, 3, -3)),
    "tokens": token_files,
    "lines": lambda path: files(path, "jsonl"),
    "array records": lambda path: files(path, "array_record"),
    "parquet": lambda path: files(path, "parquet"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_records_with_documents_are_the_way_back_of_origins(name, tmp_path):
    """Of all documents of all corpora, and none else; files say which record is where."""
    source = SOURCES[name](tmp_path)
    found = origins_of(source, np.arange(len(source)))
    assert (np.diff(found.which) >= 0).all()
    pairs = set(zip(found.which.tolist(), found.corpora.tolist(), found.documents.tolist()))
    for corpus in corpora_of(source):
        which, keys = records_with(source, np.arange(-1, corpus.documents + 1), corpus.name)
        assert set(zip(keys.tolist(), [corpus.name] * len(keys), (which - 1).tolist())) == {
            pair for pair in pairs if pair[1] == corpus.name
        }
    if found.ids[0] is not None:
        names = [f"{file.split(os.sep)[-2]}-{record}" for file, record in zip(found.files, found.records)]
        assert found.ids.tolist() == names
    elif found.files[0] is not None:
        places = [(0, 0), (0, 1), *((1, k) for k in range(5))]
        assert [
            (int(os.path.basename(file)[0]), record) for file, record in zip(found.files, found.records)
        ] == places
        assert [source[key]["x"] for key in range(7)] == found.records.tolist()


def test_names_of_corpora():
    """Those of parts within parts are joined, and parts without names have numbers."""
    names = [
        [each.name for each in corpora_of(SOURCES[name](None))]
        for name in ("parts of parts", "without names")
    ]
    assert names == [["web/c4", "web/cc", "code"], ["0", "1"]]


@pytest.mark.parametrize(
    "sampler",
    [
        lk.samplers.WeightedSampler([1, 0, 3, 2], seed=0, num_samples=30),
        lk.samplers.LengthBucketSampler([1, 2, 9, 8], [4, 10], 4, shuffle=True, seed=0, num_epochs=3),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_samplers_that_say_no_places_are_looked_through(sampler, tmp_path):
    """Unused indices of a step aren't read."""
    batch = (
        lk.PadBatch(global_batch_size=4, boundaries={"x": [4, 10]})
        if hasattr(sampler, "shapes")
        else lk.Batch(4)
    )
    loader = lk.DataLoader(
        data_source=[{"x": np.ones(n)} for n in (1, 2, 9, 8)], sampler=sampler, operations=[batch]
    )
    steps = len(loader)
    documents = loader.documents(range(steps))
    assert [documents.take(documents.step == step).document.tolist() for step in range(steps)] == [
        [record.record_key for record in loader.records(step)] for step in range(steps)
    ]
    loader.seen(steps, tmp_path / "seen.npy")
    read = [(step, 0, None, document) for step, document in zip(documents.step, documents.document)]
    assert np.load(tmp_path / "seen.npy")[["count", "last"]].tolist() == naive_counts(read, None, 4)
    for document in range(4):
        assert (
            loader.steps_of(key=document).step.tolist()
            == documents.step[documents.document == document].tolist()
        )


def test_files_of_documents_and_counts(tmp_path):
    """Parquet holds the columns, step after step, and the counts that the other file has."""
    import pyarrow.parquet as pq

    corpora = Corpora("packed", "ab", fragile=False)
    loader = lk.load(corpora.whole, shuffle=True, seed=0, batch_size=5)
    assert loader.documents(range(40), tmp_path / "read.parquet") is None
    assert pq.read_table(tmp_path / "read.parquet").equals(loader.documents(range(40)).to_arrow())
    rows = loader.seen(40, tmp_path / "seen.npy")
    assert loader.seen(40, tmp_path / "seen.parquet") == rows
    table, counted = pq.read_table(tmp_path / "seen.parquet"), np.load(tmp_path / "seen.npy")
    assert list(zip(*(table[name].to_pylist() for name in ("count", "pieces", "last")))) == counted.tolist()
    assert table["corpus"].to_pylist() == [name for name, part in rows.items() for _ in part]
    assert table["document"].to_pylist() == [k for part in rows.values() for k in range(len(part))]
    pieces = np.concatenate(
        [each._plan.rows_of(range(len(corpora.offsets[n]) - 1))[0] for n, each in corpora.parts.items()]
    )
    assert counted["pieces"].sum() == len(pieces)


def test_a_document_is_found_by_its_id():
    """In a pass over the records; each document that has it."""

    class Named(list):
        def origins(self, record_keys):
            ids = np.array([self[key]["id"] for key in record_keys], object)
            return Origins.of_documents(np.asarray(record_keys), ids=ids)

    named = Named({"id": f"n{k % 4}"} for k in range(6))
    loader = lk.load(
        lk.ConcatDataSource({"a": named, "b": named}), num_epochs=2, operations=[lambda r: r["id"]]
    )
    found = loader.steps_of("b", id="n1")
    assert (found.document.tolist(), found.step.tolist(), {*found.id}) == (
        [1, 5, 1, 5],
        [7, 11, 19, 23],
        {"n1"},
    )
    with pytest.raises(LookupError, match="got 'n9'"):
        loader.steps_of("b", id="n9")


def test_a_source_without_ids_says_so_at_its_first_records():
    """Not behind a pass over all of them, which may take hours."""

    class Plain(list):
        def origins(self, record_keys):
            assert record_keys[0] == 0
            return Origins.of_documents(np.asarray(record_keys))

    loader = lk.load(Plain(range(1 << 17)), num_epochs=1, batch_size=8)
    with pytest.raises(LookupError, match="says ids of its documents"):
        loader.steps_of(id="n1")


def test_records_of_a_mixture_have_their_component():
    """By its name; those of other samplers have none."""
    source, sampler = lk.mix({"a": range(5), "b": range(9)}, {"a": 1, "b": 2}, seed=0)
    records = lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(6)]).records(1)
    assert [record.component for record in records] == [
        "a" if record.record_key < 5 else "b" for record in records
    ]
    assert "component='" in repr(records[0])
    assert lk.load(source).records(0)[0].component is None


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda it: it.steps_of(key=0), ValueError, "expected one of"),
        (lambda it: it.steps_of("c", key=0), ValueError, "got 'c'"),
        (lambda it: it.steps_of("a", key=5), IndexError, "documents from 0 to 4"),
        (lambda it: it.steps_of("a", key=[1.5]), TypeError, "key: expected an int"),
        (lambda it: it.steps_of("a"), TypeError, "key= or id="),
        (lambda it: it.steps_of("a", key=1, until=-1), ValueError, "until"),
        (lambda it: it.documents(range(0, 9, 2)), ValueError, "one behind the other"),
        (lambda it: it.documents(-1), ValueError, "step"),
        (lambda it: it.documents(14), IndexError, "step: 14 doesn't exist"),
        (lambda it: it.seen(15, "x.npy"), IndexError, "step: 14 doesn't exist"),
        (lambda it: it.seen(3, "x.csv"), ValueError, ".npy or .parquet"),
    ],
)
def test_what_cannot_be_said_is_an_error(ask, error, text):
    """It says what was expected."""
    source = lk.ConcatDataSource({"a": range(5), "b": range(9)})
    loader = lk.load(source, num_epochs=1)
    for of in (loader, iter(loader)):
        with pytest.raises(error, match=text):
            ask(of)


def test_a_stream_without_end_and_rows_of_unknown_number():
    """A loader needs a last step, an iterator has one; and no step is known behind a Filter."""
    loader = lk.load(range(5))
    with pytest.raises(ValueError, match="until: expected a step"):
        loader.steps_of(key=1)
    with iter(loader) as it:
        it.seek(12)
        assert it.steps_of(key=1).step.tolist() == [1, 6, 11]
    filtered = lk.load(range(5), operations=[lk.Filter(bool)], num_epochs=1)
    for ask in (
        lambda: filtered.documents(0),
        lambda: filtered.steps_of(key=0),
        lambda: filtered.seen(0, "x.npy"),
    ):
        with pytest.raises(ValueError, match="which documents a step reads isn't known: Filter"):
            ask()
