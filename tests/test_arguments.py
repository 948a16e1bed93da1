"""One form of every argument: by place what a call is about, by name every option. The former ways, for one release."""

import inspect
import re
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
import loaderkit.interop.grain as grain
from loaderkit._base.former_arguments import former_arguments

CALLABLES = {
    name: getattr(room, name)
    for room in (lk, lk.formats, lk.samplers, lk.sources, lk.transforms)
    for name in dir(room)
    if isinstance(getattr(room, name), type | FunctionType) and not name.endswith("Error")
}
SIGNATURES = {name: inspect.signature(one) for name, one in CALLABLES.items()}
FORMER = {"transformations", "urls"}

# Options, which have a default, that may be given by place: what the call is about, beside the data.
BY_PLACE = {
    "Batch": "batch_size",
    "CachedDataSource": "folder",
    "CheckpointRestore": "item allow",  # Orbax calls it
    "Filter": "function",
    "FlatMap": "function",
    "Map": "function",
    "MapWithIndex": "function",
    "PadBatch": "batch_size",
    "RandomMap": "function",
    "Seeded": "transform key",
    "Window": "size function",
    "RangeDataSource": "stop step",  # as range
    "TokenDataSource": "offsets",
    "balance": "target",
    "column_stats": "columns",
    "device_iterator": "sharding prefetch keys",
    "map_shards": "path",
    "mix": "weights",
    "open": "split",
    "plan_packing": "path",
    "read_array": "source",
    "check_source": "argument",  # of the room, for its errors
    # Values with few fields.
    "PackPlan": "path",
    "ReadOptions": "num_threads prefetch_buffer_size retry",
    "RecordMetadata": "record_key rng name",
    "Retry": "attempts wait deadline errors",
    "ShardByJaxProcess": "drop_remainder timeout",
    "ShardBySharding": "spec timeout",
    "ShardOptions": "drop_remainder store",
}
# The one value that an argument has where it isn't given, in all callables that have one; else the exceptions by name.
DEFAULTS = {
    "shuffle": False,
    "num_epochs": None,
    "worker_count": 0,
    "worker_kind": "process",
    "shard_options": None,
    "read_options": None,
    "storage_options": None,
    "cache": None,
    "index": None,
    "decode": True,
    "drop_remainder": False,
    "overwrite": False,
    "seed": None,
    "on_record_error": "raise",
    "max_bad_records": None,
}
OTHER_DEFAULTS = {("plan_packing", "seed")}  # 0: the seed of the plan, which is always drawn


@pytest.mark.parametrize("name", SIGNATURES)
def test_options_are_given_by_name(name: str) -> None:
    """What has a default is given by name, but for the few that the table names."""
    placed = [
        one.name
        for one in SIGNATURES[name].parameters.values()
        if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is not one.empty
    ]
    assert placed == BY_PLACE.get(name, "").split()


@pytest.mark.parametrize("argument", DEFAULTS)
def test_an_argument_has_one_default(argument: str) -> None:
    """Where an argument isn't required, its default is the same for all callables."""
    found = {
        name: said.parameters[argument].default
        for name, said in SIGNATURES.items()
        if argument in said.parameters and (name, argument) not in OTHER_DEFAULTS
    }
    assert found
    assert {
        name for name, value in found.items() if value not in (DEFAULTS[argument], inspect.Parameter.empty)
    } == set()


def test_no_signature_has_a_former_name() -> None:
    assert not [name for name, said in SIGNATURES.items() if FORMER & said.parameters.keys()]


LENGTHS, LABELS = [3, 9, 2, 8, 4, 7], ["a", "b", "a", "a", "b", "a"]


@pytest.mark.parametrize(
    ("former", "now", "text"),
    [
        (
            lambda: list(lk.load([1, 2], num_epochs=1, transformations=[float])),  # type: ignore[call-arg]
            lambda: list(lk.load([1, 2], num_epochs=1, operations=[float])),
            r"^load\(\): write operations=...; 0.3.0 drops transformations, its former name$",
        ),
        (
            lambda: lk.balance(range(6), LABELS, seed=0)[1],  # type: ignore[call-arg]
            lambda: lk.balance(range(6), LABELS, shuffle=True, seed=0)[1],
            r"^balance\(\): write shuffle=True, its value without; 0.3.0 requires shuffle$",
        ),
        (
            lambda: lk.samplers.LengthBucketSampler(LENGTHS, [4, 9], 2, seed=0),  # type: ignore[call-arg]
            lambda: lk.samplers.LengthBucketSampler(LENGTHS, [4, 9], 2, shuffle=True, seed=0),
            r"^LengthBucketSampler\(\): write shuffle=True, its value without; 0.3.0 requires shuffle$",
        ),
        (
            lambda: lk.samplers.InterleavedSampler([2, 3]),  # type: ignore[call-arg]
            lambda: lk.samplers.InterleavedSampler([2, 3], num_epochs=1),
            r"^InterleavedSampler\(\): write num_epochs=1, its value without; 0.3.0 requires num_epochs$",
        ),
        (
            lambda: lk.interleave([range(2), range(3)])[1],  # type: ignore[call-arg]
            lambda: lk.interleave([range(2), range(3)], num_epochs=1)[1],
            r"^interleave\(\): write num_epochs=1, its value without; 0.3.0 requires num_epochs$",
        ),
        (
            lambda: lk.IndexSampler(6, None, True, 2, 0),  # type: ignore[misc]
            lambda: lk.IndexSampler(6, shuffle=True, num_epochs=2, seed=0),
            r"^IndexSampler\(\): write shard_options=None, shuffle=True, num_epochs=2, seed=0; 0.3.0 takes",
        ),
        (
            lambda: lk.SequentialSampler(6, None, 3),  # type: ignore[misc]
            lambda: lk.SequentialSampler(6, seed=3),
            r"^SequentialSampler\(\): write shard_options=None, seed=3; 0.3.0 takes shard_options and seed by",
        ),
        (
            lambda: lk.PadTo(4, "x", "mask"),  # type: ignore[misc]
            lambda: lk.PadTo(4, "x", mask="mask"),
            r"^PadTo\(\): write mask='mask'; 0.3.0 takes mask by name only$",
        ),
        (
            lambda: repr(lk.Pack(4, 8)),  # type: ignore[misc]
            lambda: repr(lk.Pack(4, window=8)),
            r"^Pack\(\): write window=8; 0.3.0 takes window by name only$",
        ),
        (
            lambda: lk.sources.WindowDataSource(range(9), 2, 1)[1],  # type: ignore[misc]
            lambda: lk.sources.WindowDataSource(range(9), 2, shift=1)[1],
            r"^WindowDataSource\(\): write shift=1; 0.3.0 takes shift by name only$",
        ),
        (
            lambda: list(lk.TokenDataSource(np.arange(3), [0, 3], "ids")[0]),  # type: ignore[misc]
            lambda: list(lk.TokenDataSource(np.arange(3), [0, 3], feature="ids")[0]),
            r"^TokenDataSource\(\): write feature='ids'; 0.3.0 takes feature by name only$",
        ),
        (
            lambda: lk.sources.ArraysDataSource(lambda: {"x": np.arange(3)}, 0).fingerprint(),
            lambda: lk.formats.ArrayFileDataSource(lambda: {"x": np.arange(3)}, 0).fingerprint(),
            r"^lk.sources.ArraysDataSource is lk.formats.ArrayFileDataSource now; the old name goes with 0.3.0$",
        ),
    ],
)
def test_a_former_way_is_the_new_one_with_a_warning(
    former: Callable[[], Any], now: Callable[[], Any], text: str
) -> None:
    """It gives the same, and the warning stands at the line of the call with what to write."""
    with pytest.warns(DeprecationWarning, match=text) as told:
        before = former()
    assert [one.filename for one in told] == [__file__]
    after = now()
    assert str(before) == str(after)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("VocXml", lambda: lk.decode.VocXml(["cat"])),
        ("MapOperation", lambda: grain.MapOperation(abs)),
        ("RandomMapOperation", lambda: grain.RandomMapOperation(max)),
        ("FilterOperation", lambda: grain.FilterOperation(bool)),
        ("BatchOperation", lambda: grain.BatchOperation(2)),
        ("SharedMemoryArray", lambda: grain.SharedMemoryArray((2,)).unlink_on_del()),
    ],
)
def test_a_class_that_goes_says_so_once(name: str, use: Callable[[], Any]) -> None:
    """At the line that makes an object, with what to write and the release that drops it."""
    text = rf"^{name}\(\): write .+; 0.3.0 drops it$"
    with pytest.warns(DeprecationWarning, match=text) as told:
        use()
    assert [one.filename for one in told] == [__file__]


def test_files_are_opened_in_former_ways(tmp_path: Any) -> None:
    """Tar archives by `urls` and options by place, texts and tables by place."""
    lk.write([{"__key__": "a", "x": b"1", "y": b"2"}], tmp_path / "a.tar")
    (tmp_path / "a.txt").write_text("1;2\n3;4\n")
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "1.bin").write_bytes(b"1")
    tar, text = str(tmp_path / "a.tar"), str(tmp_path / "a.txt")
    for former, now, word in [
        (lambda: lk.TarDataSource(urls=tar), lambda: lk.TarDataSource(tar), "paths"),  # type: ignore[call-arg]
        (lambda: lk.TarDataSource(tar, "x"), lambda: lk.TarDataSource(tar, fields="x"), "fields"),  # type: ignore[misc]
        (
            lambda: lk.formats.CsvDataSource(text, ";"),
            lambda: lk.formats.CsvDataSource(text, delimiter=";"),
            "delimiter",
        ),  # type: ignore[misc]
        (
            lambda: lk.formats.LinesDataSource(text, "ascii"),
            lambda: lk.formats.LinesDataSource(text, encoding="ascii"),
            "encoding",
        ),  # type: ignore[misc]
        (
            lambda: lk.FolderDataSource(tmp_path / "b", None, None),  # type: ignore[misc]
            lambda: lk.FolderDataSource(tmp_path / "b", extensions=None),
            "extensions",
        ),
    ]:
        with pytest.warns(DeprecationWarning, match=f"write .*{word}=") as told:
            before = former()
        assert [one.filename for one in told] == [__file__]
        after = now()
        assert before[0] == after[0] and before.fingerprint() == after.fingerprint()
        for source in (before, after):
            if hasattr(source, "close"):
                source.close()


def test_an_argument_that_is_given_twice_is_an_error() -> None:
    """Under both names, or by place and by name; too many by place are Python's error."""

    @former_arguments(removed_in="0.3.0", by_place=["fields"], renamed={"urls": "paths"})
    def read(paths: Any, *, fields: Any = None) -> Any:
        return paths, fields

    for arguments, named in [(("a",), {"urls": "b"}), ((), {"paths": "a", "urls": "b"})]:
        with pytest.raises(TypeError, match=r"read\(\): expected paths once, got it twice; leave one out$"):
            read(*arguments, **named)
    with pytest.raises(TypeError, match=r"read\(\): expected fields once, got it twice; leave one out$"):
        read("a", "x", fields="y")
    with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
        read("a", "x", "y")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read("a", fields="x") == ("a", "x")


WIDTH = 115  # of one argument: its name, type and default


@pytest.mark.parametrize("name", SIGNATURES)
def test_help_prints_a_signature_that_a_person_can_read(name: str) -> None:
    """No module of ours that isn't public, none of numpy's, no value without a text. Each argument fits in a line."""
    said = SIGNATURES[name]
    for one in [*said.parameters.values(), said.return_annotation]:
        shown = "" if one is said.empty else str(one)
        assert not re.search(r"loaderkit\.|\b_\w+\.|\._|<object|typing\.|collections\.abc", shown), shown
        assert len(shown) <= WIDTH, shown
