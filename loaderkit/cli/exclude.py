"""`loaderkit exclude`: a list of records that loaders leave out."""

import argparse

from loaderkit._source.block_list import read_block_list
from loaderkit.offline.blocking import block_list

from .open_source import open_source, shown_name, usage_errors
from .output import Output

HELP = """
Write a list of records of SRC that loaders leave out: DataLoader(exclude=FOLDER) from its beginning, it.exclude() from
a step on. The file is never changed, and its name is its sha256.

SRC...
FOLDER  where the list is put; it is made if it isn't there
one of!:
  --ids FILE  the ids of the records, one in each line
  --key KEY[int]...  a record key; may be given several times
--reason TEXT!  why, for those who read the list later
--field FIELD  of a record that has its id (default: id)
-p --processes N[workers=0]
--json

examples:
  loaderkit exclude web/*.jsonl blocked/web --ids requests.txt --reason "requests of 2026-05"
"""


def run(options: argparse.Namespace, out: Output) -> None:
    """Writes the list, and prints what it holds."""
    with open_source(options) as opened, usage_errors():
        path = block_list(
            opened.source,
            options.folder,
            ids=options.ids,
            keys=options.key,
            reason=options.reason,
            id_field=options.field or "id",
            worker_count=options.processes,
        )
        records = len(opened)
    made = read_block_list(path)
    out.document({"list": shown_name(path), "records": len(made.keys), "of": records, "reason": made.reason})
    out.text(shown_name(path), style="bold")
    out.facts([("records", f"{len(made.keys):,} of {records:,}"), ("reason", made.reason)])
