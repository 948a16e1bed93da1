"""Map-and-write and map-reduce over the shards of a source, by a loader's workers."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection
from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit._base.system.made_folder import Made
from loaderkit._base.system.whole_file import whole_file
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit.sources.checked import check_source

from ._writing.cluster import Cluster, ClusterWork, check_cluster
from ._writing.dropped import check_list, list_path
from ._writing.run_jobs import dropped_of, equal_shards, made_of_format, run_jobs
from ._writing.shard_function import MappedShards, ShardFunction
from ._writing.shard_result import ShardResult, json_value
from ._writing.target import WriteTarget, shard_names
from ._writing.write_format import RecordFiles, WriteFormat, format_of_path
from ._writing.write_format import write_format as named_format

# Without shards= there are so many that each of a usual number of workers has several, and that a restart repeats
# little; but none with fewer records than this, as each costs a file and a task.
SHARDS = 64
LEAST_RECORDS = 256


def map_shards(
    function: Callable[[Any], Any],
    source: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    version: str | int | None = None,
    format: str | None = None,  # noqa: A002 - as in lk.write
    per: str = "record",
    shards: int | None = None,
    reduce: Callable[[Any, Any], Any] | None = None,
    worker_count: int | None = 0,
    worker_kind: str = "process",
    on_record_error: str = "raise",
    overwrite: bool = False,
    allow: Collection[str] = (),
    cluster: Cluster | None = None,
) -> Any:
    """Runs a function over a source shard by shard, and writes what it gives, or folds it to one value.

    A shard is a run of consecutive records: shard i of S has the records [i*n//S, (i+1)*n//S). Its outputs make one
    file. A run that was killed goes on: a finished shard leaves a `.done` file in `PATH.partial`, and isn't done again
    unless the source, `version` or another argument has changed. The files have the same bytes for any workers.

    Args:
        function: per record it takes a record and gives one, a list of them, or None for none; a generator function
            gives several. Per shard it takes an iterator of the records and gives an iterable. With `reduce` it gives
            a JSON value: a count, a dict of sums.
        source: any data source.
        path: a folder of files `00000-of-00064.EXT`, which must not be there, unless `overwrite`. With `reduce` a JSON
            file with the result, or None to keep nothing.
        version: of the function, which isn't compared then: another version does all shards again.
        format: as `lk.write` has it; needed without `reduce`.
        per: "record" or "shard".
        shards: their number; without it one for 256 records or more, and 64 at most.
        reduce: takes two values, gives one. Values are folded in the order of records and shards, first within a shard,
            so it should be associative.
        worker_count, worker_kind: as DataLoader takes them; with `cluster` these workers only index the files.
        on_record_error: "raise", or "drop" to leave out records that can't be read, or per record mapped; then
            PATH.dropped.jsonl has a line for each of them, with its error.
        overwrite: whether what is there is replaced, and unfinished shards of another run are made again.
        allow: of "source", "function", "tokenizer" and "libraries" what may differ from the run that was killed.
        cluster: `lk.interop.ray.Tasks(...)`: each shard is made by a task on its hosts, which all see `path` and the
            data; a run may move between it and this machine. ClusterError names the host, or the shard, that fails.

    Returns the result with `reduce`, else the names of the files.

    >>> import loaderkit as lk
    >>> def moments(record):
    ...     return [1, record["x"], record["x"] ** 2]
    >>> source = [{"x": 1.0}, {"x": 2.0}, {"x": 6.0}]
    >>> def add(a, b):
    ...     return [x + y for x, y in zip(a, b)]
    >>> n, total, squares = lk.offline.map_shards(moments, source, version=1, reduce=add)
    >>> total / n, round(squares / n - (total / n) ** 2, 6)
    (3.0, 4.666667)
    """
    _check(function, path, per, reduce, on_record_error)
    check_cluster(cluster)
    source = check_source(source, "source")
    write_format = None if reduce is not None else named_format(format)
    count = shard_count(shards, len(source))
    keys = equal_shards(len(source), count)
    drop = on_record_error == "drop"
    work = ShardFunction(function, source, per_record=per == "record", reduce=reduce)
    format_name = None if write_format is None else write_format.name
    functions = {"function": function, "reduce": reduce}
    asked = made_of_format(source, functions, format_name, version=version, per=per, shards=count)
    run = functools.partial(
        run_jobs,
        files=write_format is not None,
        drop=drop,
        worker_count=worker_count,
        worker_kind=worker_kind,
        on_cluster=None if cluster is None else ClusterWork(cluster, source, functions, asked["libraries"]),
    )
    if path is None:
        return _reduced(reduce, run(MappedShards(work, keys, drop), asked, keys))
    target = os.path.abspath(path)
    if drop:
        check_list(list_path(target))
    if write_format is not None and format_of_path(target) is not None:
        raise ValueError(
            f"path: expected the name of a folder, got that of a file, {os.fspath(path)!r}; leave out its extension"
        )
    place = WriteTarget(
        target,
        is_file=write_format is None,
        overwrite=overwrite,
        allow=allow,
        format_name=format_name,
        worker_count=worker_count,
        other_cpus="warn" if cluster is None else cluster.other_cpus,
    )
    extension = "value" if write_format is None else write_format.extension
    with place.unfinished(extension, asked, goes_on=True) as made:
        names = shard_names(count, extension)
        paths = [os.path.join(place.folder, name) for name in names]
        files = None if write_format is None else _files(write_format, work, keys, drop)
        part = place.index_part(names) if cluster is None else None
        results = run(MappedShards(work, keys, drop, files), made.asked, keys, paths, index_part=part)
        result = None
        if write_format is None:
            result = _reduced(reduce, results)
            names = [os.path.basename(target)]
            with whole_file(os.path.join(place.folder, names[0])) as file:
                file.write(json.dumps(result, allow_nan=False).encode())
        written = place.finish(made, names, dropped_of(results) if drop else None)
        return result if write_format is None else written


def finished_files(
    function: Callable[[Any], Any], source: Any, path: str, *, format_name: str, shards: int | None
) -> list[str] | None:
    """The files of a folder that `map_shards` of these arguments has finished; None where it is of anything else.

    Args:
        function, source, path, shards: as `map_shards` takes them.
        format_name: of the files.
    """
    made = Made.read(path) if os.path.isdir(path) else None
    if made is None or made.files is None or not {*made.files} <= {*os.listdir(path)}:
        return None
    if not all(made.owns(path, name) for name in made.files):
        return None
    functions, count = {"function": function, "reduce": None}, shard_count(shards, len(source))
    asked = made_of_format(source, functions, format_name, version=None, per="record", shards=count)
    # Where a part of the function isn't compared, an edit of it wouldn't be noticed.
    is_same = made.asked == asked and not asked["function"]["not compared"]
    return [os.path.join(path, name) for name in made.files] if is_same else None


def _check(function: Any, path: Any, per: Any, reduce: Any, on_record_error: Any) -> None:
    if not callable(function):
        raise TypeError(f"function: expected a function, got {function!r:.80}")
    for name, value, choices in (
        ("per", per, ("record", "shard")),
        ("on_record_error", on_record_error, ("raise", "drop")),
    ):
        if value not in choices:
            raise ValueError(f"{name}: expected {choices[0]!r} or {choices[1]!r}, got {value!r:.80}")
    if reduce is None and path is None:
        raise TypeError("path: expected a folder for the files, got None; without files give reduce=")
    if path is not None and is_remote(os.fspath(path)):
        raise ValueError(
            f"path: expected a folder of a file system, got the URL {redacted(os.fspath(path))!r}; write to a folder, "
            "one that all hosts share where there are several, and copy it there, or mount the bucket"
        )
    if reduce is not None and not callable(reduce):
        raise TypeError(f"reduce: expected a function of two values, got {reduce!r:.80}")


def shard_count(shards: int | None, records: int) -> int:
    """The number of shards: the one asked for, at most one a record; without one 64 at most.

    >>> shard_count(None, 1000), shard_count(None, 10**6), shard_count(5, 10)
    (3, 64, 5)
    """
    if shards is None:
        return max(1, min(SHARDS, records // LEAST_RECORDS))
    return at_least("shards", shards, 1, below=records + 1, advice="a shard has a record or more")


def _reduced(reduce: Callable[[Any, Any], Any] | None, results: list[ShardResult]) -> Any:
    assert reduce is not None
    values = [result.value for result in results if result.records]
    if not values:
        raise ValueError("function: expected a value for one record or more, got none")
    return json_value(functools.reduce(reduce, values), "reduce")


def _files(write_format: WriteFormat, work: ShardFunction, keys: list[range], drop: bool) -> RecordFiles:
    """Of the first record that is written, which decides the fields of all files."""
    for run in keys:
        for record in work.outputs(run, [] if drop else None):
            return RecordFiles(write_format, write_format.encoder(record))
    raise ValueError("function: expected one record or more to write, got none")
