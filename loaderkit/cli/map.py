"""`loaderkit map`: a shell command, or a function, on each record; its files are written again in order."""

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.made_folder import MADE, Made
from loaderkit.formats import registry
from loaderkit.formats._writing.dropped import list_path
from loaderkit.formats.map_shards import map_shards

from .cluster import cluster_of
from .exit_status import UsageError
from .named_function import named_function
from .open_source import PIPE, open_source
from .output import Output
from .printable import counted
from .write_output import data_errors, format_of_target, name_files

SAMPLE = "sample"  # the base name of a record's files in its folder
_MOST_STDERR = 500  # characters

HELP = """
Run a shell command on each record, in a folder with its fields as files sample.FIELD, and write the files that are
there afterwards as the fields of the new record. $KEY is the record's key. The order stays, and a run that was killed
goes on.

SRC...
one of!:
  -c --command SHELL  the command, for sh
  --call MODULE:FUNCTION  a function of a record that gives one, several or None, instead
-o --output OUT!  'out-{}.tar': a file a shard; or one file, out.tar
--shards N[int]  files of 'out-{}.tar' (default: 1)
--on-error raise|drop[=raise]  what becomes of a record that fails
-p --processes N[workers=0]
--cluster KIND[cluster]
--json

examples:
  loaderkit map x.tar -c 'cp sample.cls sample.label' -o 'labelled-{}.tar' --shards 2 -p 2
"""


def run(options: argparse.Namespace, out: Output) -> None:
    """Maps the records."""
    shards = 1 if options.shards is None else options.shards
    if shards < 1:
        raise UsageError(f"--shards: expected 1 or more, got {shards}")
    if shards > 1 and "{}" not in options.output:
        raise UsageError("--output: expected a name with {} for several shards, as in 'out-{}.tar'")
    function = (
        ShellCommand(options.command) if options.call is None else named_function("--call", options.call)
    )
    name = "tar" if options.output == PIPE else format_of_target(options.output)
    if name not in registry.writable():
        known = ", .".join(registry.writable(by_extension=True))
        raise UsageError(f"--output: expected a name that ends with .{known}, got {options.output}")
    targets = [options.output.replace("{}", f"{number:05d}") for number in range(shards)]
    if found := [target for target in targets if os.path.lexists(target)]:
        raise UsageError(f"--output: expected new files, got {found[0]}, which is there")
    cluster = cluster_of(options)
    folder = f"{options.output.replace('{}', 'all')}.mapped"
    with open_source(options) as opened:
        records = len(opened.source)
        with data_errors():
            made = map_shards(
                function,
                opened.source,
                folder,
                format=name,
                shards=shards,
                worker_count=options.processes,
                on_record_error=options.on_error,
                overwrite=True,
                cluster=cluster,
            )
    if options.on_error == "drop":
        os.replace(list_path(folder), list_path(options.output))
    name_files(dict(zip(targets, made, strict=True)), name, options.processes)
    if (made_folder := Made.read(folder)) is not None:
        made_folder.delete(folder)  # the index of the names that the files had there
    os.unlink(os.path.join(folder, MADE))
    os.rmdir(folder)
    out.document({"files": targets, "records_read": records})
    out.text(f"{options.output}: {counted(records, 'record')} read, {counted(len(targets), 'file')} written")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """Runs a shell command in a folder with a record's fields as files, and gives what is there afterwards.

    command: for sh. ValueError with what it wrote to stderr where it fails.

    >>> ShellCommand("tr a-z A-Z < sample.txt > sample.up; rm sample.txt")({"__key__": "a", "txt": b"abc"})
    {'__key__': 'a', 'up': b'ABC'}
    """

    command: str

    def __call__(self, record: Any) -> dict[str, Any]:
        if not isinstance(record, dict):
            record = {"data": record}
        key = str(record.get("__key__", ""))
        with tempfile.TemporaryDirectory(prefix="loaderkit-map-") as folder:
            for name, value in record.items():
                if not name.startswith("__"):
                    Path(folder, f"{SAMPLE}.{name}").write_bytes(_as_bytes(name, value))
            ran = subprocess.run(
                ["sh", "-c", self.command],
                cwd=folder,
                env={**os.environ, "KEY": key},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
            )
            if ran.returncode:
                said = ran.stderr.decode(errors="replace").strip()[-_MOST_STDERR:]
                where = f" at key {key!r}" if key else ""
                raise ValueError(f"{shlex.quote(self.command)} ended with {ran.returncode}{where}: {said}")
            files = sorted(Path(folder).glob(f"{SAMPLE}.*"))
            made: dict[str, Any] = {"__key__": key} if key else {}
            made.update((file.name.partition(".")[2], file.read_bytes()) for file in files if file.is_file())
        return made


def _as_bytes(name: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool | int | float | dict | list):
        with contextlib.suppress(TypeError):  # of what is in a dict or a list
            return json.dumps(plain, ensure_ascii=False).encode()
    raise TypeError(
        f"field {name!r}: expected bytes, text, a number or JSON for a file, got {type(value).__name__}; use --call "
        "with a function"
    )
