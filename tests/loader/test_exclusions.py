"""Records that are left out from a step on: exact, for any hosts and workers, through every way to go on."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosts import joined, shards, together
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_exclusions import NaiveExclusions

import loaderkit as lk
from loaderkit._base.canonical_json import digest
from loaderkit.errors import CheckpointMismatchError, ChecksumError, DataFormatError, StateError

SOURCES = {"web": lk.RangeDataSource(0, 23, 1), "code": lk.RangeDataSource(100, 111, 1)}
PAIR = {"web": 2, "code": 1}


def sampler_of(kind: str, epochs: int | None = None, weights: Any = PAIR) -> Any:
    parts = {
        name: lk.IndexSampler(len(source), shuffle=True, seed=2, num_epochs=epochs)
        for name, source in SOURCES.items()
    }
    if kind == "mixture":
        return lk.samplers.MixedSampler(parts, weights=weights, when_exhausted=epochs and "drop")
    return parts["web"]


def made_in(folder: Any) -> Any:
    """A folder with a folder for each component."""
    for name in SOURCES:
        Path(folder, name).mkdir(exist_ok=True)
    return folder


def loader_of(
    kind: str, folder: Any, *, batch: int = 4, epochs: int | None = None, **how: Any
) -> "lk.DataLoader":
    mixed = kind == "mixture"
    return lk.DataLoader(
        data_source=lk.ConcatDataSource(SOURCES) if mixed else SOURCES["web"],
        sampler=sampler_of(kind, epochs),
        exclude={name: Path(folder, name) for name in SOURCES} if mixed else Path(folder, "web"),
        **{"operations": [lk.Batch(global_batch_size=batch)], **how},
    )


def listed(folder: Any, name: str, keys: Any) -> str:
    return lk.offline.block_list(SOURCES[name], Path(folder, name), keys=keys, reason="a test")


def read(it: Any, steps: int) -> list[int]:
    return [int(record) for _ in range(steps) for record in np.ravel(next(it))]


class Run:
    """A run on some hosts, its lists, and what it has to read.

    Args:
        kind: of the sampler. folder: of the lists.
    """

    def __init__(self, kind: str, folder: Any) -> None:
        self.kind, self.folder = kind, made_in(folder)
        self.twin = NaiveExclusions(sampler_of(kind))
        self.blocked: dict[str, set[int]] = {}
        self.start(4, 1)

    def start(self, batch: int, hosts: int, states: Any = None, **how: Any) -> None:
        self.batch = batch
        options = [lk.ShardOptions(host, hosts) for host in range(hosts)]
        self.its = [
            iter(loader_of(self.kind, self.folder, batch=batch, shard_options=each, **how))
            for each in options
        ]
        for it in self.its if states else ():
            it.set_state(states[0], allow={"global_batch_size"})

    def take(self, steps: int) -> None:
        for _ in range(steps):
            index = self.its[0].index
            got = joined([next(it) for it in self.its]).tolist()
            expected = [key if key < 23 else key + 77 for key in self.twin.keys(index + self.batch)[index:]]
            assert got == expected

    def list_more(self, name: str, keys: set[int]) -> None:
        name = name if self.kind == "mixture" else "web"
        size = len(SOURCES[name])
        keys = {key % size for key in keys} - self.blocked.get(name, set())
        if len(keys) + len(self.blocked.get(name, ())) < size and keys:
            listed(self.folder, name, sorted(keys))
            self.blocked[name] = self.blocked.get(name, set()) | keys

    def exclude(self, later: int) -> None:
        if not self.blocked:
            return
        step = self.its[0].step + later
        index = self.its[0].index + later * self.batch
        assert {it.exclude(from_step=step if later else None) for it in self.its} == {step}
        named = self.blocked if self.kind == "mixture" else {"": self.blocked["web"]}
        self.twin.exclude(index, dict(named))

    def reweigh(self, web: int) -> None:
        if self.kind == "mixture":
            for it in self.its:
                it.reweigh({"web": web, "code": 1})
            plain = self.twin.sampler.with_stages(self.its[0].sampler.stages)
            self.twin.sampler = sampler_of("mixture").with_stages(plain.stages)

    def close(self) -> None:
        for it in self.its:
            it.close()


MOVES = st.one_of(
    st.tuples(st.just("take"), st.integers(1, 3)),
    st.tuples(st.just("list"), st.sampled_from(list(SOURCES)), st.sets(st.integers(0, 22), max_size=6)),
    st.tuples(st.just("exclude"), st.sampled_from([0, 0, 0, 2])),
    st.tuples(st.just("reweigh"), st.integers(1, 4)),
    st.tuples(st.just("skip"), st.integers(1, 2)),
    st.tuples(st.just("seek"), st.integers(0, 3)),
    st.tuples(st.just("restart"), st.sampled_from([(4, 1), (4, 2), (8, 4), (12, 3)])),
)


@settings(max_examples=10 * settings().max_examples // 25)
@given(kind=st.sampled_from(["shuffled", "mixture"]), moves=st.lists(MOVES, min_size=4, max_size=10))
def test_any_history_reads_what_a_walk_that_leaves_out_reads(kind: str, moves: list[Any]) -> None:
    """Lists, other weights, skips, seeks, restarts on other hosts and batches: equal before, nothing listed behind."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(kind, folder)
        for move, *how in moves:
            match move:
                case "take":
                    run.take(*how)
                case "list":
                    run.list_more(*how)
                case "exclude":
                    run.exclude(*how)
                case "reweigh":
                    run.reweigh(*how)
                case "skip":
                    for it in run.its:
                        it.skip(*how)
                case "seek":
                    for it in run.its:
                        try:
                            it.seek(max(0, it.step - how[0]))
                        except ValueError:  # the step has another batch size
                            break
                case "restart":
                    run.exclude(0)  # a restore would warn of lists that wait
                    states = [it.get_state() for it in run.its]
                    run.close()
                    run.start(*how[0], states)
        run.take(2)
        run.close()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_workers_change_nothing(kind: str, tmp_path: Path) -> None:
    """Elements that workers have made ahead are of the stream as it was, and are made anew."""
    run = Run("mixture", tmp_path)
    run.start(4, 1, worker_count=3, worker_kind=kind)
    run.take(3)
    run.list_more("web", {1, 5, 7, 8})
    run.exclude(0)
    run.take(3)
    run.list_more("code", {0, 2})
    run.exclude(2)
    run.take(8)
    run.close()


def test_a_loader_without_lists_has_the_states_that_it_had(tmp_path: Path) -> None:
    """An empty folder changes no byte; with a list from the start the state has version 6, and says it."""
    made_in(tmp_path)
    plain = lk.DataLoader(
        data_source=SOURCES["web"], sampler=sampler_of("shuffled"), operations=[lk.Batch(global_batch_size=4)]
    )
    with iter(plain) as it, iter(loader_of("shuffled", tmp_path)) as same:
        assert read(it, 3) == read(same, 3)
        assert it.get_state() == same.get_state()
    path = Path(listed(tmp_path, "web", [3, 4]))
    with iter(loader_of("shuffled", tmp_path)) as it:
        state = json.loads(it.get_state())
    assert state["format_version"] == 6
    assert state["exclusions"] == [[0, {"": [path.stem]}, {"": [0, 0, 0]}]]


def test_a_restore_goes_on_as_it_was_and_says_that_lists_wait(tmp_path: Path) -> None:
    """An unattended restart takes no new list; `exclude`, or allow, does."""
    run = Run("mixture", made_in(tmp_path))
    run.list_more("web", {2, 9})
    run.exclude(0)
    run.take(2)
    state = run.its[0].get_state()
    run.list_more("code", {1, 4})
    fresh = iter(loader_of("mixture", tmp_path))
    with pytest.warns(UserWarning, match="other lists than the saved run left out: it goes on as it was"):
        fresh.set_state(state)
    run.its = [fresh]
    run.take(2)
    run.exclude(0)
    run.take(4)
    fresh.set_state(state, allow={"exclude"})
    run.exclude(0)
    run.take(4)


def test_a_state_needs_the_lists_that_hold_and_no_others(tmp_path: Path) -> None:
    """Without the file, or a loader without lists, it is refused; the list of a stage before isn't needed."""
    run = Run("shuffled", tmp_path)
    run.list_more("web", {2})
    run.exclude(0)
    run.take(2)
    first = next(Path(tmp_path, "web").iterdir())
    run.list_more("web", {9, 10})
    (second,) = {*Path(tmp_path, "web").iterdir()} - {first}
    content = first.read_bytes()
    first.unlink()
    it = run.its[0]
    it.exclude()
    run.twin.exclude(8, {"": {9, 10}})
    run.take(2)
    state = it.get_state()
    fresh = iter(loader_of("shuffled", tmp_path))
    fresh.set_state(state)
    run.its = [fresh]
    run.take(3)
    fresh.seek(0)
    with pytest.raises(CheckpointMismatchError, match=f"expected the list {first.stem}"):
        next(fresh)
    second.unlink()
    with pytest.raises(CheckpointMismatchError, match=second.stem):
        iter(loader_of("shuffled", tmp_path)).set_state(state)
    first.write_bytes(content)
    plain = lk.load(SOURCES["web"], shuffle=True, seed=2, batch_size=4)
    with pytest.raises(CheckpointMismatchError, match="give exclude= with their folders"):
        iter(plain).set_state(state)


def test_a_step_that_was_taken_cant_be_left_out_any_more(tmp_path: Path) -> None:
    """Nor can a loader without folders leave out anything."""
    run = Run("shuffled", tmp_path)
    run.take(3)
    with pytest.raises(ValueError, match="expected a step that isn't taken yet, 3 or later, got 2"):
        run.its[0].exclude(from_step=2)
    with pytest.raises(ValueError, match="expected a loader with folders of lists, got none"):
        iter(lk.load([1, 2])).exclude()


def test_what_is_wrong_with_a_list_is_an_error_before_the_first_batch(tmp_path: Path) -> None:
    """Of another source, changed, renamed, with all records; a folder or a name that isn't there; another sampler."""
    made_in(tmp_path)
    path = Path(listed(tmp_path, "web", [3]))
    with pytest.raises(ValueError, match="of another source"):
        lk.load(SOURCES["code"], exclude=tmp_path / "web")
    content = bytearray(path.read_bytes())
    for place in (0, 25, len(content) - 1):
        flipped = content.copy()
        flipped[place] ^= 4
        path.write_bytes(flipped)
        with pytest.raises(ChecksumError, match="the file was changed"):
            loader_of("shuffled", tmp_path)
    path.write_bytes(content)
    renamed = path.rename(tmp_path / "web" / "mine.blocks")
    with pytest.raises(DataFormatError, match="expected the sha256 of a block list as its name"):
        loader_of("shuffled", tmp_path)
    renamed.unlink()
    listed(tmp_path, "web", range(23))
    with pytest.raises(ValueError, match="got lists with all 23 of an epoch"):
        iter(loader_of("shuffled", tmp_path))
    with pytest.raises(ValueError, match="expected a folder that is there"):
        lk.load(SOURCES["web"], exclude=tmp_path / "none")
    with pytest.raises(ValueError, match="expected names among 'web', 'code', got 'book'"):
        lk.DataLoader(
            data_source=lk.ConcatDataSource(SOURCES),
            sampler=sampler_of("mixture"),
            exclude={"book": tmp_path},
        )
    with pytest.raises(TypeError, match="expected a folder for each component"):
        lk.DataLoader(
            data_source=lk.ConcatDataSource(SOURCES), sampler=sampler_of("mixture"), exclude=tmp_path
        )
    buckets = lk.samplers.LengthBucketSampler([1] * 23, [1], 4, shuffle=True, seed=0)
    with pytest.raises(TypeError, match="expected a sampler with positions_of"):
        lk.DataLoader(
            data_source=SOURCES["web"],
            sampler=buckets,
            operations=[lk.Batch(global_batch_size=4)],
            exclude=Path(tmp_path, "code"),
        )


@pytest.mark.parametrize("when", ["begin", "exclude"])
def test_hosts_with_other_lists_are_told_before_they_read(when: str, tmp_path: Path) -> None:
    """Each host has folders of its own here; one lacks a list."""
    hosts, folders = shards(2), [tmp_path / "0", tmp_path / "1"]
    for folder in folders:
        folder.mkdir()
        made_in(folder)
    if when == "begin":
        listed(folders[1], "web", [4])

    def work(host: int) -> None:
        with iter(loader_of("mixture", folders[host], shard_options=hosts[host])) as it:
            next(it)
            if host:
                listed(folders[1], "web", [4])
            it.exclude()

    with pytest.raises(ValueError, match=r"exclude\.web"):
        together(work, 2)


def test_hosts_that_agree_take_the_lists_together(tmp_path: Path) -> None:
    hosts = shards(2)
    made_in(tmp_path)
    listed(tmp_path, "web", [4])

    def work(host: int) -> Any:
        with iter(loader_of("mixture", tmp_path, shard_options=hosts[host])) as it:
            return it.exclude(from_step=1), [next(it) for _ in range(5)]

    (step, ours), (same, theirs) = together(work, 2)
    assert step == same
    twin = NaiveExclusions(sampler_of("mixture"))
    twin.exclude(0, {"web": {4}})
    got = np.concatenate([joined([one, other]) for one, other in zip(ours, theirs, strict=True)])
    assert got.tolist() == [key if key < 23 else key + 77 for key in twin.keys(20)]


@pytest.mark.parametrize("kind", ["shuffled", "mixture"])
@pytest.mark.parametrize("workers", [0, 2])
def test_behind_a_filter_they_begin_behind_what_any_stream_has_read(
    kind: str, workers: int, tmp_path: Path
) -> None:
    """The records before are those of before; from there on none is listed and each other one comes in its turn."""
    made_in(tmp_path)
    how: dict[str, Any] = {
        "operations": [lk.Filter(lambda key: key % 3 > 0), lk.Batch(4)],
        "logical_streams": 2,
    }
    with iter(loader_of(kind, tmp_path, worker_count=workers, **how)) as it:
        before = read(it, 3)
        state = it.get_state()
        listed(tmp_path, "web", [1, 4, 5, 20])
        assert it.exclude() == 3
        after = read(it, 12)
        saved = json.loads(it.get_state())
    ((first, _, _),) = saved["exclusions"]
    twin = NaiveExclusions(sampler_of(kind))
    twin.exclude(first, {"web" if kind == "mixture" else "": {1, 4, 5, 20}})
    # Two streams have turns of two indices, and two rows of each batch.
    values = np.array([key if key < 23 else key + 77 for key in twin.keys(200)]).reshape(50, 2, 2)
    streams = [[value for value in values[:, stream].ravel().tolist() if value % 3] for stream in range(2)]
    rows = np.array([stream[:30] for stream in streams]).reshape(2, 15, 2).transpose(1, 0, 2)
    assert before + after == rows.ravel().tolist()
    again = iter(loader_of(kind, tmp_path, **how))
    again.set_state(state, allow={"exclude"})
    assert read(again, 12) == after


def test_on_several_processes_a_filter_takes_lists_by_a_restore(tmp_path: Path) -> None:
    """None knows where the others stand; the states of all say it."""
    made_in(tmp_path)
    how: dict[str, Any] = {
        "operations": [lk.Filter(lambda key: key % 3 > 0), lk.Batch(2)],
        "logical_streams": 2,
    }
    its = [
        iter(loader_of("shuffled", tmp_path, shard_options=lk.ShardOptions(host, 2), **how))
        for host in range(2)
    ]
    for it in its:
        read(it, 3)
    listed(tmp_path, "web", [1, 4, 5, 20])
    with pytest.raises(ValueError, match="expected one process"):
        its[0].exclude()
    states = [it.get_state() for it in its]
    assert its[0].writers_needed([0, 1], {"exclude"}) == {0, 1}
    with pytest.raises(StateError, match="the lists of records"):
        its[0].set_state(states[0], allow={"exclude"})
    for it in its:
        it.set_state(states, allow={"exclude"})
    both = [read(it, 8) for it in its]
    one = iter(loader_of("shuffled", tmp_path, **{**how, "operations": [how["operations"][0], lk.Batch(4)]}))
    one.set_state(states, allow={"exclude"})
    assert np.array(read(one, 8)).reshape(8, 2, 2).transpose(1, 0, 2).reshape(2, 16).tolist() == both


class Damaged(lk.RangeDataSource):
    """Some records can't be read."""

    def __getitem__(self, key: Any) -> Any:
        if key % 5 == 2:
            raise OSError("damaged")
        return super().__getitem__(key)

    take = __getitems__ = None  # type: ignore[assignment]


def test_bad_records_are_replaced_by_others_that_arent_left_out(tmp_path: Path) -> None:
    """Before a list what was read stays; behind it no listed record comes, and a resume repeats every row."""
    source = Damaged(0, 23, 1)
    path = tmp_path / "blocked"
    path.mkdir()

    def loader(epochs: int | None = 2) -> lk.DataLoader:
        return lk.load(
            source,
            shuffle=True,
            seed=2,
            num_epochs=epochs,
            batch_size=4,
            on_record_error="replace",
            exclude=path,
        )

    with iter(loader()) as it:
        before = read(it, 3)
        lk.offline.block_list(SOURCES["web"], path, keys=[0, 1, 3, 4, 6], reason="a test")
        it.exclude()
        after = [int(record) for batch in it for record in batch]
        state = it.get_state()
    assert not {0, 1, 3, 4, 6} & {*after}
    assert not any(key % 5 == 2 for key in before + after)
    with iter(loader()) as it:
        it.set_state(state)
        it.seek(0)
        assert read(it, 3) == before
        assert [int(record) for batch in it for record in batch] == after


def test_one_epoch_leaves_out_too(tmp_path: Path) -> None:
    """From its beginning and in its middle; the state goes on in the same epoch."""
    made_in(tmp_path)
    listed(tmp_path, "web", [3])
    with iter(loader_of("shuffled", tmp_path).epoch(2)) as it:
        first = read(it, 2)
        listed(tmp_path, "web", [5, 6, 7])
        it.exclude()
        rest = [int(record) for batch in it for record in batch]
        assert it.epoch == 3
    order = [key for key in sampler_of("shuffled").record_keys(range(46, 69)).tolist() if key != 3]
    assert first + rest == order[:8] + [key for key in order[8:] if key not in (5, 6, 7)]


def test_what_is_checked_of_the_end_counts_the_records_that_are_left(tmp_path: Path) -> None:
    """Of 23 records remainder="wrap" can't fill rows of two, of 22 it can."""
    made_in(tmp_path)
    how = {"epochs": 1, "operations": [lk.Batch(2), lk.Batch(3, remainder="wrap")]}
    with pytest.raises(ValueError, match="remainder='wrap'"):
        iter(loader_of("shuffled", tmp_path, **how))
    listed(tmp_path, "web", [3])
    with iter(loader_of("shuffled", tmp_path, **how)) as it:
        assert [batch.shape for batch in it] == [(3, 2)] * 4


def test_damaged_exclusions_of_a_state_are_named(tmp_path: Path) -> None:
    made_in(tmp_path)
    listed(tmp_path, "web", [3])
    it = iter(loader_of("shuffled", tmp_path))
    state = json.loads(it.get_state())
    for wrong in (
        [],
        {},
        [[0, {}, {}]],
        [[0, {"": ["ab"]}, {"": [0, 0, 0]}]],
        [[-1, *state["exclusions"][0][1:]]],
        [*state["exclusions"], *state["exclusions"]],
        [[0, state["exclusions"][0][1], {"": [0, 0]}]],
    ):
        changed = {**state, "exclusions": wrong}
        changed["digest"] = digest(changed)
        with pytest.raises(StateError, match=r"^exclusions"):
            it.set_state(json.dumps(changed).encode())
