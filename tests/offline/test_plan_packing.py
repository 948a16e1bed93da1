"""Plans of packed rows: what is in them, the same bytes by any way, and errors for what can't be planned."""

import functools
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packing_twins import naive_rows

import loaderkit as lk
from loaderkit._order.mixing import fold
from loaderkit._order.packing.block import Frame
from loaderkit._order.permutation import Permutation
from loaderkit.offline import plan_packing as module
from loaderkit.offline.array_file import open_array

HOW = ["best_fit", "first_fit", "concat_then_split"]


def rows_of(plan, keys=None):
    """Each row as a list of (document, first token, tokens)."""
    keys = range(len(plan)) if keys is None else keys
    pieces = plan.rows(list(keys))
    flat = list(zip(pieces.documents.tolist(), pieces.starts.tolist(), pieces.lengths.tolist()))
    ends = np.cumsum(pieces.counts).tolist()
    return [flat[end - count : end] for end, count in zip(ends, pieces.counts.tolist())]


def twin_rows(lengths, row, how, long, block, seed):
    found = []
    for number, begin in enumerate(range(0, len(lengths), block)):
        rows = naive_rows(lengths[begin : begin + block], row, how, long)
        placed = [None] * len(rows)
        for k, pieces in enumerate(rows):
            place = Permutation(len(rows), fold(seed, 1 << 63, number))(np.array([k]))[0]
            placed[place] = [(begin + document, start, tokens) for document, start, tokens in pieces]
        found += placed
    return found


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=50).filter(any),
    st.integers(1, 40),
    st.sampled_from(HOW),
    st.sampled_from(["split", "truncate"]),
    st.integers(1, 60),
    st.integers(0, 2**64 - 1),
)
def test_a_plan_has_the_rows_of_its_twin(lengths, row, how, long, block, seed):
    """In every order of keys, with repeats; nothing is lost: the pieces cover each token that isn't truncated once."""
    plan = lk.plan_packing(lengths, row, how=how, long=long, block=block, seed=seed)
    expected = twin_rows(lengths, row, how, long, block, seed)
    assert rows_of(plan) == expected
    keys = np.random.default_rng(0).integers(0, len(plan), 10).tolist()
    assert rows_of(plan, keys) == [expected[key] for key in keys]
    kept = [min(length, row) if long == "truncate" else length for length in lengths]
    tokens = sorted((d, k) for pieces in expected for d, start, n in pieces for k in range(start, start + n))
    assert tokens == [(d, k) for d, length in enumerate(kept) for k in range(length)]
    assert max(sum(n for *_, n in pieces) for pieces in expected) <= row
    assert (plan.num_tokens, plan.tokens_left_out) == (sum(kept), sum(lengths) - sum(kept))
    assert plan.empty_documents == lengths.count(0)
    assert plan.long_documents == sum(length > row for length in lengths)
    assert plan.read_factor == sum(lengths[d] for pieces in expected for d, *_ in pieces) / sum(kept)
    assert plan.fill == sum(kept) / (len(plan) * row)
    asked = [int(each) for each in np.random.default_rng(1).integers(0, len(lengths) + 3, 6)]
    which, in_rows = plan.rows_of(asked)
    found = [
        (k, n) for n, pieces in enumerate(expected) for d, *_ in pieces for k in range(6) if asked[k] == d
    ]
    assert sorted(zip(which.tolist(), in_rows.tolist())) == sorted(found)


def lognormal(count):
    rng = np.random.default_rng(0)
    return np.maximum(1, rng.lognormal(np.log(1001) - 0.5, 1, count)).astype(np.int64)


def test_best_fit_fills_rows():
    """The fill that the design promises, at the block that is the default."""
    assert lk.plan_packing(lognormal(16_384), 4096).fill >= 0.999


@pytest.mark.parametrize("how", HOW)
def test_the_same_bytes_by_any_way(tmp_path, how):
    """In memory, in a file, by two processes, with lengths of another dtype or mapped."""
    lengths = lognormal(3000)
    settings = {"how": how, "block": 256}
    memory = lk.plan_packing(lengths, 2048, **settings)
    alone = lk.plan_packing(
        lengths.astype(np.uint32), 2048, tmp_path / "alone.plan", worker_count=0, **settings
    )
    np.save(tmp_path / "lengths.npy", lengths)
    mapped = np.load(tmp_path / "lengths.npy", mmap_mode="r")
    workers = 2 if how == "best_fit" else 0  # the start of workers takes seconds
    both = lk.plan_packing(mapped, 2048, tmp_path / "both.plan", worker_count=workers, **settings)
    again = lk.plan_packing(lengths, 2048, tmp_path / "both.plan", **settings)
    assert (tmp_path / "alone.plan").read_bytes() == (tmp_path / "both.plan").read_bytes()
    assert memory.fingerprint() == alone.fingerprint() == both.fingerprint() == again.fingerprint()
    assert rows_of(memory) == rows_of(alone) == rows_of(both) == rows_of(pickle.loads(pickle.dumps(both)))
    assert sorted(os.listdir(tmp_path)) == ["alone.plan", "both.plan", "lengths.npy"]


DIGESTS = {
    1: {
        "best_fit": "sha256:1a4962c58e905fe9e778fda340d802ef",
        "first_fit": "sha256:d6cdc83570a9134d5dbe01e4e8e793d7",
        "concat_then_split": "sha256:9c3df63cd2f3c2fa4b27879d4f7c1a31",
    },
    2: {
        "best_fit": "sha256:bd4c6a9eacfe60f88201311d355ba5b1",
        "first_fit": "sha256:9b79fc80004b71d3c24f2110de6c980e",
        "concat_then_split": "sha256:20aad7ef6c45c9c0b6d9392cf2761f9d",
    },
}


@pytest.mark.parametrize("algorithm", DIGESTS)
def test_the_bytes_of_a_plan_are_those_of_earlier_versions(algorithm):
    """Another digest is another `ALGORITHM`, or a run would go on with other rows."""
    lengths = np.arange(2000) * 37 % 613
    plans = {
        how: lk.plan_packing(lengths, 512, how=how, block=500, seed=7, algorithm=algorithm) for how in HOW
    }
    assert {how: plan.fingerprint()["digest"] for how, plan in plans.items()} == DIGESTS[algorithm]


@pytest.mark.parametrize("how", HOW)
def test_a_shuffle_with_the_seed_of_the_plan_shuffles(how):
    """Rows of an epoch in no order that follows the documents, nor the planner's, where both have one seed."""
    lengths = np.arange(1, 2001)
    plan = lk.plan_packing(lengths, 2000, how=how)
    keys = lk.samplers.IndexSampler(len(plan), shuffle=True, seed=0, num_epochs=1).record_keys(
        np.arange(len(plan))
    )
    firsts = [row[0][0] for row in rows_of(plan, keys)]
    assert abs(np.corrcoef(np.arange(len(firsts)), firsts)[0, 1]) < 0.2


def test_a_plan_of_an_earlier_version_is_read_and_gone_on_with(tmp_path):
    """Whole or begun, the file has its own rows; the rows of a plan in memory can be had, too."""
    lengths, path = lognormal(2000), tmp_path / "a.plan"
    make = functools.partial(lk.plan_packing, lengths, 2048, block=100)
    earlier = make(path, algorithm=1)
    whole = path.read_bytes()
    assert make(path).fingerprint() == earlier.fingerprint() == make(algorithm=1).fingerprint()
    assert make().fingerprint() != earlier.fingerprint()
    with pytest.raises(ValueError, match="algorithm is 1 there and 2 here"):
        make(path, algorithm=2)
    path.unlink()
    (tmp_path / "a.plan.partial").mkdir()
    (tmp_path / "a.plan.partial" / "plan").write_bytes(whole[: len(whole) // 2])
    assert make(path).fingerprint() == earlier.fingerprint()
    assert path.read_bytes() == whole


def test_processes_that_plan_one_file_at_once(tmp_path, monkeypatch):
    """One of them plans, the others wait for it and open the file; here they are threads."""
    planned = []
    real = module.plan_block
    monkeypatch.setattr(module, "plan_block", lambda *given: planned.append(given) or real(*given))
    lengths, path = lognormal(2000), tmp_path / "a.plan"
    with ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(lambda _: lk.plan_packing(lengths, 2048, path, block=100), range(4)))
    assert len(planned) == 20
    assert len({plan.fingerprint()["digest"] for plan in plans}) == 1
    assert os.listdir(tmp_path) == ["a.plan"]


CHILD = """
import os, signal, sys
import numpy as np
import loaderkit as lk
from loaderkit.offline import plan_packing as module
from loaderkit.offline.array_file import open_array

plan_block, left = module.plan_block, [int(sys.argv[2])]
def killing(*arguments):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return plan_block(*arguments)
module.plan_block = killing
lk.plan_packing(np.arange(1, 3001), 4096, sys.argv[1], block=100, worker_count=0)
"""


def test_a_plan_that_was_killed_goes_on(tmp_path, monkeypatch):
    """Blocks done are kept, a damaged one and what is behind it are made again, and the bytes are the same."""
    path, partial = tmp_path / "a.plan", tmp_path / "a.plan.partial" / "plan"
    child = subprocess.run([sys.executable, "-c", CHILD, str(path), "25"], check=False)
    assert child.returncode == -signal.SIGKILL
    assert not path.exists()
    planned = []
    real = module.plan_block
    monkeypatch.setattr(module, "plan_block", lambda *given: planned.append(given) or real(*given))
    lengths = np.arange(1, 3001)
    expected = lk.plan_packing(lengths, 4096, tmp_path / "whole.plan", block=100)
    assert len(planned) == 30
    found = partial.read_bytes()  # what the process had written: its buffer is lost
    assert (tmp_path / "whole.plan").read_bytes().startswith(found[: len(found) // 2])

    done = found[:-10]  # cut within a block
    partial.write_bytes(done)
    planned.clear()
    plan = lk.plan_packing(lengths, 4096, path, block=100)
    assert 0 < len(planned) < 30
    assert path.read_bytes() == (tmp_path / "whole.plan").read_bytes()
    assert plan.fingerprint() == expected.fingerprint()
    assert not partial.parent.exists()

    whole = path.read_bytes()
    for place in range(8, len(whole) - 30 * 72, 997):  # before the frames at the end, which are written anew
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.unlink()
        partial.parent.mkdir()
        partial.write_bytes(damaged)
        planned.clear()
        lk.plan_packing(lengths, 4096, path, block=100)
        assert planned
        assert path.read_bytes() == whole


def test_a_plan_on_a_full_disk(tmp_path):
    """The error names the file, nothing has its name, and the next call goes on."""
    lengths = np.arange(1, 3001, dtype=np.uint16)  # 6 kB in shared memory, below the limit, too
    path = tmp_path / "a.plan"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*a\.plan'"):
            lk.plan_packing(lengths, 4096, path, block=100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == ["a.plan.partial"]
    plan = lk.plan_packing(lengths, 4096, path, block=100)
    assert plan.fingerprint() == lk.plan_packing(lengths, 4096, block=100).fingerprint()
    assert os.listdir(tmp_path) == ["a.plan"]


@pytest.mark.parametrize("algorithm", [None, 1])
def test_an_unfinished_plan_of_other_arguments_is_begun_again(tmp_path, algorithm):
    """With nothing of the other one: a new plan has the newest algorithm."""
    (tmp_path / "a.plan.partial").mkdir()
    whole = lk.plan_packing([3, 2, 1], 4, tmp_path / "b.plan", seed=1, algorithm=algorithm)
    os.replace(tmp_path / "b.plan", tmp_path / "a.plan.partial" / "plan")
    plan = lk.plan_packing([3, 2, 1], 4, tmp_path / "a.plan", seed=2)
    assert plan.fingerprint() != whole.fingerprint()
    assert plan.fingerprint() == lk.plan_packing([3, 2, 1], 4, seed=2).fingerprint()


@pytest.mark.parametrize("how", HOW)
def test_blocks_follow_the_order(how):
    """A plan in an order is the plan of the lengths in that order, with other names of documents."""
    lengths = lognormal(500)
    order = lk.IndexSampler(500, shuffle=True, seed=3, num_epochs=1)
    keys = order.record_keys(np.arange(500))
    ordered = lk.plan_packing(lengths, 2048, how=how, order=order, block=64)
    plain = lk.plan_packing(lengths[keys], 2048, how=how, block=64)
    assert rows_of(ordered) == [[(keys[d], start, n) for d, start, n in row] for row in rows_of(plain)]
    assert ordered.fingerprint() != plain.fingerprint()
    assert {*ordered.rows_of([7])[1].tolist()} == {
        n for n, row in enumerate(rows_of(ordered)) if 7 in (d for d, *_ in row)
    }
    some = lk.plan_packing(lengths, 2048, how=how, order=lk.samplers.KeysSampler([7, 3], num_epochs=1))
    assert some.rows_of([5, 3])[0].tolist().count(1) == sum(d == 3 for row in rows_of(some) for d, *_ in row)
    assert {document for row in rows_of(some) for document, *_ in row} == {3, 7}


def test_an_order_of_other_documents():
    """A sampler of a user, which doesn't say how many records it is over."""

    class Backwards:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return lk.RecordMetadata(index=index, record_key=3 - index)

    with pytest.raises(
        ValueError, match=r"^order: expected keys of 3 documents, got record key 3 for index 0$"
    ):
        lk.plan_packing([3, 2, 1], 4, order=Backwards())


def test_lengths_that_were_measured(tmp_path):
    """A plan knows which source its lengths are of; those of two sources aren't taken together."""
    texts = ["abc", "ab", "a"]
    lengths = lk.offline.measure(texts, len, tmp_path / "lengths.npy")
    lk.offline.measure(["abc", "ab", "b"], len, tmp_path / "others.npy")
    plan = lk.plan_packing(tmp_path / "lengths.npy", 4)
    assert plan.fingerprint() == lk.plan_packing(lengths, 4).fingerprint()
    assert plan.measured_source == open_array(tmp_path / "lengths.npy")[1].source
    assert lk.plan_packing(np.array(lengths), 4).measured_source is None
    both = {"a": tmp_path / "lengths.npy", "b": tmp_path / "others.npy"}
    with pytest.raises(
        ValueError, match=r"^lengths: expected files that lk\.offline\.measure wrote of one source"
    ):
        lk.plan_packing(both, {"a": 4, "b": 4}, how="first_fit")
    np.save(tmp_path / "own.npy", [3])
    with pytest.raises(
        lk.errors.DataFormatError, match=r"own\.npy: expected an array file of lk\.offline\.measure"
    ):
        lk.plan_packing(tmp_path / "own.npy", 4)


def test_features_of_different_lengths():
    lengths = {"inputs": [3, 2, 4, 0], "targets": [1, 1, 0, 0]}
    plan = lk.plan_packing(lengths, {"inputs": 5, "targets": 2}, how="first_fit")
    assert plan.length == {"inputs": 5, "targets": 2}
    assert (plan.features, plan.num_tokens, plan.empty_documents) == (("inputs", "targets"), 11, 1)
    pieces = plan.rows([0, 1])
    assert sorted(zip(pieces.documents.tolist(), pieces.lengths.tolist())) == [
        (0, [3, 1]),
        (1, [2, 1]),
        (2, [4, 0]),
    ]
    assert pieces.starts.tolist() == [[0, 0]] * 3
    assert plan.document_lengths([2, 0]).tolist() == [[4, 0], [3, 1]]


@pytest.mark.parametrize("how", HOW)
def test_the_longest_rows(how):
    plan = lk.plan_packing([2**24, 5, 7], 2**24 - 1, how=how)
    pieces = [piece for row in rows_of(plan) for piece in row]
    assert sorted(pieces) == [(0, 0, 2**24 - 1), (0, 2**24 - 1, 1), (1, 0, 5), (2, 0, 7)]


def test_rows_of_a_block():
    """What sources say of records that are read together: rows of the block in the middle, empty blocks aside."""
    assert lk.plan_packing([0, 0, 4, 4, 4, 1, 1, 1], 4, block=2).block_rows == 2


def test_documents_that_are_dropped_are_counted():
    plan = lk.plan_packing([3, 9, 0], 4, long="drop")
    assert (plan.num_documents, plan.long_documents, plan.tokens_left_out, plan.empty_documents) == (
        3,
        1,
        9,
        1,
    )
    assert repr(plan) == (
        "PackPlan(1 rows of 4 tokens, 3 documents, fill 0.750, how='best_fit', long='drop', 9 tokens left out, "
        "1 empty document in no row)"
    )


@pytest.mark.parametrize("how", HOW)
def test_blocks_without_rows(how):
    """Blocks of empty documents at the beginning, in the middle and at the end."""
    plan = lk.plan_packing([0, 0, 3, 1, 0, 0, 2, 9, 0, 0], 4, how=how, block=2)
    assert sorted(piece for row in rows_of(plan) for piece in row)[:3] == [(2, 0, 3), (3, 0, 1), (6, 0, 2)]
    assert plan.num_tokens == 15


def test_rows_that_are_not_there():
    plan = lk.plan_packing([3, 2], 4)
    with pytest.raises(IndexError, match=r"^record_key: expected an int from 0 to 1, got 2; PackPlan"):
        plan.rows([0, 2])
    with pytest.raises(TypeError, match=r"^record_key: expected an int, got"):
        plan.rows([0.5])
    assert [part.tolist() for part in plan.rows([])] == [[], [], [], []]


# fmt: off
@pytest.mark.parametrize(("lengths", "length", "settings", "text"), [
    ([0.5], 4, {}, "lengths: expected ints, got an array of float64; give the number of tokens"),
    ([True], 4, {}, "lengths: expected ints, got an array of bool"),
    (["a"], 4, {}, "lengths: expected ints, got an array of <U1"),
    ([3, -1], 4, {}, "lengths[1]: expected 0 to 262140 tokens, got -1; give the number of tokens of each document"),
    ([[3]], 4, {}, "lengths: expected one dimension, got shape (1, 1)"),
    ([[3], [1, 2]], 4, {}, "lengths: expected one dimension, got [[3], [1, 2]]"),
    (3, 4, {}, "lengths: expected one dimension, got shape ()"),
    ([], 4, {}, "lengths: expected one document or more, got none"),
    ([0, 0], 4, {}, "lengths: expected a document with tokens for a row, got 2 empty and 0 long documents"),
    ([9], 4, {"long": "drop"}, "got 0 empty and 1 long documents with long='drop'"),
    ([3, 9], 4, {"long": "raise"}, 'lengths[1]: expected 0 to 4 tokens, got 9; give long="split", "truncate" or'),
    ([2**20], 4, {}, "lengths[0]: expected 0 to 262140 tokens, got 1048576; give long"),
    ([2**60], 4, {"long": "drop"}, "lengths[0]: expected 0 to 140737488355328 tokens, got 1152921504606846976"),
    ([3], 0, {}, "length: expected an int from 1 to 2**24 - 1, got 0; give the tokens of a row"),
    ([3], 4.0, {}, "length: expected an int, got 4.0"),
    ([3], 4, {"how": "worst"}, "how: expected one of 'best_fit', 'first_fit', 'concat_then_split', got 'worst'"),
    ([3], 4, {"long": "cut"}, "long: expected one of 'split', 'truncate', 'drop', 'raise', got 'cut'"),
    ([3], 4, {"block": 70_000}, "block: expected an int from 1 to 65536, got 70000"),
    ([3], 4, {"seed": -1}, "seed: expected an int from 0 to 2**64 - 1, got -1"),
    ([3], 4, {"order": lk.IndexSampler(1)}, "order: expected a finite sampler"),
    ([3], 4, {"order": lk.IndexSampler(2, num_epochs=1)}, "order: expected a sampler over 1 documents, got Index"),
    ({"a": [3]}, 4, {}, "lengths: expected lengths by the names of features exactly where `length` is"),
    ([3], {"a": 4}, {}, "lengths: expected lengths by the names of features exactly where `length` is"),
    ({"a": [3]}, {"b": 4}, {}, "lengths: expected those of the features ['b'], got ['a']"),
    ({}, {}, {}, "length: expected an int or ints by the names of features, got {}"),
    ({"a": [3], "b": [3, 4]}, {"a": 4, "b": 4}, {"how": "first_fit"}, "got {'a': 1, 'b': 2}"),
    ({"a": [3], "b": [3]}, {"a": 4, "b": 4}, {}, 'how: expected "first_fit" for features of different lengths'),
])
def test_what_cannot_be_planned(lengths, length, settings, text):
    with pytest.raises((TypeError, ValueError)) as raised:
        lk.plan_packing(lengths, length, **settings)
    assert text in str(raised.value)


def test_files_that_are_not_the_plan(tmp_path):
    path = tmp_path / "a.plan"
    lk.plan_packing([3, 2, 1], 4, path)
    with pytest.raises(ValueError, match=r"a\.plan: expected a plan of these .*: how is best_fit there and first"):
        lk.plan_packing([3, 2, 1], 4, path, how="first_fit")
    with pytest.raises(ValueError, match=r"lengths is \['sha256:\w+'\] there and \['\w+:\w+'\] here. Delete the"):
        lk.plan_packing([3, 2, 2], 4, path)
    whole = path.read_bytes()
    frame = bytearray(whole)
    frame[-120] ^= 1
    path.write_bytes(frame)
    with pytest.raises(lk.errors.ChecksumError, match=r"a\.plan: bytes 352 to 488 .*; delete it to plan again"):
        lk.plan_packing([3, 2, 1], 4, path)
    for damaged in (whole[:-1], whole[:10], b"", b"text" * 99):
        path.write_bytes(damaged)
        with pytest.raises(lk.errors.DataFormatError, match=r"a\.plan: expected a file of lk.plan_packing, got "):
            lk.plan_packing([3, 2, 1], 4, path)


@pytest.mark.parametrize("how", ["best_fit", "concat_then_split"])
def test_a_damaged_plan_gives_no_other_row(tmp_path, how):
    """A flipped bit anywhere: the rows are right, or an error names the file, the bytes and what to do."""
    path, lengths = tmp_path / "a.plan", np.random.default_rng(3).integers(0, 40, 900)
    make = functools.partial(lk.plan_packing, lengths, 32, path, how=how, block=150)
    expected = make().rows(range(len(make())))
    whole = path.read_bytes()
    found = set()
    for place in [*range(0, 300, 7), *range(300, len(whole) - 600, 101), *range(len(whole) - 600, len(whole), 17)]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            rows = make().rows(range(len(expected.counts)))
        except (lk.errors.ChecksumError, lk.errors.DataFormatError) as error:
            told = re.fullmatch(r".*a\.plan: (bytes ([\d,]+) to ([\d,]+))?.*; delete it to plan again.*", str(error))
            begin, end = (int((each or "").replace(",", "") or place) for each in told.groups()[1:])
            found.add(type(error).__name__ if begin <= place <= end else "misplaced")
        else:
            found.add("equal")  # of the spaces behind the head and the zeros at the end
            assert all(np.array_equal(*pair) for pair in zip(rows, expected))
    assert found == {"ChecksumError", "DataFormatError", "equal"}


def test_a_block_is_compared_before_its_first_use_only(tmp_path, monkeypatch):
    path = tmp_path / "a.plan"
    plan = lk.plan_packing(np.arange(1, 901), 900, path, block=150)
    compared = []
    sealed = Frame.sealed
    monkeypatch.setattr(Frame, "sealed", lambda frame, body: compared.append(frame) or sealed(frame, body))
    for expected, row in ((0, None), (1, 0), (1, 0), (2, len(plan) - 1)):
        if row is not None:
            plan.rows([row])
        assert len(compared) == expected


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_a_damaged_plan_is_no_bad_record(policy, tmp_path):
    """Policies for bad records would put other rows in the places of all of its rows."""
    documents = [np.full(3 + k % 5, k) for k in range(600)]
    lengths = [*map(len, documents)]
    lk.plan_packing(lengths, 8, tmp_path / "a.plan", block=8)
    source = lk.PackedDataSource(documents, lk.plan_packing(lengths, 8, tmp_path / "a.plan", block=8))
    loader = lk.load(source, num_epochs=1, on_record_error=policy, batch_size=2)
    words, seen = np.memmap(tmp_path / "a.plan", np.uint8, "r+"), (tmp_path / "a.plan").stat()
    words[len(words) // 4] ^= 1
    words.flush()
    os.utime(tmp_path / "a.plan", ns=(seen.st_atime_ns, seen.st_mtime_ns))  # a disk that fails writes no time
    with pytest.raises(lk.errors.ChecksumError, match=r"a\.plan"):
        list(loader)
