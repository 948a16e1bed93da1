"""`lk.interleave`: sources in a list or by name, read by a loader."""

import pytest

import loaderkit as lk


@pytest.mark.parametrize(
    "sources", [[[*"abc"], [], ["D"], [*"ef"]], {"x": [*"abc"], "empty": [], "a": ["D"], "y": [*"ef"]}]
)
def test_a_loader_reads_sources_in_turn(sources):
    """In the order given, whatever the names are; `epoch(e)` goes past the last one."""
    source, sampler = lk.interleave(sources, cycle_length=2, block_length=1, num_epochs=1)
    assert len(source) == len(sampler) == 6
    loader = lk.DataLoader(data_source=source, sampler=sampler, operations=[])
    assert "".join(loader) == "abDcef"
    with iter(loader.epoch(5)) as it:
        assert "".join(it) == "abDcef"


def test_arguments_reach_the_sampler():
    """And a run with them resumes."""
    shard = lk.ShardOptions(0, 2)
    source, sampler = lk.interleave(
        [range(4), range(10, 13)], block_length=2, num_epochs=None, seed=3, shard_options=shard
    )
    assert sampler == lk.samplers.InterleavedSampler(
        [4, 3], block_length=2, num_epochs=None, seed=3, shard_options=shard
    )
    loader = lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(2)])
    with iter(loader) as it:
        next(it)
        state = it.get_state()
        expected = [next(it).tolist() for _ in range(5)]
    with iter(loader) as it:
        it.set_state(state)
        assert [next(it).tolist() for _ in range(5)] == expected


@pytest.mark.parametrize(
    ("sources", "error", "text"),
    [
        ([], ValueError, "sources: expected one data source or more"),
        ([[], []], ValueError, "lengths: expected 1 .* records in all, got 0"),
        ([[1], 3], TypeError, r"sources\[1\]: expected"),
    ],
)
def test_bad_sources_are_refused(sources, error, text):
    """As ConcatDataSource and the sampler do."""
    with pytest.raises(error, match=text):
        lk.interleave(sources, num_epochs=1)


@pytest.mark.parametrize(
    ("sources", "text"),
    [
        (
            "part-*.jsonl",
            r"^sources: expected a data source, got 'part-\*.jsonl', which would be read character",
        ),
        (["a.txt"], r"^sources\[0\]: expected a data source, got 'a.txt', which"),
        ({"a": [1], "b": "b.csv"}, r"^sources\['b'\]: expected a data source, got 'b.csv', which"),
    ],
)
def test_names_of_files_are_no_sources(sources: object, text: str) -> None:
    """As tf.data's interleave is given them: their characters would be records."""
    with pytest.raises(TypeError, match=text):
        lk.interleave(sources, num_epochs=1)  # type: ignore[arg-type]


def test_sources_may_come_from_a_generator():
    source, sampler = lk.interleave((range(start, 6) for start in (0, 4)), num_epochs=1)
    assert [source[key] for key in sampler.record_keys(range(8))] == [0, 4, 1, 5, 2, 3, 4, 5]


def test_an_end_that_is_not_said_is_one_epoch_with_a_warning() -> None:
    """It stays as it was for one release, then it is required."""
    with pytest.warns(DeprecationWarning, match="interleave.*write num_epochs=1, its value") as told:
        _, sampler = lk.interleave([range(2), range(3)])
    assert told[0].filename == __file__ and len(sampler) == 5
