"""`loaderkit inspect`: what a set of data files holds."""

import argparse
import json
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.size_text import size_text
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.whole_file import whole_file

from .exit_status import UsageError
from .image_header import image_header
from .open_source import OpenedSource, open_source
from .options import check_pairs
from .output import Output
from .values import fields_of, text_of

SAMPLED_RECORDS = 256
SAMPLED_SIZES = 1 << 20  # records whose sizes are looked up in an index; more would fault in gigabytes of it
CHUNK_BYTES = 1 << 20  # of a chunk of lk.ChunkSampler: a request to a server takes as long for less
QUANTILES = 4
SHOWN_TERMS = 5  # words, quantiles and channels of a column
BAR = 30  # characters of the longest bar of the histogram
HELP = f"""
Say what a set of data files holds: format, shards, records, fields or columns, sizes. With --values what the values of
each column are like, in one pass: count, minimum, maximum, mean, deviation and quantiles of numbers, lengths of texts,
mean and deviation of the channels of arrays, and the most frequent words.

SRC...
--sample N[int]  read N records, spread over the set, for what no index says (default: {SAMPLED_RECORDS})
--values  read all records: what the values are like
with --values:
  -f --fields A,B  these columns alone (default: all)
  -o --output FILE  write the result as JSON to a file, too, which lk.features take
  --quantiles N[int]  parts of equal size (default: 4)
  --vocabulary N[int]  the N most frequent words or integers (default: none)
  -p --processes N[workers]  worker processes that read and encode (default: 0)
--json

examples:
  loaderkit inspect 'train-{{000..009}}.tar'
  loaderkit inspect people.csv --values --vocabulary 100 -o stats.json
"""


def run(options: argparse.Namespace, out: Output) -> None:
    """Prints what the set holds, or what its values are like."""
    if options.values:
        if options.sample is not None:
            raise UsageError("--sample: expected no --values, which reads all records, got both")
        print_values(options, out)
        return
    check_pairs(options, {"values": ("fields", "output", "quantiles", "vocabulary", "processes")}, {})
    with open_source(options) as opened:
        summary = summary_of(opened, max(SAMPLED_RECORDS if options.sample is None else options.sample, 1))
    out.document(summary.document())
    if not options.json:
        _print(out, summary)


@dataclass(slots=True)
class FieldSummary:
    """What the sampled records that have a field say of it: which values it has, and the bytes of each."""

    kinds: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a set of data files holds.

    nbytes: of all shards, None where a server didn't say it. record_bytes: (n,) int64, of all records or of n sampled
    ones. fields: of `sampled` records.
    """

    format: str
    names: list[str]
    records_each: NDArray[np.int64]
    nbytes: int | None
    record_bytes: NDArray[np.int64]
    sampled: int
    fields: dict[str, FieldSummary]

    @property
    def chunk(self) -> int:
        """The records of about 1 MiB, for lk.ChunkSampler."""
        mean = float(self.record_bytes.mean()) if len(self.record_bytes) else 1.0
        return max(1, round(CHUNK_BYTES / max(mean, 1.0)))

    def document(self) -> dict[str, Any]:
        """The document of `--json`."""
        return {
            "format": self.format,
            "shards": len(self.names),
            "records": int(self.records_each.sum()),
            "bytes": self.nbytes,
            "shard_records": _spread(self.records_each),
            "record_bytes": {**_spread(self.record_bytes), "sampled": len(self.record_bytes)},
            "sampled_records": self.sampled,
            "fields": [
                {
                    "name": name,
                    "records": len(each.sizes),
                    "kinds": dict(each.kinds.most_common()),
                    "bytes": _spread(np.array(each.sizes, np.int64)),
                }
                for name, each in self.fields.items()
            ],
            "chunk_records": self.chunk,
        }


def _spread(numbers: NDArray[np.int64]) -> dict[str, Any]:
    names = ("min", "median", "mean", "max")
    if not len(numbers):
        return dict.fromkeys(names)
    mean = round(float(numbers.mean()), 1)
    return dict(zip(names, (int(numbers.min()), int(np.median(numbers)), mean, int(numbers.max()))))


def summary_of(opened: OpenedSource, sample: int) -> Summary:
    """Reads `sample` records and the index, where there is one."""
    total = len(opened)
    keys = np.unique(np.linspace(0, max(total - 1, 0), min(sample, total)).astype(np.int64))
    fields: dict[str, FieldSummary] = {}
    read_bytes = np.zeros(len(keys), np.int64)
    for place, record in enumerate(opened.read(keys) if total else []):
        for name, value in fields_of(record).items():
            each = fields.setdefault(name, FieldSummary())
            kind, nbytes = _kind_of(value)
            each.kinds[kind] += 1
            each.sizes.append(nbytes)
            read_bytes[place] += nbytes
    sizes = opened.sizes()
    return Summary(
        format=opened.format,
        names=opened.names,
        records_each=opened.records_each,
        nbytes=None if sizes is None else int(sizes.sum()),
        record_bytes=_record_bytes(opened, read_bytes),
        sampled=len(keys),
        fields=fields,
    )


def _record_bytes(opened: OpenedSource, read_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    if opened.index is None or opened.index.counts:
        return read_bytes
    step = -(-len(opened) // SAMPLED_SIZES) or 1
    _, begins, ends = opened.index.locate(np.arange(0, len(opened), step))
    return np.asarray(ends - begins, np.int64)


def _kind_of(value: Any) -> tuple[str, int]:
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        header = image_header(data)
        kind = header.format if header else "bytes" if text_of(data) is None else "text"
        return kind, len(data)
    if isinstance(value, str):
        return "text", len(value.encode("utf-8", "surrogatepass"))
    nbytes = getattr(value, "nbytes", None)
    if nbytes is not None:
        return str(value.dtype), int(nbytes)
    return type(value).__name__, len(str(value))


def _print(out: Output, summary: Summary) -> None:
    first, *more = summary.names or ["no shard"]
    out.text(first + (f" and {len(more)} more" if more else ""), style="bold")
    count, sizes = int(summary.records_each.sum()), summary.record_bytes
    records = f"{count:,}"
    if more:
        least, median, _, most = _spread(summary.records_each).values()
        records += (
            f"; {least:,}" + (f" to {most:,}, median {median:,}" if most > least else "") + " in a shard"
        )
    nbytes = "unknown" if summary.nbytes is None else f"{size_text(summary.nbytes)} ({summary.nbytes:,})"
    facts = [("format", summary.format), ("shards", f"{len(summary.names):,}"), ("records", records)]
    facts.append(("bytes", nbytes))
    if len(sizes):
        said = ", ".join(f"{name} {size_text(size)}" for name, size in _spread(sizes).items())
        facts.append(("record", said if len(sizes) == count else f"{said} ({len(sizes):,} of them)"))
        chunk = f"lk.ChunkSampler(..., chunk={summary.chunk}) for {size_text(CHUNK_BYTES)} of records"
        facts.append(("chunk", chunk))
    out.facts(facts)
    if summary.fields:
        out.text()
        rows = [
            [
                name,
                " ".join(kind for kind, _ in each.kinds.most_common(3)),
                f"{len(each.sizes):,}",
                *(size_text(f(each.sizes)) for f in (min, np.median, max)),
            ]
            for name, each in summary.fields.items()
        ]
        title = f"fields of {summary.sampled:,} records"
        out.table(["field", "kind", ">records", ">min", ">median", ">max"], rows, title=title)
    if len(sizes) > 1:
        out.text()
        out.table([">bytes", ">records", ""], histogram(sizes))


def histogram(sizes: NDArray[np.int64]) -> list[list[str]]:
    """Rows of a table: a range of sizes between powers of two, its records, a bar.

    sizes: (n,) int64, n > 0.

    >>> for row in histogram(np.array([3, 5, 6, 7])):
    ...     print(*row)
    2 B to 4 B 1 ██████████
    4 B to 8 B 3 ██████████████████████████████
    """
    powers = np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    counts = np.bincount(powers - powers.min())
    return [
        [
            f"{size_text(2.0 ** (powers.min() + i))} to {size_text(2.0 ** (powers.min() + i + 1))}",
            f"{count:,}",
            "█" * round(BAR * count / counts.max()) or ("▏" if count else ""),
        ]
        for i, count in enumerate(counts.tolist())
    ]


def print_values(options: argparse.Namespace, out: Output) -> None:
    """Prints the statistics of the columns, and writes them to -o."""
    # The passes over a data set take a while to import.
    from loaderkit.offline.column_counts import column_stats

    from .write_output import data_errors

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
    out.document(found)
    rows = [[name, *_cells(column)] for name, column in found["columns"].items()]
    out.table(["column", "kind", ">count", ">missing", ">min", ">max", ">mean", ">std", "more"], rows)


def _cells(column: dict[str, Any]) -> list[str]:
    numbers = [_number(column.get(name)) for name in ("min", "max", "mean", "std")]
    more = []
    if "length" in column:
        length = column["length"]
        more.append(f"lengths {length['min']:g} to {length['max']:g}, mean {length['mean']:.4g}")
    if "channels" in column and len(column["channels"]["mean"]) <= SHOWN_TERMS:
        means = ", ".join(f"{mean:.4g}" for mean in column["channels"]["mean"])
        more.append(f"channels' means {means}")
    if "quantiles" in column:
        more.append("quantiles " + ", ".join(f"{value:.4g}" for value in column["quantiles"][:SHOWN_TERMS]))
    if "vocabulary" in column:
        more.append(
            "words " + ", ".join(f"{term} {count}" for term, count in column["vocabulary"][:SHOWN_TERMS])
        )
    return [column["kind"], f"{column['count']:,}", f"{column['missing']:,}", *numbers, "; ".join(more)]


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"
