"""Documents of packed rows that are left out from a step on: of one corpus, and of a mixture of corpora."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosts import joined

import loaderkit as lk

LENGTHS = {"web": [3, 5, 2, 9, 4, 4, 1, 6, 7, 2, 8, 3], "code": [4, 4, 4, 8, 2, 2]}
PAIR = {"web": 2, "code": 1}


def corpus(name: str) -> Any:
    """Each token says its document: 1,000 times the number of the corpus, and the document's from 1 on."""
    first = 1000 * [*LENGTHS].index(name)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS[name])])
    tokens = np.repeat(np.arange(len(LENGTHS[name])) + first + 1, LENGTHS[name])
    return lk.TokenDataSource(tokens.astype(np.int32), offsets)


def rows(name: str) -> Any:
    return lk.PackedDataSource(corpus(name), lk.plan_packing(corpus(name).lengths, 10))


def loader_of(kind: str, folder: Path, **how: Any) -> "lk.DataLoader":
    for name in LENGTHS:
        (folder / name).mkdir(exist_ok=True)
    how = {"operations": [lk.Batch(global_batch_size=2)], **how}
    if kind == "mixture":
        source, sampler = lk.mix({name: rows(name) for name in LENGTHS}, PAIR, shuffle=True, seed=3)
        exclude: Any = {name: folder / name for name in LENGTHS}
    else:
        source, exclude = rows("web"), folder / "web"
        sampler = lk.IndexSampler(len(source), shuffle=True, seed=3)
    return lk.DataLoader(data_source=source, sampler=sampler, exclude=exclude, **how)


def tokens_of(batches: list[Any]) -> list[list[int]]:
    """The tokens of each row, without padding."""
    return [[int(token) for token in row if token] for batch in batches for row in batch["tokens"]]


def take_down(folder: Path, name: str, keys: list[int]) -> None:
    lk.offline.block_list(corpus(name), folder / name, keys=keys, reason="a test")


def said(name: str, keys: list[int]) -> set[int]:
    return {1000 * [*LENGTHS].index(name) + key + 1 for key in keys}


@pytest.mark.filterwarnings("ignore:exclude. .* of the documents")
@pytest.mark.parametrize(("kind", "workers"), [("web", 0), ("mixture", 0), ("mixture", 2)])
def test_rows_lack_the_documents_from_the_step_on(kind: str, workers: int, tmp_path: Path) -> None:
    """Before it they stay; behind it rows of nothing else aren't read, others keep what is left; a seek goes back."""
    with iter(loader_of(kind, tmp_path)) as it:
        plain = tokens_of([next(it) for _ in range(60)])
    listed = {"web": [3, 6, 8], "code": [0, 1, 3]}
    gone = said("web", listed["web"]) | (said("code", listed["code"]) if kind == "mixture" else set())
    loader = loader_of(kind, tmp_path, worker_count=workers)
    with loader, iter(loader) as it:
        before = tokens_of([next(it) for _ in range(3)])
        for name, keys in listed.items():
            take_down(tmp_path, name, keys)
        assert it.exclude() == 3
        after = tokens_of([next(it) for _ in range(15)])
        state = it.get_state()
        assert all(record.record_key < 1000 for record in it.records(12))
    assert before == plain[:6]
    # The same rows in the same order, without the documents and without what has nothing left.
    lacking = [[token for token in row if token not in gone] for row in plain[6:]]
    if kind == "web":
        assert after == [row for row in lacking if row][:30]
    for first in (0, 1000):
        own = [row for row in lacking if row and row[0] // 1000 == first // 1000]
        got = [row for row in after if row[0] // 1000 == first // 1000]
        assert got == own[: len(got)]
    again = loader_of(kind, tmp_path)
    with iter(again) as it:
        it.set_state(state)
        it.seek(0)
        assert tokens_of([next(it) for _ in range(18)]) == before + after


@pytest.mark.filterwarnings("ignore:exclude. .* of the documents")
def test_hosts_together_are_one_and_later_lists_follow(tmp_path: Path) -> None:
    """Each stage has its own rows, also after a restart."""

    def started(hosts: int, state: bytes | None = None) -> list[Any]:
        its = [
            iter(loader_of("mixture", tmp_path, shard_options=lk.ShardOptions(h, hosts)))
            for h in range(hosts)
        ]
        for it in its if state else ():
            it.set_state(state)
        return its

    def read(its: list[Any], steps: int) -> list[list[int]]:
        return tokens_of([{"tokens": joined([next(it)["tokens"] for it in its])} for _ in range(steps)])

    one, two = started(1), started(2)
    for lists in ({"web": [3, 4]}, {"code": [2], "web": [11]}, {"code": [5]}):
        assert read(one, 3) == read(two, 3)
        for name, keys in lists.items():
            take_down(tmp_path, name, keys)
        assert one[0].exclude() == two[0].exclude() == two[1].exclude()
    (state,) = {it.get_state() for it in [*one, *two]}
    assert len(json.loads(state)["exclusions"]) == 3
    whole = read(one, 8)
    assert read(two, 8) == whole == read(started(2, state), 8)
    assert not {token for row in whole for token in row} & (said("web", [3, 4, 11]) | said("code", [2, 5]))


def test_more_than_a_hundredth_is_said_and_a_list_may_be_of_rows(tmp_path: Path) -> None:
    """A list is of the source that it was made for: of documents, or of the rows themselves."""
    loader_of("web", tmp_path)
    lk.offline.block_list(rows("web"), tmp_path / "web", keys=[0], reason="a test")
    with iter(loader_of("web", tmp_path)) as it:
        count = len(rows("web")) - 1
        assert {record.record_key for step in range(count) for record in it.records(step)} == {
            *range(1, count + 1)
        }
    lk.offline.block_list(corpus("web"), tmp_path / "web", keys=[3], reason="a test")
    with pytest.warns(UserWarning, match=r"has 8\.3% of the documents of this loader's source: their places"):
        loader_of("web", tmp_path)
    lk.offline.block_list(rows("code"), tmp_path / "code", keys=[0], reason="a test")
    with pytest.raises(ValueError, match="of another source"):
        lk.load(rows("web"), exclude=tmp_path / "code")


@pytest.mark.filterwarnings("ignore:exclude. .* of the documents")
@pytest.mark.parametrize("kind", ["mixture", "drawn"])
def test_lineage_is_of_the_lists_that_hold_before_the_next_step(kind: str, tmp_path: Path) -> None:
    """Right behind `exclude` and a restore it says what will be read, of drawn rows too; each key is a row's."""
    loader_of("mixture", tmp_path)
    drawn = lk.samplers.WeightedSampler([1] * len(rows("web")), seed=3)
    how = {"data_source": rows("web"), "exclude": tmp_path / "web", "operations": [lk.Batch(2)]}

    def started() -> Any:
        return iter(
            loader_of("mixture", tmp_path) if kind == "mixture" else lk.DataLoader(sampler=drawn, **how)
        )

    def said_of(it: Any, start: int, stop: int) -> set[tuple[int, int, int]]:
        found = it.documents(range(start, stop))
        numbers = 1000 * (found.corpus == "code") + found.document + 1
        corpora = ["web", "code"] if kind == "mixture" else [None]
        parts = [it.steps_of(each, key=range(6), start=start, until=stop).document.size for each in corpora]
        assert sum(parts) == (found.document < 6).sum()
        return set(zip(found.step.tolist(), found.row.tolist(), numbers.tolist(), strict=True))

    def read_of(batches: list[Any], start: int) -> set[tuple[int, int, int]]:
        return {
            (start + step, row, int(token))
            for step, batch in enumerate(batches)
            for row, tokens in enumerate(batch["tokens"])
            for token in tokens
            if token
        }

    with started() as it:
        for place, keys in enumerate([[8], [0, 9], [2]]):
            for name, lengths in LENGTHS.items():
                take_down(tmp_path, name, [key % len(lengths) for key in keys])
            it.exclude()
            ahead = said_of(it, 5 * place, 5 * place + 5)
            assert ahead == read_of([next(it) for _ in range(5)], 5 * place)
        state, whole = it.get_state(), said_of(it, 0, 15)
    with started() as it:
        it.set_state(state)
        assert said_of(it, 0, 15) == whole
        it.seek(0)
        assert read_of([next(it) for _ in range(15)], 0) == whole


@pytest.mark.filterwarnings("ignore:exclude. .* of the documents")
def test_messages_name_the_source_and_its_rows(tmp_path: Path) -> None:
    """A bad row that lacks a document: in its error, to the user's function, in the quarantine, and followed."""
    loader_of("web", tmp_path)
    take_down(tmp_path, "web", [0, 1, 2, 8, 9])
    told: list[int] = []

    def fail(row: Any) -> Any:
        raise ValueError("bad")

    def answer(error: Exception, record: Any) -> Any:
        told.append(record.record_key)
        return rows("web")[0]

    how = {"operations": [lk.Map(fail), lk.Batch(4)]}
    with pytest.raises(ValueError, match="bad") as raised:
        next(iter(loader_of("web", tmp_path, **how)))
    assert "of PackedDataSource" in raised.value.__notes__[0]
    quarantine = tmp_path / "bad.jsonl"
    loader = loader_of("web", tmp_path, on_record_error=answer, quarantine=quarantine, **how)
    next(iter(loader))
    said_bad = [json.loads(line) for line in quarantine.read_text().splitlines()]
    assert {each["source"] for each in said_bad} == {"PackedDataSource"}
    followed = [loader.follow(index) for index in range(4)]
    assert followed[0].steps[0].name == "source PackedDataSource"
    for keys in (told, [each["record_key"] for each in said_bad], [each.record_key for each in followed]):
        assert sorted(keys) == sorted(record.record_key for record in loader.records(0))
        assert max(keys) < len(rows("web"))
