"""Orders without some records from an index on: the same as a walk that leaves them out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_exclusions import NaiveExclusions

import loaderkit as lk
from loaderkit._order.exclusions import ExclusionStage, Listed
from loaderkit.samplers.excluding import excluding

NONE = np.empty(0, np.int64)


def sampler_of(kind: str, size: int) -> Any:
    match kind:
        case "in order":
            return lk.IndexSampler(size, seed=3)
        case "shuffled":
            return lk.IndexSampler(size, shuffle=True, seed=3)
        case "chunks":
            return lk.ChunkSampler(size, chunk=3, window=2, lanes=2, batch=4, seed=3)
        case "keys":
            return lk.samplers.KeysSampler(np.arange(size)[::-1] * 2, shuffle=True, seed=3)
        case _:
            return lk.samplers.InterleavedSampler([size, 2], num_epochs=None)


def excluded(sampler: Any, stages: list[tuple[int, dict[str, set[int]]]]) -> Any:
    """The sampler with stages; lists are known by their places here."""
    said = [
        ExclusionStage(first, {name: (str(place),) for name, keys in listed.items() if keys}, {})
        for place, (first, listed) in enumerate(stages)
    ]

    def listed_by(name: str, digests: tuple[str, ...]) -> Listed:
        listed = [np.array(sorted(stages[int(digest)][1][name])) for digest in digests]
        return Listed(listed[0], NONE, 0)

    return excluding(sampler, [stage for stage in said if stage.lists or stage is not said[0]], listed_by)[0]


@st.composite
def histories(draw: Any, names: dict[str, int], last: int) -> list[tuple[int, dict[str, set[int]]]]:
    """Stages, whose lists grow and shrink: (first index, {name: some of its records, not all})."""
    firsts = sorted(draw(st.sets(st.integers(0, last), min_size=1, max_size=4)))
    listed = st.fixed_dictionaries(
        {name: st.sets(st.integers(0, size - 1), max_size=size - 1) for name, size in names.items()}
    )
    stages = [(first, draw(listed)) for first in firsts]
    return stages if any(stages[0][1].values()) else [(firsts[0], {name: {0} for name in names}), *stages[1:]]


@given(
    data=st.data(),
    kind=st.sampled_from(["in order", "shuffled", "chunks", "keys", "interleaved"]),
    size=st.integers(2, 17),
)
def test_an_order_leaves_out_what_is_listed_and_keeps_the_rest(data: Any, kind: str, size: int) -> None:
    """Each index has the record of a walk, and is found again by its record."""
    sampler = sampler_of(kind, size)
    keys = sampler.record_keys(range(sampler.num_records)).tolist()
    stages = data.draw(histories({"": sampler.num_records}, 3 * size))
    stages = [(first, {"": {keys[place] for place in listed[""]}}) for first, listed in stages]
    twin, made, count = NaiveExclusions(sampler), excluded(sampler, stages), 5 * size
    for first, listed in stages:
        twin.exclude(first, listed)
    expected = twin.keys(count)
    assert made.record_keys(np.arange(count)).tolist() == expected
    assert made[count - 1].record_key == expected[-1]
    mixed_up = np.random.default_rng(0).permutation(count)
    assert made.record_keys(mixed_up).tolist() == [expected[index] for index in mixed_up]
    which, indices = made.indices_of(np.array(keys), 0, count)
    assert indices.tolist() == [*range(count)]
    assert [keys[place] for place in which] == expected


@given(
    data=st.data(),
    ending=st.sampled_from([None, "stop", "drop"]),
    order=st.sampled_from(["even", "shuffled"]),
)
def test_components_of_a_mixture_leave_out_each_their_own(data: Any, ending: Any, order: str) -> None:
    """What was read before a stage stays, each component is a walk of its own, and a drop comes after its last record.

    Where none ends the turns of the components stay, too.
    """
    sizes = data.draw(st.dictionaries(st.sampled_from("abc"), st.integers(2, 9), min_size=1))
    epochs = data.draw(st.integers(1, 2)) if ending else None
    parts = {
        name: lk.IndexSampler(size, shuffle=True, seed=1, num_epochs=epochs) for name, size in sizes.items()
    }
    weights = dict(zip(sizes, data.draw(st.permutations([1, 2, 0.5])), strict=False))
    base = lk.samplers.MixedSampler(parts, weights=weights, when_exhausted=ending, order=order, seed=5)
    stages: list[Any] = []
    made: Any = base
    for first, listed in data.draw(histories(sizes, 40)):
        length = len(made) if ending else 60
        first = min(first, length)
        before = made.record_keys(np.arange(first)).tolist()
        stages = [*(stage for stage in stages if stage[0] < first), (first, listed)]
        made = excluded(base, stages)
        length = len(made) if ending else 60
        keys = made.record_keys(np.arange(length))
        assert keys[:first].tolist() == before
        numbers = made.component_numbers(np.arange(length)) if length else NONE
        if ending is None:
            assert numbers.tolist() == base.component_numbers(range(60)).tolist()
        for number, name in enumerate(base.names):
            own = np.flatnonzero(numbers == number)
            walk = NaiveExclusions(lk.IndexSampler(sizes[name], shuffle=True, seed=1))
            for begin, each in stages:
                walk.exclude(int((own < begin).sum()), {"": each[name]})
            assert (keys[own] - base.offsets[name]).tolist() == walk.keys(own.size)
        if ending == "drop":
            taken = made.taken(length)
            assert all(each.epochs == epochs for each in taken.values())


def test_an_epoch_has_each_other_record_once_and_the_stream_ends_behind_the_last() -> None:
    """Two of ten are left out from the start: two epochs of eight."""
    sampler = lk.IndexSampler(10, shuffle=True, seed=0, num_epochs=2)
    made = excluded(sampler, [(0, {"": {2, 5}})])
    assert len(made) == 16
    for epoch in made.record_keys(range(16)).reshape(2, 8):
        assert sorted(epoch.tolist()) == [0, 1, 3, 4, 6, 7, 8, 9]
    with pytest.raises(IndexError, match="from 0 to 15, got 16"):
        made[16]
    assert made.epochs_before(16) == 2


def test_draws_are_drawn_again_where_they_are_left_out() -> None:
    """The others stay where they were, with the shares that their weights give them; nothing left is an error."""
    sampler = lk.samplers.WeightedSampler([5, 1, 3, 0], seed=0)
    made = excluded(sampler, [(50, {"": {0}})])
    plain, keys = sampler.record_keys(range(20_000)), made.record_keys(range(20_000))
    assert keys[:50].tolist() == plain[:50].tolist()
    stay = plain[50:] != 0
    assert (keys[50:][stay] == plain[50:][stay]).all()
    assert np.abs(np.bincount(keys[50:]) / 19_950 - [0, 0.25, 0.75]).max() < 0.02
    with pytest.raises(ValueError, match="got lists with all that have a weight"):
        excluded(sampler, [(0, {"": {0, 1, 2}})])


def test_what_is_read_instead_of_a_lost_record_goes_by_the_stage_of_the_lost_one() -> None:
    """Also behind the end of its stage and of the stream, and in a mixture."""
    sampler = lk.IndexSampler(6, num_epochs=1)
    made = excluded(sampler, [(2, {"": {3}}), (4, {"": {0, 5}})])
    assert made.record_keys(range(len(made))).tolist() == [0, 1, 2, 4]
    lost = np.array([1, 1, 3, 3])
    assert made.keys_instead(lost, np.array([2, 3, 4, 5])).tolist() == [2, 3, 5, 0]
    mixed = excluded(
        lk.samplers.MixedSampler({"a": lk.IndexSampler(6), "b": lk.IndexSampler(2)}), [(4, {"a": {4}})]
    )
    # "a" reads its records 2, 3 and 5 at the even indices from 4 on
    assert mixed.record_keys([4, 6, 8]).tolist() == [2, 3, 5]
    instead = mixed.instead(4, 0, 2)
    assert mixed.keys_instead(np.full(2, 4), instead).tolist() == [3, 5]


def test_a_cache_that_deletes_knows_the_next_uses_of_what_is_left() -> None:
    """No record is read before the index that is said of it, as seen from any index of any stage."""
    sampler = lk.ChunkSampler(24, chunk=3, window=2, seed=1)
    made = excluded(sampler, [(7, {"": {1, 2, 3, 11}}), (30, {"": {2, 3, 20}})])
    keys = made.record_keys(range(100)).tolist()
    for index in range(0, 60, 7):
        for key, use in zip(range(24), made.next_uses(np.arange(24), index), strict=True):
            later = [at for at in range(index, 100) if keys[at] == key]
            assert not later or use <= later[0]
