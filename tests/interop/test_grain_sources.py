"""What a script's source may rely on as under Grain: its end by StopIteration, and the names of reading threads."""

import threading

import pytest
from grain_pipelines import story

import loaderkit.interop.grain as ours


class Ends:
    """Says a length that it doesn't have, as a source over an iterator does."""

    def __init__(self, records: int):
        self.records = records

    def __len__(self):
        return 1000

    def __getitem__(self, key):
        if key >= self.records:
            raise StopIteration
        return key

    def __repr__(self):
        return "Ends()"


def even(g):
    class Even(g.FilterTransform):
        def filter(self, x):
            return x % 2 == 0

    return Even()


def unchanged(records):
    return records


TURNS = [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10], [9]]
# Operations -> what layouts of 0 and 2 give of 11 records.
PIPELINES = {
    "none": (lambda g: [], [*range(11)], [*range(11)]),
    "batch": (lambda g: [g.Batch(4)], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]], TURNS),
    "dropped": (lambda g: [g.Batch(4, True)], [[0, 1, 2, 3], [4, 5, 6, 7]], TURNS[:2]),
    "filter": (lambda g: [even(g), g.Batch(4)], [[0, 2, 4, 6], [8, 10]], [[0, 2, 4, 6], [8, 10]]),
    "callable": (lambda g: [unchanged, g.Batch(4)], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]], TURNS),
}


def loader_of(g, name: str, source, *, threads: int = 0, **how):
    return g.DataLoader(
        data_source=source,
        sampler=g.IndexSampler(1000, g.NoSharding(), num_epochs=None),
        operations=PIPELINES[name][0](g),
        read_options=g.ReadOptions(threads, 3 * threads),
        **how,
    )


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("name", PIPELINES)
def test_stop_iteration_ends_the_stream(installed_grain, name, threads):
    """With the last, smaller batch before it; elements and states as in Grain, and again after a restore."""
    theirs = story(iter(loader_of(installed_grain, name, Ends(11), threads=threads)), 60)
    it = iter(loader_of(ours, name, Ends(11), threads=threads))
    assert story(it, 60) == theirs and theirs[-1][1] == "end"
    assert next(it, None) is None
    it.set_state(theirs[1][0].encode())
    assert story(it, 60) == theirs[1:]
    it.close()


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        *((name, 0) for name in PIPELINES),
        *(pytest.param(name, 2, marks=pytest.mark.slow) for name in ("batch", "filter")),
    ],
)
def test_each_part_of_a_layout_ends_where_its_records_do(name, workers):
    """The others go on; what is given was noted down from Grain, with no worker and with two."""
    source = Ends(11)
    for layout in (0, 2):
        loader = loader_of(ours, name, source, worker_count=workers, worker_layout=layout)
        assert [getattr(it, "tolist", lambda it=it: it)() for it in loader] == PIPELINES[name][
            1 + layout // 2
        ]
        loader.close()


def test_a_source_that_has_more_by_a_restore_is_asked_again():
    """Where a stream ended isn't kept over set_state."""
    source = Ends(5)
    it = iter(loader_of(ours, "batch", source))
    state = it.get_state()
    assert [batch.tolist() for batch in it] == [[0, 1, 2, 3], [4]]
    source.records = 6
    it.set_state(state)
    assert [batch.tolist() for batch in it] == [[0, 1, 2, 3], [4, 5]]


class Named(Ends):
    """Takes the number of a thread from its name, as sources do that keep an iterator for each."""

    def __getitem__(self, key):
        number = int(threading.current_thread().name.split("_")[1])
        return super().__getitem__(key) + 0 * number


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["batch", "callable"])
def test_reading_threads_have_the_names_of_grains(name, workers):
    """grain-prefetch_0, grain-prefetch_1, ...; also where callables run in order."""
    loader = loader_of(ours, name, Named(6), threads=2, worker_count=workers, worker_layout=0)
    it = iter(loader)
    assert [batch.tolist() for batch in it] == [[0, 1, 2, 3], [4, 5]]
    it.close()
    loader.close()
