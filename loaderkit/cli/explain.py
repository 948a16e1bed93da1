"""`loaderkit explain`: whether a loader is the bottleneck, by experiments; and which steps read which documents."""

import argparse
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Any, NoReturn

from loaderkit._loader.inspect.lineage import Documents
from loaderkit._loader.iterator.iterator import DataLoaderIterator
from loaderkit._loader.loader import DataLoader, settings_of
from loaderkit._order.metadata import RecordMetadata
from loaderkit._source.naming import namer_of
from loaderkit.errors import LoaderkitError

from .exit_status import ExitStatus, UsageError
from .named_function import named_function
from .options import check_pairs
from .output import Output
from .state import SavedState, find_saved

TAKES_ARGUMENTS = True  # those of the script, behind --
SECONDS = 20.0
STEPS = 200
OnLoader = Callable[[DataLoader[Any], Any], None]
HELP = f"""
Measure a loader with half and twice its workers, its reads alone, and the training step, and say what limits it. The
function returns a loader, or a loader and a step (a function of a batch). In a training script write
print(it.explain()) instead. With --trace write a timeline, which Perfetto opens. With --step print which records and
documents that step has, with --document which steps read a document, and with --seen write how often each was read,
all without reading data; arguments of a script stand behind --.

SCRIPT  a script, which runs until its first iter(loader) and no further, or module:function that returns a loader, or a
        loader and a step
--seconds S[float]  for all experiments (default: {SECONDS:g})
one of:
  --step N[int]  print the records of this step, from 0 on
  --document DOCUMENT  print the steps that read this document: its key, or id:TEXT
  --trace FILE  write what each worker, the pump and the trainer do in the first --steps steps
  --seen N[int]  write to --to how often each document was read before this step, and by which step last
--steps N[int]  with --trace (default: {STEPS})
--corpus NAME  with --document: its corpus, where the source has several
--until N[int]  with --document: the step behind the last to look at (default: all, of --state those that were made)
--to FILE  with --seen: a new .npy or .parquet file
--state CKPT  with these: a saved position of the run, as `loaderkit state` takes it; all that was skipped, resized and
        replaced until then counts
--json

examples:
  loaderkit explain train:make_loader --seconds 60
  loaderkit explain train.py --step 1200 --state checkpoints/1000 -- --batch-size 64
  loaderkit explain train.py --document id:cc-0017 --corpus web --state checkpoints/1000
"""


# What to write where the command knows no training step.
_STEP = "name a function that returns `loader, step`, where step(batch) trains, or write print(loader.explain(step))"


def run(options: argparse.Namespace, out: Output) -> None:
    """Measures, or names the records of a step, and prints."""
    check_pairs(options, {"document": ["corpus", "until"], "seen": ["to"], "trace": ["steps"]}, {})
    works = {"step": print_records, "document": print_reads, "seen": write_seen, "trace": write_trace}
    for name, work in works.items():
        if getattr(options, name) is not None:
            if options.seconds is not None:
                raise UsageError(f"--seconds: expected no --{name}, which measures nothing, got both")
            saved = None if options.state is None else find_saved(options.state)
            with_loader(options.script, options.arguments, partial(work, options, out, saved))
            return
    if options.state is not None:
        raise UsageError("--state: expected --step, --document or --seen beside it, got none of them")
    with_loader(options.script, options.arguments, partial(_print, options, out))


def _print(options: argparse.Namespace, out: Output, loader: DataLoader[Any], step: Any) -> None:
    try:
        with loader:
            said = loader.explain(step, seconds=SECONDS if options.seconds is None else options.seconds)
            if step is None:
                said = replace(said, lacking=_STEP)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    out.document(said.to_json())
    for line in str(said).splitlines():
        out.text(line)


def print_records(
    options: argparse.Namespace, out: Output, saved: SavedState | None, loader: DataLoader[Any], step: Any
) -> None:
    """Prints the records of step --step of a loader, after `saved` where there is one."""
    ledger = {} if saved is None else dict(saved.state().losses.ledger)
    with _opened(loader, saved) as it:
        records, read = it.records(options.step), it.documents(options.step)
        pieces = _pieces_of(read)
        sampler, name = it.sampler, namer_of(settings_of(loader).source)
    length = getattr(sampler, "epoch_length", None) or getattr(sampler, "num_records", None)
    rows = []
    for row, record in enumerate(records):
        entry = {"row": row, **_named(record, record.name)}
        if record.component is not None:
            entry["component"] = record.component
        if record.index in ledger:
            instead = sampler[ledger[record.index]]
            assert instead.record_key is not None
            entry["read_instead"] = _named(instead, name(instead.record_key))
        rows.append(entry)
    first, last = records[0].index, records[-1].index
    epoch = first // length if isinstance(length, int) and length else None
    out.document({"step": options.step, "epoch": epoch, "records": rows, "documents": pieces})
    in_epoch = "" if epoch is None else f"epoch {epoch:,}, "
    out.text(f"step {options.step:,}, {in_epoch}indices {first:,}..{last:,}", style="bold")
    for entry in rows:
        out.text(f"  row {entry['row']}  {_line_of(entry)}")
    if (read.stop >= 0).any() or any(piece["corpus"] is not None for piece in pieces):
        out.text("documents", style="bold")
        for piece in pieces:
            out.text(f"  row {piece['row']}  {_piece_line(piece)}")


def print_reads(
    options: argparse.Namespace, out: Output, saved: SavedState | None, loader: DataLoader[Any], step: Any
) -> None:
    """Prints the steps that read document --document, of the loader's stream or of the run that was saved."""
    given: str = options.document
    which: dict[str, Any] = {"id": given[3:]} if given.startswith("id:") else {"key": _key(given)}
    with _opened(loader, saved) as it:
        of: Any = loader if saved is None else it
        pieces = _pieces_of(of.steps_of(options.corpus, until=options.until, **which))
    out.document({"document": given, "corpus": options.corpus, "reads": pieces})
    if not pieces:
        out.text("no step reads it")
    for piece in pieces:
        epoch = "" if piece["epoch"] < 0 else f"epoch {piece['epoch']:,}, "
        out.text(f"{epoch}step {piece['step']:,}, row {piece['row']}  {_piece_line(piece)}")


def write_seen(
    options: argparse.Namespace, out: Output, saved: SavedState | None, loader: DataLoader[Any], step: Any
) -> None:
    """Writes how often each document was read before step --seen."""
    if options.to is None:
        raise UsageError("--to: expected a new .npy or .parquet file beside --seen, got none")
    with _opened(loader, saved) as it:
        rows = it.seen(options.seen, options.to)
    count = sum(map(len, rows.values()))
    parts = [{"corpus": name, "begin": part.start, "end": part.stop} for name, part in rows.items()]
    out.document({"step": options.seen, "documents": count, "corpora": parts, "file": options.to})
    out.text(f"{options.to}: {count:,} documents")


def write_trace(
    options: argparse.Namespace, out: Output, saved: SavedState | None, loader: DataLoader[Any], step: Any
) -> None:
    """Writes the timeline of the loader's first --steps steps."""
    if saved is not None:
        raise UsageError("--state: expected no --trace, which begins with the first step, got both")
    steps = STEPS if options.steps is None else options.steps
    try:
        with loader:
            loader.trace(options.trace, step, steps=steps)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    out.document({"steps": steps, "file": options.trace})
    out.text(f"{options.trace}: a timeline; open it in https://ui.perfetto.dev")


@contextmanager
def _opened(loader: DataLoader[Any], saved: SavedState | None) -> Iterator[DataLoaderIterator[Any]]:
    """An iterator where the run was saved; what isn't known of it is a UsageError."""
    with iter(loader) as it:
        try:
            if saved is not None:
                it.set_state(saved.documents())
            yield it
        except (ValueError, TypeError, LookupError, LoaderkitError) as error:
            raise UsageError(str(error)) from error


def _key(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--document: expected a key, or id:TEXT, got {text}") from None


def _pieces_of(documents: Documents) -> list[dict[str, Any]]:
    columns = {each.name: getattr(documents, each.name).tolist() for each in fields(documents)}
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _piece_line(piece: dict[str, Any]) -> str:
    text = "" if piece["corpus"] is None else f"{piece['corpus']} "
    text += f"document {piece['document']:,}"
    text += "" if piece["id"] is None else f" ({piece['id']})"
    text += "" if piece["stop"] < 0 else f"  tokens {piece['start']:,} to {piece['stop']:,}"
    return text + ("" if piece["file"] is None else f"  {piece['file']}[{piece['record']}]")


def _named(record: RecordMetadata, name: str | None) -> dict[str, Any]:
    return {"index": record.index, "record_key": record.record_key, "name": name}


def _line_of(entry: dict[str, Any]) -> str:
    text = f"index {entry['index']:,}  record_key {entry['record_key']:,}"
    text += "" if entry["name"] is None else f"  {entry['name']}"
    if "read_instead" in entry:
        text += f"  is bad; read instead: {_line_of(entry['read_instead'])}"
    return text


def with_loader(name: str, arguments: list[str], work: OnLoader) -> None:
    """Does something with the loader that is named.

    A script has no finally, no exit handler and no last checkpoint: the process ends within its iter(loader). What it
    did before has happened.

    Args:
        name: a script's path, or module:function.
        arguments: the script's.
        work: takes the loader, and the step where the function gave one.
    """
    if ":" in name and not os.path.exists(name):
        work(*_of_function(name))
        return
    if not os.path.isfile(name):
        raise UsageError(f"SCRIPT: expected a script or module:function, got {name}, which isn't there")
    iterate = DataLoader.__iter__

    def hook(loader: DataLoader[Any]) -> NoReturn:
        status = int(ExitStatus.UNREADABLE)
        DataLoader.__iter__ = iterate  # type: ignore[method-assign]
        try:
            work(loader, None)
            status = int(ExitStatus.DONE)
        except UsageError as error:
            print(f"loaderkit: {error}", file=sys.stderr)
            status = int(ExitStatus.USAGE)
        except BaseException as error:  # noqa: BLE001 - the process ends here
            print(f"loaderkit: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    DataLoader.__iter__ = hook  # type: ignore[method-assign]
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
    try:
        runpy.run_path(name, run_name="__main__")
    finally:
        DataLoader.__iter__ = iterate  # type: ignore[method-assign]
    raise UsageError(
        f"SCRIPT: expected one that iterates over a loader, got {name}, which ended without iter(loader)"
    )


def _of_function(name: str) -> tuple[DataLoader[Any], Any]:
    made = named_function("MODULE:FUNCTION", name)()
    loader, step = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(loader, DataLoader):
        raise UsageError(
            f"MODULE:FUNCTION: expected one that returns a loader, got a {type(loader).__name__}; end it with "
            "`return loader`, or `return loader, step`"
        )
    return loader, step
