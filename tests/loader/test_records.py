"""Position is a number: what records(step) says and seek(step) reaches is what is delivered, near and far."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipelines import Running

import loaderkit as lk

FAR = 10**9


class Plain:
    """A user's own sampler: one index at a time, without an end."""

    seed = 3

    def __getitem__(self, index: int) -> lk.RecordMetadata:
        return lk.RecordMetadata(index=index, record_key=index * 7 % 50)


def endless(*operations, workers=0, records=1000, sampler=None, **options) -> "lk.DataLoader":
    sampler = sampler or lk.IndexSampler(records, shuffle=True, seed=2)
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, records, 1),
        sampler=sampler,
        operations=operations,
        worker_count=workers,
        worker_kind="thread",
        **options,
    )


def with_index(index: int, key: int) -> np.ndarray:
    return np.array([index, key])


MARK = lk.MapWithIndex(with_index)
LOADERS = {
    "batched": lambda: endless(MARK, lk.Batch(7)),
    "nested": lambda: endless(MARK, lk.Batch(3), lk.Batch(2)),
    "elements": lambda: endless(MARK),
    "threads": lambda: endless(MARK, lk.Batch(5), workers=2),
    "own sampler": lambda: endless(MARK, lk.Batch(4), sampler=Plain()),
}


@pytest.mark.parametrize("step", [0, 3, 1000, FAR])
@pytest.mark.parametrize("name", LOADERS)
def test_records_and_seek_agree_with_what_comes(name, step):
    """At step 3 and at step 10^9: seek goes there, and the rows that come are those that records names."""
    with LOADERS[name]() as loader, iter(loader) as it:
        it.seek(step)
        assert it.step == step
        for k in range(step, step + 3):
            said = [[metadata.index, metadata.record_key] for metadata in loader.records(k)]
            assert said == [[m.index, m.record_key] for m in it.records(k)]
            assert next(it).reshape(-1, 2).tolist() == said
        assert it.step == step + 3
        assert it.index == loader.records(step + 3)[0].index


@pytest.mark.parametrize("name", LOADERS)
def test_seek_reaches_what_next_reaches(name):
    """Every step by seek, in any order, is the step that going there gives; so is the state."""
    with LOADERS[name]() as loader:
        it = iter(loader)
        states, elements = [it.get_state()], []
        for _ in range(12):
            elements.append(next(it))
            states.append(it.get_state())
        for step in (11, 0, 5, 5, 4, 10):
            it.seek(step)
            assert it.get_state() == states[step]
            assert np.array_equal(next(it), elements[step])
            assert it.get_state() == states[step + 1]


@pytest.mark.parametrize("start", [3, FAR])
@given(data=st.data())
def test_skip_leaves_out_steps_and_stays_at_its_own(start, data):
    """skip(n) at step t: step t is what t + n would have been, steps before stay, and a restored state knows."""
    loader = LOADERS["batched"]()
    it, plain = iter(loader), iter(loader)
    it.seek(start)
    left_out, delivered = 0, {}
    for step, n in enumerate(data.draw(st.lists(st.integers(0, 5), max_size=4)), start):
        it.skip(n)
        left_out += n
        assert it.step == step
        state = it.get_state()
        restored = iter(loader)
        restored.set_state(state)
        assert restored.get_state() == state
        delivered[step] = [metadata.index for metadata in it.records(step)]
        plain.seek(step + left_out)
        expected = next(plain)
        assert np.array_equal(next(restored), expected)
        assert np.array_equal(next(it), expected)
        assert expected[:, 0].tolist() == delivered[step]
    for step, said in delivered.items():
        assert [metadata.index for metadata in it.records(step)] == said
        it.seek(step)
        assert next(it)[:, 0].tolist() == said


def ramp() -> "tuple[lk.DataLoader, lk.DataLoaderIterator]":
    """The example of the design: 100 steps of 256, then a resize to 512, then skip(3) at step 150."""
    small = endless(MARK, lk.Batch(global_batch_size=256))
    it = iter(small)
    it.seek(100)
    large = endless(MARK, lk.Batch(global_batch_size=512))
    resumed = iter(large)
    resumed.set_state(it.get_state(), allow={"global_batch_size"})
    resumed.seek(150)
    resumed.skip(3)
    return large, resumed


def segments(it: "lk.DataLoaderIterator") -> list[list[int]]:
    return json.loads(it.get_state())["segments"]


def test_a_ramp_and_a_skip():
    """Segments after a resize and a skip, and where seek goes in them, are the documented ones."""
    _, it = ramp()
    assert segments(it) == [[0, 0, 256], [100, 25600, 512], [150, 52736, 512]]
    for step, index in ((120, 35840), (150, 52736), (100, 25600), (151, 53248)):
        it.seek(step)
        assert (it.step, it.index) == (step, index)
        assert segments(it) == [[0, 0, 256], [100, 25600, 512], [150, 52736, 512]]


def test_seek_to_another_batch_size():
    """A step of another global batch size can't be made by this loader; records still answers, all rows of it."""
    _, it = ramp()
    it.seek(120)
    with pytest.raises(ValueError, match="step 50 takes 256 indices, this loader's steps 512"):
        it.seek(50)
    assert (it.step, it.index) == (120, 35840)
    assert [metadata.index for metadata in it.records(50)] == list(range(50 * 256, 51 * 256))
    assert [metadata.index for metadata in it.records(120)] == list(range(35840, 35840 + 512))


def test_a_later_segment_takes_effect_again():
    """After a seek back, going on crosses into the later segment: what was skipped is left out again."""
    loader, it = ramp()
    it.seek(148)
    found = {step: next(it)[:, 0].tolist() for step in range(148, 152)}
    firsts = {148: 25600 + 48 * 512, 149: 25600 + 49 * 512, 150: 52736, 151: 53248}
    assert found == {step: list(range(first, first + 512)) for step, first in firsts.items()}
    for step, rows in found.items():
        assert [metadata.index for metadata in it.records(step)] == rows
    assert segments(it) == [[0, 0, 256], [100, 25600, 512], [150, 52736, 512]]
    again = iter(loader)
    again.set_state(it.get_state())
    assert next(again)[0, 0] == 53248 + 512


def test_a_later_segment_of_another_size_stops_the_loader():
    """Back in the small batches, going on reaches the step where the batches grew: an error that says so."""
    _, it = ramp()
    state = json.loads(it.get_state())
    small = iter(endless(MARK, lk.Batch(global_batch_size=256)))
    state |= {"step": 99, "cursors": [[99 * 256]], "global_batch": {"N": 256, "G": 256}}
    del state["digest"]
    with pytest.warns(UserWarning, match="no digest"):
        small.set_state(json.dumps(state).encode())
    assert next(small)[0, 0] == 99 * 256
    for _ in range(2):
        with pytest.raises(ValueError, match="step 100 takes 512 indices, this loader's steps 256"):
            next(small)
    assert small.step == 100


def test_a_new_segment_replaces_the_later_ones():
    """skip and resize at step t drop the segments that start at t or later."""
    _, it = ramp()
    it.seek(120)
    it.skip(2)
    assert segments(it) == [[0, 0, 256], [100, 25600, 512], [120, 35840 + 1024, 512]]
    third = iter(endless(MARK, lk.Batch(128)))
    third.set_state(it.get_state(), allow={"global_batch_size"})
    assert segments(third) == [[0, 0, 256], [100, 25600, 512], [120, 36864, 128]]
    assert next(third)[:, 0].tolist() == list(range(36864, 36864 + 128))


def test_another_batch_size_must_be_allowed():
    """Without allow both sizes are named and nothing moves; with it not a record is lost or comes twice."""
    it = iter(endless(MARK, lk.Batch(6)))
    seen = [*next(it)[:, 0], *next(it)[:, 0]]
    larger = iter(endless(MARK, lk.Batch(8)))
    with pytest.raises(
        lk.CheckpointMismatchError, match=r'6 rows.*8 rows(.|\n)*allow=\{"global_batch_size"\}'
    ):
        larger.set_state(it.get_state())
    assert larger.step == 0
    larger.set_state(it.get_state(), allow={"global_batch_size"})
    assert larger.step == 2
    seen += [*next(larger)[:, 0], *next(larger)[:, 0]]
    assert seen == list(range(6 + 6 + 8 + 8))
    assert larger.step == 4


@pytest.mark.parametrize("remainder", ["keep", "drop"])
@pytest.mark.parametrize("running", [Running(), Running(2)], ids=str)
def test_the_end_in_numbers(running, remainder):
    """Of a finite loader: the last step by seek and records, the end behind it, and nothing behind that."""
    loader = lk.DataLoader(
        data_source=range(10),
        sampler=lk.IndexSampler(10, num_epochs=1),
        operations=[lk.Batch(4, remainder=remainder)],
        worker_count=running.workers,
        worker_kind="thread",
    )
    steps = len(loader)
    assert steps == (3 if remainder == "keep" else 2)
    with iter(loader) as it:
        it.seek(steps - 1)
        assert next(it).tolist() == [m.index for m in loader.records(steps - 1)]
        assert next(it, None) is None
        at_the_end = it.get_state()
        it.seek(steps)
        assert it.get_state() == at_the_end
        assert next(it, None) is None
        for ask in (it.seek, loader.records, it.records):
            with pytest.raises(IndexError, match=f"{steps + 1} doesn't exist"):
                ask(steps + 1)
        with pytest.raises(IndexError, match=f"{steps} doesn't exist"):
            loader.records(steps)
        with pytest.raises(IndexError, match="n: there are no 1 steps left"):
            it.skip(1)
        it.seek(0)
        it.skip(steps)
        assert next(it, None) is None
    with iter(loader) as it:
        with pytest.raises(IndexError, match=f"n: there are no {steps + 1} steps left"):
            it.skip(steps + 1)
        assert (it.step, len(list(it))) == (0, steps)
    loader.close()


@pytest.mark.parametrize("operation", [lk.Filter(bool), lk.FlatMap(lambda x: [x, x])], ids=repr)
def test_row_changing_pipelines_say_why_they_cant(operation):
    """Where rows change in number, len, records, seek and skip name the operation that is in the way."""
    loader = lk.DataLoader(
        data_source=range(10), sampler=lk.IndexSampler(10, num_epochs=1), operations=[operation, lk.Batch(2)]
    )
    it = iter(loader)
    name = repr(operation).replace("(", r"\(").replace(")", r"\)")
    for ask, what in (
        (it.seek, "seek"),
        (it.skip, "skip"),
        (it.records, "records"),
        (loader.records, "records"),
    ):
        with pytest.raises(ValueError, match=f"{what}.*isn't known: {name} changes the number of rows"):
            ask(1)
    with pytest.raises(TypeError, match=f"len.*isn't known: {name} changes the number of rows"):
        len(loader)
    assert it.step == 0


@pytest.mark.parametrize("value", [-1, 1.0, "1", True, None])
def test_steps_are_counted_from_zero(value):
    """A negative step, or what isn't an int, is refused by name, and nothing moves."""
    loader = LOADERS["batched"]()
    it = iter(loader)
    next(it)
    expected = ValueError if value == -1 else TypeError
    for ask, name in ((it.seek, "step"), (it.records, "step"), (loader.records, "step"), (it.skip, "n")):
        with pytest.raises(expected, match=name):
            ask(value)
    assert it.step == 1


def test_steps_past_what_an_index_counts():
    """A step whose index would be past 2**63 is refused, not wrapped around."""
    it = iter(LOADERS["batched"]())
    for ask in (it.seek, it.records, it.skip):
        with pytest.raises(IndexError, match=r"2\*\*6[23]"):
            ask(2**62)
    assert (it.step, it.index) == (0, 0)


@pytest.mark.parametrize("batched", [True, False])
def test_a_run_is_taken_no_farther_than_it_can_go_on_from(batched):
    """Up to index 2**62, behind which there is room for what is planned ahead: from there steps come and are saved."""
    operations, size = ([lk.Batch(4)], 4) if batched else ([], 1)
    loader = lk.DataLoader(data_source=range(8), sampler=lk.IndexSampler(8), operations=operations)
    it = iter(loader)
    last = 2**62 // size
    for ask in (it.seek, it.skip):
        with pytest.raises(IndexError, match=r"(step|n): .* 2\*\*62"):
            ask(last + 1)
        assert (it.step, it.index) == (0, 0)
    it.skip(last - 1)
    for _ in range(3):
        next(it)
        it.get_state()
    assert it.index == 2**62 + 2 * size
    it.seek(1)
    again = iter(loader)
    again.set_state(it.get_state())
    assert (again.step, again.index) == (1, 2**62)
    assert next(again) is not None


def test_a_segment_of_another_batch_before_the_last_is_answered_as_it_was():
    """Steps of four records, made without the inner Batch that the loader has now, are still those four."""
    before = iter(lk.DataLoader(data_source=range(30), sampler=lk.IndexSampler(30), operations=[lk.Batch(4)]))
    for _ in range(3):
        next(before)
    grouped = lk.DataLoader(
        data_source=range(30), sampler=lk.IndexSampler(30), operations=[lk.Batch(3), lk.Batch(2)]
    )
    it = iter(grouped)
    it.set_state(before.get_state(), allow={"operations", "global_batch_size"})
    assert [[record.index for record in it.records(step)] for step in (0, 2, 3)] == [
        [0, 1, 2, 3],
        [8, 9, 10, 11],
        [12, 13, 14, 15, 16, 17],
    ]


def test_records_reads_no_data():
    """records(step) asks the sampler alone."""

    class Unreadable:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, key: int) -> int:
            raise AssertionError("a record was read")

        def fingerprint(self) -> dict[str, str]:
            return {"kind": "Unreadable"}

    loader = lk.DataLoader(
        data_source=Unreadable(), sampler=lk.IndexSampler(8, seed=1), operations=[lk.Batch(4)]
    )
    assert [metadata.record_key for metadata in loader.records(3)] == [4, 5, 6, 7]
    assert str(loader.records(3)[0]) == "RecordMetadata(index=12, record_key=4, rng=Generator(Philox))"
