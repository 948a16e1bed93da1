"""What operations see and do, the callables of the user's and the legacy ones among them: as in the installed Grain."""

import threading

import numpy as np
import pytest
from grain_pipelines import legacy, story

import loaderkit.interop.grain as ours
from loaderkit.errors import IteratorClosedError, TransportError


@pytest.fixture(params=["ours", "grain"])
def g(request):
    """Each promise holds of both packages: it is Grain's, and ours."""
    return ours if request.param == "ours" else request.getfixturevalue("installed_grain")


def given_by(g, source, operations, *, sampler=None, **how) -> list:
    sampler = sampler or g.SequentialSampler(len(source), g.NoSharding(), seed=3)
    how = {"shard_options": g.NoSharding(), "read_options": g.ReadOptions(0, 0), **how}
    return list(g.DataLoader(data_source=source, sampler=sampler, operations=operations, **how))


def adding(g):
    class Adding(g.RandomMapTransform):
        def random_map(self, x, rng):
            return x + int(rng.integers(1000))

    return Adding()


def even(g):
    class Even(g.FilterTransform):
        def filter(self, x):
            return x % 2 == 0

    return Even()


def unchanged(records):
    return records


def turned(records):
    """Windows of two, each the other way round."""
    for first in records:
        second = next(records, None)
        if second is not None:
            yield second
        yield first


def numbers_of(seed: int, indices) -> list[int]:
    return [int(np.random.Generator(np.random.Philox(key=seed + i)).integers(1000)) for i in indices]


def test_records_held_back_keep_their_generators(g):
    """A callable that gives records later than it takes them: each draws its own numbers."""
    random = legacy(g.RandomMapOperation, lambda x, rng: x + int(rng.integers(1000)))
    assert given_by(g, [0] * 5, [turned, random]) == numbers_of(3, [1, 0, 3, 2, 4])
    assert given_by(g, [0] * 5, [turned, adding(g)]) == numbers_of(3, [1, 0, 3, 2, 4])


def test_a_remainder_draws_the_numbers_of_its_last_row(g):
    """Also where a Filter dropped records behind that row."""
    (batch,) = given_by(g, [0, 1, 2, 3], [unchanged, even(g), g.Batch(3), adding(g)])
    assert batch.tolist() == [0 + numbers_of(3, [2])[0], 2 + numbers_of(3, [2])[0]]
    assert batch.tolist() == [206, 208]


@pytest.mark.parametrize("worker_count", [0, 1])
def test_a_users_error_keeps_its_type(worker_count):
    """With and without workers the error has the user's class, its text, and a note that says where."""

    class WrongError(Exception):
        pass

    class Bad(ours.MapTransform):
        def map(self, x):
            if x == 3:
                raise WrongError("three")
            return x

    loader = ours.DataLoader(
        data_source=range(5),
        sampler=ours.SequentialSampler(5),
        operations=[Bad(), ours.Batch(2)],
        worker_count=worker_count,
        worker_layout=0,
    )
    try:
        iterator = iter(loader)
        assert next(iterator).tolist() == [0, 1]
        with pytest.raises(WrongError, match="three") as caught:
            next(iterator)
        assert any("record_key 3" in note for note in caught.value.__notes__)
    finally:
        loader.close()


@pytest.mark.parametrize("seed", [5, np.int64(5), np.uint32(5)])
def test_a_seed_may_be_any_integer(g, seed):
    """Numpy's integers are integers."""
    sampler = g.SequentialSampler(3, g.NoSharding(), seed)
    assert given_by(g, [0, 0, 0], [adding(g)], sampler=sampler) == numbers_of(5, range(3))
    assert given_by(g, [0, 0, 0], [unchanged, adding(g)], sampler=sampler) == numbers_of(5, range(3))


class Sixes:
    """Metadata of the user's own."""

    def __init__(self, g):
        self._record = g.RecordMetadata

    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index >= 3:
            raise IndexError
        return self._record(index=index + 100, record_key=index + 6, rng=np.random.default_rng(index))


def seen_by(g, operations, **how) -> list:
    def seen(records):
        for record in records:
            yield g.Record(record.metadata, (record.metadata.index, record.metadata.record_key, record.data))

    return given_by(g, [10, 11, 12, 13, 14], [*operations, seen], **how)


def test_callables_see_the_samplers_own_metadata(g):
    """Index and record_key as the sampler said them, not the loader's; the key is taken modulo the length to read."""
    assert seen_by(g, [], sampler=Sixes(g)) == [(100, 6, 11), (101, 7, 12), (102, 8, 13)]


def test_legacy_operations_remove_the_record_key(g):
    """Behind them a callable sees None."""
    for operation in (
        legacy(g.MapOperation, lambda x: x),
        legacy(g.FilterOperation, lambda x: True),
        legacy(g.RandomMapOperation, lambda x, rng: x),
    ):
        assert seen_by(g, [operation])[1] == (1, None, 11)


def test_transforms_keep_the_record_key(g):
    """Behind them a callable sees it, unlike behind legacy operations."""

    class Same(g.MapTransform):
        def map(self, x):
            return x

    assert [key for _, key, _ in seen_by(g, [Same()])] == [0, 1, 2, 3, 4]
    assert [key for _, key, _ in seen_by(g, [even(g)])] == [0, 2, 4]


@pytest.mark.parametrize("layout", [0, 1])
def test_batch_operation_finds_a_dtype_for_all_rows(layout):
    """Behind workers, too, where a Batch takes the first row's; rows that differ are a TypeError."""

    def loader(source):
        return ours.DataLoader(
            data_source=source,
            sampler=ours.SequentialSampler(4),
            operations=[legacy(ours.BatchOperation, 2)],
            worker_layout=layout,
            worker_count=layout,
        )

    with_workers = loader([1, 2.5, 3, 4])
    first, second = with_workers
    with_workers.close()
    assert first.dtype == np.float64 and first.tolist() == [1.0, 2.5]
    assert second.dtype == np.int64 and second.tolist() == [3, 4]
    differing = loader([{"a": 1}, {"b": 2}, 3, 4])
    with pytest.raises(TypeError, match="structures do not match"):
        next(iter(differing))
    differing.close()


# --- where a pipeline with callables stands ------------------------------------------------------------------------


def fan(g):
    """Of a number its last digit modulo 4 children: none of some."""

    class Fan(g.experimental.FlatMapTransform):
        max_fan_out = 3

        def flat_map(self, x):
            return [10 * x + child for child in range(x % 4)]

    return Fan()


WITH_CHILDREN = {
    "behind": lambda g: [fan(g), unchanged],
    "before": lambda g: [unchanged, fan(g)],
    "between": lambda g: [fan(g), unchanged, fan(g)],
    "filtered": lambda g: [even(g), unchanged, fan(g), even(g)],
    "batched": lambda g: [fan(g), unchanged, g.Batch(2)],
    "legacy": lambda g: [legacy(g.MapOperation, lambda x: x + 1), fan(g), unchanged],
    "held back": lambda g: [turned, fan(g)],
}


def run_of(g, name: str, **how):
    sampler = g.SequentialSampler(11, g.NoSharding(), seed=3)
    how = {"read_options": g.ReadOptions(0, 0), **how}
    return iter(
        g.DataLoader(data_source=[*range(11)], sampler=sampler, operations=WITH_CHILDREN[name](g), **how)
    )


@pytest.mark.parametrize("name", WITH_CHILDREN)
def test_children_and_callables_stand_where_grain_does(installed_grain, name):
    """Elements and states letter by letter, and each state of either gives the same rest in both."""
    theirs = story(run_of(installed_grain, name), 60)
    assert theirs[-1][1] == "end" and len(theirs) > 3
    assert story(run_of(ours, name), 60) == theirs
    for state, _ in theirs:
        rests = []
        for g in (ours, installed_grain):
            again = run_of(g, name)
            again.set_state(state.encode())
            rests.append([element for _, element in story(again, 60)])
        assert rests[0] == rests[1]


@pytest.mark.parametrize("name", [name for name in WITH_CHILDREN if name != "held back"])
@pytest.mark.parametrize("layout", [0, 3])
def test_no_child_is_lost_on_a_restore(name, layout):
    """Every state gives exactly the rest, in any layout, where no callable holds anything back."""
    whole = story(run_of(ours, name, worker_layout=layout), 60)
    for place, (state, _) in enumerate(whole):
        again = run_of(ours, name)
        again.set_state(state.encode())
        assert again.get_state().decode() == state
        assert [element for _, element in story(again, 60)] == [element for _, element in whole[place:]]


def raising(error, bad):
    """A callable that raises an error at the data in `bad`."""

    def refuse(records):
        for record in records:
            if record.data in bad:
                raise error
            yield record

    return refuse


def test_an_error_behind_a_callable_stays_until_a_state_is_set():
    """A loop that catches it and goes on doesn't take it for the end; then nothing is lost."""
    bad = {2}
    loader = ours.load([*range(5)], num_epochs=1, transformations=[raising(KeyError("refused"), bad)])
    it = iter(loader)
    assert [next(it), next(it)] == [0, 1]
    for _ in range(3):
        with pytest.raises(KeyError, match="refused") as caught:
            next(it)
        assert len(caught.value.__notes__) == 1
    bad.clear()
    with pytest.raises(KeyError, match="refused"):
        next(it)
    it.set_state(it.get_state())
    assert list(it) == [2, 3, 4]


class Totals:
    """Gives the total of all data so far, and may hold what can't be copied."""

    def __init__(self, uncopied=None):
        self.total, self.uncopied = 0, uncopied

    def __call__(self, records):
        for record in records:
            self.total += record.data
            yield ours.Record(record.metadata, self.total)


def totals_in_a_closure():
    total = [0]

    def add_up(records):
        for record in records:
            total[0] += record.data
            yield ours.Record(record.metadata, total[0])

    return add_up


@pytest.mark.parametrize(
    ("layout", "operation"),
    [(0, Totals()), (2, Totals()), (2, totals_in_a_closure())],
    ids=["object-0", "object-2", "closure-2"],
)
def test_each_stream_and_each_iterator_has_callables_of_its_own(layout, operation):
    """As Grain's workers: state of one part isn't seen by another, nor by the next iterator, nor after a restore."""
    sampler = ours.SequentialSampler(6)
    loader = ours.DataLoader(
        data_source=[1, 2, 3, 4, 5, 6], sampler=sampler, operations=[operation], worker_layout=layout
    )
    it = iter(loader)
    start = it.get_state()
    expected = [1, 2, 4, 6, 9, 12] if layout else [1, 3, 6, 10, 15, 21]
    assert [*it] == expected == [*loader]
    it.set_state(start)
    assert [*it] == expected


def test_a_callable_that_cant_be_copied_is_itself_in_grains_own_process():
    """With workers in the layout Grain can't send it either, and the error names it."""
    totals = Totals(threading.Lock())
    assert [*ours.load([1, 2], num_epochs=1, transformations=[totals])] == [1, 3]
    loader = ours.DataLoader(
        data_source=[1, 2], sampler=ours.SequentialSampler(2), operations=[unchanged, totals], worker_layout=1
    )
    with pytest.raises(TransportError, match=r"^operations\[1\] Totals can't be sent .*lock"):
        iter(loader)


def test_an_interrupt_in_a_callable_loses_nothing():
    """It ends the callable; next() goes on where the last element was handed out."""
    bad = {2}
    it = iter(ours.load([*range(5)], num_epochs=1, transformations=[raising(KeyboardInterrupt(), bad)]))
    assert [next(it), next(it)] == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(it)
    bad.clear()
    assert list(it) == [2, 3, 4]


def test_a_closed_iterator_over_callables_says_so():
    """As any other: neither an end nor another place, and the state can still be asked for."""
    it = iter(ours.load([*range(5)], num_epochs=1, transformations=[unchanged]))
    assert next(it) == 0
    state = it.get_state()
    it.close()
    for attempt in (lambda: next(it), lambda: it.set_state(state), it.start_prefetch):
        with pytest.raises(IteratorClosedError):
            attempt()
    assert it.get_state() == state


def test_a_loader_can_be_made_anew_of_the_parts_of_another(installed_grain):
    """They have the names that Grain's have, by which other libraries take a loader apart to add an operation."""

    class Doubled(ours.MapTransform):
        def map(self, element):
            return 2 * element

    def parts(grain, operations):
        loader = grain.DataLoader(
            data_source=[*range(12)],
            sampler=grain.IndexSampler(12, grain.NoSharding(), shuffle=True, num_epochs=1, seed=3),
            operations=operations,
            worker_buffer_size=3,
            read_options=grain.ReadOptions(2, 7),
        )
        processes = loader._multiprocessing_options
        return {
            "data_source": loader._data_source,
            "sampler": loader._sampler,
            "operations": list(loader._operations),
            "shard_options": loader._shard_options,
            "read_options": loader._read_options,
            "worker_count": processes.num_workers,
            "worker_buffer_size": processes.per_worker_buffer_size,
            "enable_profiling": processes.enable_profiling,
        }

    own = parts(ours, [ours.Batch(5)])
    theirs = parts(installed_grain, [installed_grain.Batch(5)])
    compared = ("data_source", "worker_count", "worker_buffer_size", "enable_profiling")
    assert {name: own[name] for name in compared} == {name: theirs[name] for name in compared}
    assert own["read_options"].num_threads == theirs["read_options"].num_threads == 2
    own["operations"].append(Doubled())
    expected = [(2 * batch).tolist() for batch in installed_grain.DataLoader(**theirs)]
    assert [batch.tolist() for batch in ours.DataLoader(**own)] == expected


ROWS = {
    "other integers": [np.int8(1), np.int64(1 << 40)],
    "bytes": [b"a", b"long"],
    "texts": ["a", "bcd"],
    "trees": [{"x": np.ones((2, 1), np.float16), "y": (1, True)}, {"x": np.ones((2, 1)), "y": (2, False)}],
    "nothing in them": [None, None],
    "lists of other lengths": [[1, 2], [3]],
    "other keys": [{"a": 1}, {"b": 1}],
    "other shapes": [np.zeros(2), np.zeros(3)],
    "none": [],
    "too many": [1, 2, 3, 4],
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("pad_value", [0, 300, b"xyz"])
def test_a_padded_batch_is_grains(installed_grain, rows, pad_value):
    """Its values, dtypes and shapes, also where the rows' dtypes differ; and where Grain refuses one, so does ours."""

    def outcome(grain):
        try:
            made = [grain.experimental.batch_and_pad(rows, batch_size=n, pad_value=pad_value) for n in (2, 3)]
        except Exception as error:  # noqa: BLE001 - whatever Grain raises is compared
            return type(error)
        return repr(made), [leaf.dtype for batch in made if isinstance(batch, np.ndarray) for leaf in [batch]]

    assert outcome(ours) == outcome(installed_grain)
