"""What the values of each column are like, for `loaderkit inspect --values`."""

import argparse
import json
from typing import Any

from loaderkit._base.system.whole_file import whole_file
from loaderkit.offline.column_counts import column_stats

from .exit_status import ExitStatus
from .open_source import open_source
from .output import Output
from .write_output import data_errors

QUANTILES = 4
_SHOWN_TERMS = 5


def print_values(options: argparse.Namespace) -> int:
    """Prints the statistics of the columns, and writes them to -o."""
    columns = None if options.fields is None else [name for name in options.fields.split(",") if name]
    with open_source(options) as opened, data_errors():
        found = column_stats(
            opened.source,
            columns,
            quantiles=QUANTILES if options.quantiles is None else options.quantiles,
            vocabulary=options.vocabulary or 0,
            worker_count=options.processes or 0,
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
