"""`loaderkit stats`: what the values of each column are like, for features and to look at."""

import argparse
import json
from typing import Any

from loaderkit._system.whole_file import whole_file
from loaderkit.offline.column_stats import column_stats

from .exit_status import ExitStatus
from .open_source import add_source_arguments, open_source
from .output import Output, add_output_argument
from .write_output import add_processes_argument, data_errors

_SHOWN_TERMS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Count, minimum, maximum, mean, deviation and quantiles of numbers, lengths of texts, mean and deviation of "
        "the channels of arrays, and the most frequent words, in one pass. lk.features take the file."
    )
    add_source_arguments(parser)
    parser.add_argument("-f", "--fields", metavar="A,B", help="these columns alone (default: all)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the result as JSON to a file, too")
    parser.add_argument(
        "--quantiles", type=int, default=4, metavar="N", help="parts of equal size (default: 4)"
    )
    parser.add_argument(
        "--vocabulary",
        type=int,
        default=0,
        metavar="N",
        help="the N most frequent words or integers (default: none)",
    )
    add_processes_argument(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the statistics."""
    columns = None if options.fields is None else [name for name in options.fields.split(",") if name]
    with open_source(options) as opened, data_errors():
        found = column_stats(
            opened.source,
            columns,
            quantiles=options.quantiles,
            vocabulary=options.vocabulary,
            worker_count=options.processes,
        )
    if options.output is not None:
        with whole_file(options.output) as file:
            file.write(json.dumps(found, indent=2).encode() + b"\n")
    out = Output(as_json=options.json)
    out.document(found)
    rows = [[name, *_cells(column)] for name, column in found["columns"].items()]
    out.table(["column", "kind", ">count", ">missing", ">min", ">max", ">mean", ">std", "more"], rows)
    return ExitStatus.DONE


def _cells(column: dict[str, Any]) -> list[str]:
    numbers = [_number(column.get(name)) for name in ("min", "max", "mean", "std")]
    more = []
    if "length" in column:
        length = column["length"]
        more.append(f"lengths {length['min']:g} to {length['max']:g}, mean {length['mean']:.4g}")
    if "channels" in column and len(column["channels"]["mean"]) <= _SHOWN_TERMS:
        means = ", ".join(f"{mean:.4g}" for mean in column["channels"]["mean"])
        more.append(f"channels' means {means}")
    if "quantiles" in column:
        more.append("quantiles " + ", ".join(f"{value:.4g}" for value in column["quantiles"][:_SHOWN_TERMS]))
    if "vocabulary" in column:
        more.append(
            "words " + ", ".join(f"{term} {count}" for term, count in column["vocabulary"][:_SHOWN_TERMS])
        )
    return [column["kind"], f"{column['count']:,}", f"{column['missing']:,}", *numbers, "; ".join(more)]


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"
