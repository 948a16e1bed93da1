"""The shards of a set are made side by side by the workers of a loader; a run that was killed goes on where it was."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from loaderkit._base.canonical_json import digest
from loaderkit._base.notes import notes_of
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._loader.one_pass import one_pass
from loaderkit._source.version import version_of

from .cluster import ClusterWork
from .function_text import FunctionText
from .shard_jobs import DONE, ShardJobs
from .shard_result import ShardResult
from .write_format import write_format


def made_of(
    source: Any,
    functions: dict[str, Callable[..., Any] | None],
    *,
    version: str | int | None,
    writer: int,
    arguments: dict[str, Any],
    modules: Sequence[str] = (),
) -> dict[str, Any]:
    """What results are made of, as JSON values: source, function, its tokenizers, libraries, writer, arguments.

    Args:
        source: any data source; its functions count, too.
        functions: the user's, by the names of the arguments.
        version: of the functions, in place of their text and tokenizers; None to compare these. TypeError for
            another type.
        writer: the number of the algorithm, another one for a change that changes a byte.
        arguments: JSON values.
        modules: libraries that write.

    >>> made_of([1, 2], {"function": abs}, version=None, writer=1, arguments={"shards": 2})["arguments"]
    {'shards': 2}
    """
    if isinstance(version, bool) or not isinstance(version, str | int | None):
        raise TypeError(f"version: expected a text, an int or None, got {version!r:.80}")
    libraries = {name: _version_of(import_module(name)) for name in modules}
    text = FunctionText(functions, source) if version is None else None
    return {
        "source": version_of(source),
        "function": {"version": version} if text is None else text.as_json(),
        **({"tokenizer": text.tokenizers} if text is not None and text.tokenizers else {}),
        "libraries": {
            "python": "{}.{}".format(*sys.version_info),
            **libraries,
            **({} if text is None else text.libraries),
        },
        "writer": writer,
        "arguments": arguments,
    }


WRITER = 1  # another one for a change that changes a byte of the files


def _version_of(module: ModuleType) -> str:
    # Python's module for zstd has that of the C library.
    return str(getattr(module, "zstd_version", None) or getattr(module, "__version__", ""))


def made_of_format(
    source: Any,
    functions: dict[str, Callable[..., Any] | None],
    format_name: str | None,
    *,
    version: str | int | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """What files of a format are made of, as `made_of` gives it.

    Args:
        source, functions, version: as `made_of` takes them.
        format_name: of the files; None where there are none.
        arguments: the others that decide the bytes.
    """
    return made_of(
        source,
        functions,
        version=version,
        writer=WRITER,
        arguments={"format": format_name, **arguments},
        modules=() if format_name is None else write_format(format_name).libraries,
    )


def equal_shards(records: int, count: int) -> list[range]:
    """The keys of each of `count` shards: shard i of S has the records [i*n//S, (i+1)*n//S).

    >>> equal_shards(5, 2)
    [range(0, 2), range(2, 5)]
    """
    return [range(shard * records // count, (shard + 1) * records // count) for shard in range(count)]


def dropped_of(results: Sequence[ShardResult]) -> list[dict[str, Any]]:
    """The records that were left out of all shards, in order.

    Args:
        results: of `run_jobs`.
    """
    return [each for result in results for each in result.dropped]


def run_jobs(
    make: Callable[[int, str | None], ShardResult],
    asked: Any,
    shards: Sequence[range],
    paths: Sequence[str] | None = None,
    *,
    files: bool = True,
    drop: bool = False,
    index_part: Callable[[int], Any] | None = None,
    bar: bool = True,
    worker_count: int | None = 0,
    worker_kind: str = "process",
    on_cluster: ClusterWork | None = None,
) -> list[ShardResult]:
    """The results of all shards in order; those that are done are read.

    Args:
        make: as `ShardJobs` takes it.
        asked: JSON values: what all shards are made of, and how.
        shards: the keys of each shard's records.
        paths: of each shard its file, in a folder that the caller has locked; its `.done` file lies beside it. None
            where nothing is kept.
        files: whether they are written, or only values are made.
        drop: whether records may have been left out of a shard that is there.
        index_part: as `ShardJobs` takes it.
        bar: whether a progress bar counts the shards.
        worker_count, worker_kind: of the loader over the shards.
        on_cluster: what goes to a cluster that makes them in place of that loader.

    >>> results = run_jobs(lambda shard, path: ShardResult(shard), None, [range(3), range(3, 5)])
    >>> [result.records for result in results]
    [0, 1]
    """
    jobs = ShardJobs(
        make,
        [digest({"asked": asked, "records": [shard.start, shard.stop]}) for shard in shards],
        None if paths is None else [path + DONE for path in paths],
        paths if files else None,
        drop,
        index_part,
    )
    if on_cluster is None:
        opened: Any = _of_workers(jobs, worker_count, worker_kind)
    else:
        from .cluster_jobs import cluster_results

        opened = contextlib.closing(cluster_results(jobs, shards, on_cluster))
    results = []
    try:
        shown = progress_bar("shards", len(jobs)) if bar else contextlib.nullcontext(lambda more: None)
        with shown as advance, opened as each:
            for result in each:
                results.append(result)
                advance(1)
    except Exception as error:
        # The loader's notes name steps and keys of the shards as a source, which the user doesn't know.
        kept = [note for note in notes_of(error) if type(jobs).__name__ not in str(note)]
        with contextlib.suppress(Exception):  # a class of the user's may forbid it
            error.__notes__ = kept
        raise
    return results


@contextlib.contextmanager
def _of_workers(
    jobs: ShardJobs, worker_count: int | None, worker_kind: str
) -> Iterator[Iterator[ShardResult]]:
    count = worker_count if worker_count is None else min(worker_count, len(jobs))
    with one_pass(jobs, worker_count=count, worker_kind=worker_kind) as loader, iter(loader) as each:
        yield each
