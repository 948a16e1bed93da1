"""Plans of several epochs: what each packs, loaders over them, and epochs that were planned again before they began."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order.mixing import fold
from loaderkit.errors import CheckpointMismatchError
from loaderkit.samplers import ChunkSampler, SpanSampler

HOW = ("best_fit", "first_fit", "concat_then_split")


def pieces_of(plan, keys=None):
    pieces = plan.rows(np.arange(len(plan)) if keys is None else keys)
    rows = np.arange(len(pieces.counts)).repeat(pieces.counts).tolist()
    found = [[] for _ in pieces.counts]
    for row, *piece in zip(rows, *(each.tolist() for each in pieces[:3])):
        found[row].append(tuple(piece))
    return found


@given(
    st.lists(st.integers(0, 14), min_size=1, max_size=40).filter(any),
    st.sampled_from(HOW),
    st.sampled_from(["split", "truncate", "drop", "raise"]),
    st.integers(1, 34),
    st.integers(1, 3),
    st.data(),
)
def test_each_epoch_is_the_plan_of_its_own_order(lengths, how, long, block, epochs, data):
    """Without the documents that are left out from it on, as if they were empty; and rows are numbered through."""
    row = 16 if long == "raise" else 9
    documents = st.lists(st.integers(0, len(lengths) - 1), max_size=5)
    exclude = data.draw(documents | st.dictionaries(st.integers(0, epochs - 1), documents))
    options = {"how": how, "long": long, "block": block}
    stages = exclude if isinstance(exclude, dict) else {0: exclude}
    expected = []
    for epoch in range(epochs):
        left = np.array(lengths)
        for first, keys in stages.items():
            left[keys if first <= epoch else []] = 0
        seed = fold(7, epoch)
        order = ChunkSampler(len(left), chunk=max(1, block // 16), window=16, num_epochs=1, seed=seed)
        if not (left if long != "drop" else left * (left <= row)).any():
            with pytest.raises(ValueError, match="lengths: expected a document with tokens for a row"):
                lk.plan_packing(lengths, row, seed=7, epochs=epochs, exclude=exclude, **options)
            return
        expected.append(pieces_of(lk.plan_packing(left, row, order=order, seed=seed, **options)))
    plan = lk.plan_packing(lengths, row, seed=7, epochs=epochs, exclude=exclude, **options)
    assert plan.epoch_lengths == tuple(map(len, expected))
    rows = [pieces for of_epoch in expected for pieces in of_epoch]
    assert pieces_of(plan) == rows
    assert plan.num_tokens == sum(tokens for pieces in rows for *_, tokens in pieces)
    keys = data.draw(st.lists(st.integers(0, len(plan) - 1), min_size=1, max_size=9))
    assert pieces_of(plan, keys) == [rows[key] for key in keys]

    some = data.draw(st.lists(st.integers(0, len(lengths) - 1), unique=True, max_size=6))
    which, found = plan.rows_of(some)
    named = [
        (document, row) for row, pieces in enumerate(rows) for document, *_ in pieces if document in some
    ]
    assert sorted(zip(np.array(some, int)[which].tolist(), found.tolist())) == sorted(named)
    tokens = lk.TokenDataSource(np.zeros(sum(lengths), np.uint8), np.cumsum([0, *lengths]))
    gone, touched = lk.PackedDataSource(tokens, plan).rows_excluded(some)
    lost = [[document in some for document, *_ in pieces] for pieces in rows]
    assert gone.tolist() == [row for row, each in enumerate(lost) if all(each)]
    assert touched.tolist() == [row for row, each in enumerate(lost) if any(each) and not all(each)]


def test_one_plan_without_documents():
    """Also without epochs, and a document that is left out may be longer than `long="raise"` allows."""
    plan = lk.plan_packing([3, 90, 1, 0], 4, long="raise", exclude=[1])
    assert sorted(piece for row in pieces_of(plan) for piece in row) == [(0, 0, 3), (2, 0, 1)]
    assert (plan.excluded_documents, plan.empty_documents) == (1, 1)
    assert lk.plan_packing([3, 1], 4, exclude=[]).fingerprint() == lk.plan_packing([3, 1], 4).fingerprint()
    assert lk.plan_packing([3, 1], 4, exclude=[1]).fingerprint() != lk.plan_packing([3, 1], 4).fingerprint()


def test_documents_of_a_block_list(tmp_path):
    """The plan that their keys give; a list of another source than the lengths were measured of is refused."""
    texts, others = ["abc", "ab", "a"], ["abc", "ab", "b"]
    lk.offline.measure(texts, len, tmp_path / "lengths.npy")
    listed = lk.offline.block_list(texts, tmp_path / "blocked", keys=[1], reason="a test")
    of_keys = lk.plan_packing(tmp_path / "lengths.npy", 4, epochs=2, exclude={1: [1]})
    of_list = lk.plan_packing(tmp_path / "lengths.npy", 4, epochs=2, exclude={1: listed})
    assert of_list.fingerprint() == of_keys.fingerprint()
    listed = lk.offline.block_list(others, tmp_path / "blocked", keys=[1], reason="a test")
    with pytest.raises(
        ValueError, match="exclude: expected a list of the source that the lengths were measured of"
    ):
        lk.plan_packing(tmp_path / "lengths.npy", 4, exclude=listed)


def test_plans_of_another_source(tmp_path):
    texts = [np.arange(3), np.arange(2)]
    lk.offline.measure(texts, len, tmp_path / "lengths.npy")
    plan = lk.plan_packing(tmp_path / "lengths.npy", 4, epochs=2)
    assert len(lk.PackedDataSource(texts, plan)) == 4
    with pytest.raises(ValueError, match=r"plan: expected one of lengths of .*, got one of another source's"):
        lk.PackedDataSource([np.arange(3), np.arange(3)], plan)


def test_rows_are_full_and_near_each_other():
    """1,024 rows that follow one another are of few chunks, and few documents meet again in the next epoch."""
    lengths = np.random.default_rng(0).lognormal(6.4, 1, 40_000).astype(int) + 1
    plan = lk.plan_packing(lengths, 4096, epochs=2)
    assert plan.fill > 0.999
    neighbours = []
    for epoch in plan.plans:
        pieces = epoch.rows(np.arange(len(epoch)))
        rows = np.arange(len(epoch)).repeat(pieces.counts)
        pairs = np.stack([pieces.documents[:-1], pieces.documents[1:]], axis=1)[rows[1:] == rows[:-1]]
        neighbours.append({tuple(sorted(pair)) for pair in pairs.tolist()})
        assert len({*(epoch.rows(np.arange(1024)).documents // 1024).tolist()}) <= 17
    assert len(neighbours[0] & neighbours[1]) < 0.06 * len(neighbours[0])


def test_a_file_for_each_epoch(tmp_path):
    """Files of epochs that are planned again without documents stand beside the former ones, which are kept."""
    lengths, path = np.arange(1, 300), tmp_path / "web.plan"
    made = lk.plan_packing(lengths, 512, path, epochs=3, block=64)
    assert sorted(os.listdir(path)) == ["epoch-00.plan", "epoch-01.plan", "epoch-02.plan"]
    bytes_of = {name: (path / name).read_bytes() for name in os.listdir(path)}
    again = lk.plan_packing(lengths, 512, path, epochs=3, block=64, exclude={2: [5]})
    assert again.fingerprint()["plans"][:2] == made.fingerprint()["plans"][:2]
    assert again.fingerprint()["plans"][2] != made.fingerprint()["plans"][2]
    assert {name: (path / name).read_bytes() for name in bytes_of} == bytes_of
    assert len(os.listdir(path)) == 4
    opened = lk.plan_packing(lengths, 512, path, epochs=2, block=64)  # fewer epochs: the same files
    assert opened.fingerprint()["plans"] == made.fingerprint()["plans"][:2]


# --- in loaders -----------------------------------------------------------------------------------------------------

LENGTHS = np.random.default_rng(1).integers(1, 40, 120)


def rows_of(exclude=None, epochs=3, block=64, first=0):
    tokens = np.arange(first, first + LENGTHS.sum()).astype(np.uint32)
    corpus = lk.TokenDataSource(tokens, np.concatenate([[0], np.cumsum(LENGTHS)]))
    return lk.PackedDataSource(
        corpus, lk.plan_packing(LENGTHS, 64, epochs=epochs, exclude=exclude, block=block)
    )


def contents(batches):
    return [batch["tokens"].tobytes() for batch in batches]


def alone(**options):
    return lk.load(rows_of(**options), batch_size=4, shuffle=True, seed=0, num_epochs=1)


def mixed(**options):
    more = rows_of(epochs=2, first=1 << 20)
    source, sampler = lk.mix(
        {"web": rows_of(**options), "code": more}, {"web": 3, "code": 1}, shuffle=True, seed=0
    )
    return lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(4)], num_steps=50)


def saved_at(loader, step):
    with iter(loader) as it:
        for _ in range(step):
            next(it)
        return it.get_state()


def rest_of(loader, state):
    with iter(loader) as it:
        it.set_state(state)
        return contents(it)


@pytest.mark.parametrize(("loader", "share"), [(alone, 1), (mixed, 3 / 4)])
def test_an_epoch_that_was_not_begun_may_be_planned_again(loader, share):
    """A state of epoch 1 goes on with other plans from epoch 2 on, and with more epochs; not with another plan of 1."""
    first, second, _ = rows_of().epoch_lengths
    step = int((first + 9) / share) // 4 + 1
    state = saved_at(loader(), step)
    kept = int((first + second) / share) // 4 - step  # of epochs that were begun
    expected = rest_of(loader(), state)
    for other in ({"exclude": {2: range(20)}}, {"epochs": 5}):
        rest = rest_of(loader(**other), state)
        assert rest[:kept] == expected[:kept]
        assert rest != expected
    for other in ({"exclude": {1: [5]}}, {"exclude": [5]}, {"block": 32}, {"epochs": 1}):
        with pytest.raises(CheckpointMismatchError, match="another stream"):
            rest_of(loader(**other), state)


def test_the_first_row_of_an_epoch_begins_it():
    """Behind the last row of epoch 1 epoch 2 may change, one row later it may not."""
    first, second, _ = rows_of().epoch_lengths
    again = {"exclude": {2: [5]}}

    def loader(**options):
        return lk.load(rows_of(**options), shuffle=True, seed=0, num_epochs=1)

    rest_of(loader(**again), saved_at(loader(), first + second))
    with pytest.raises(CheckpointMismatchError, match="another stream"):
        rest_of(loader(**again), saved_at(loader(), first + second + 1))


def test_after_the_last_epoch_all_count():
    """A sampler without end reads the plans again: then none may change."""

    def loader(**options):
        return lk.load(rows_of(**options), batch_size=1, shuffle=True, seed=0)

    state = saved_at(loader(), sum(rows_of().epoch_lengths) + 1)
    for other in ({"exclude": {2: [5]}}, {"epochs": 4}):
        with pytest.raises(CheckpointMismatchError, match="another stream"):
            rest_of(loader(**other), state)


@pytest.mark.filterwarnings("ignore:exclude.*their places in packed rows are padding")
@pytest.mark.parametrize("mixing", [False, True])
def test_an_epoch_that_begins_earlier_as_rows_are_left_out(tmp_path, mixing):
    """Indices pass over rows with nothing left: what was begun is known by the places that were read."""
    corpus, name = rows_of().documents, "web" if mixing else None
    folder = tmp_path / "blocked"
    lk.offline.block_list(corpus, folder, keys=range(100), reason="a test")

    def loader(**options):
        rows = rows_of(**options)
        if not mixing:
            return lk.load(rows, shuffle=True, seed=0, num_epochs=1, exclude=folder)
        source, sampler = lk.mix({name: rows, "x": rows_of(first=1 << 20)}, shuffle=True, seed=0)
        return lk.DataLoader(data_source=source, sampler=sampler, num_steps=200, exclude={name: folder})

    gone = rows_of().rows_excluded(range(100))[0]
    first, second, _ = rows_of().epoch_lengths
    begins = first + second - int((gone < first + second).sum())  # where epoch 2 begins
    assert begins < first + second - 20
    step = begins * (2 if mixing else 1)
    again = {"exclude": {2: [110]}}
    rest_of(loader(**again), saved_at(loader(), step - 2))
    with pytest.raises(CheckpointMismatchError, match="another stream"):
        rest_of(loader(**again), saved_at(loader(), step + 2))


def test_another_order_of_the_rows_is_no_order_of_epochs():
    """A shuffle over the rows of all epochs has begun all of them."""

    def loader(**options):
        rows = rows_of(**options)
        sampler = lk.IndexSampler(100, shuffle=True, seed=0, num_epochs=1)
        return lk.DataLoader(data_source=rows, sampler=sampler)

    with pytest.warns(UserWarning, match="mixes the rows of all"):
        ours, others = loader(), loader(exclude={2: [5]})
    with pytest.raises(CheckpointMismatchError, match="another stream"):
        rest_of(others, saved_at(ours, 3))


def test_every_document_once_an_epoch():
    """With shuffled rows, as the loader reads them."""
    rows = rows_of()
    sampler = SpanSampler(rows.epoch_lengths, shuffle=True, seed=5, num_epochs=1)
    batches = list(lk.DataLoader(data_source=rows, sampler=sampler, operations=[lk.Batch(1)]))
    begin = 0
    for count in rows.epoch_lengths:
        tokens = [
            batch["tokens"][batch["tokens_segment_ids"] > 0] for batch in batches[begin : begin + count]
        ]
        assert np.array_equal(np.sort(np.concatenate(tokens)), np.arange(LENGTHS.sum()))
        begin += count


# fmt: off
@pytest.mark.parametrize(("options", "text"), [
    ({"epochs": 0}, "epochs: expected 1 or more, got 0; give None for one plan"),
    ({"epochs": 2, "order": lk.IndexSampler(3, num_epochs=1)}, "epochs: expected no order beside it, as each"),
    ({"exclude": [3]}, "exclude: expected keys of 3 documents, got 3"),
    ({"exclude": [-1, 2]}, "exclude: expected keys of 3 documents, got -1"),
    ({"exclude": [0.5]}, "lk.offline.block_list wrote, got [0.5]"),
    ({"exclude": [[1]]}, "lk.offline.block_list wrote, got [[1]]"),
    ({"exclude": {0: [1]}}, "exclude: expected record keys, got a mapping of epochs, but no epochs="),
    ({"epochs": 2, "exclude": {2: [1]}}, "exclude: an epoch: expected an int from 0 to 1, got 2"),
    ({"exclude": [0, 1, 2]}, "got 1 empty and 0 long documents with long='split', and 3 in exclude"),
    ({"epochs": 2, "long": "raise"}, 'lengths[1]: expected 0 to 4 tokens, got 9; give long="split", "truncate" or'),
])
def test_what_cannot_be_planned(options, text):
    with pytest.raises((TypeError, ValueError)) as raised:
        lk.plan_packing([3, 9, 0], 4, **options)
    assert text in str(raised.value)
