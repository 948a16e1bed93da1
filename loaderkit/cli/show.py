"""`loaderkit show`: records as readable text, the bytes of one field, lines of a table, or pictures."""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.size_text import size_text
from loaderkit.errors import DataFormatError

from .cards import card_of
from .contact_sheet import can_be_decoded, contact_sheet
from .exit_status import ExitStatus, UsageError
from .html_page import html_page
from .named_function import named_function
from .open_source import OpenedSource, open_source
from .options import check_pairs
from .output import Output
from .printable import printable
from .read_each import read_all, shuffled_keys
from .values import MISSING, field_value, fields_of, value_json, value_text

FIRST_RECORDS = 5
DRAWN_RECORDS = 64
NARROWEST = 20  # characters of a value on a narrow terminal
LONGEST_VALUE = 200  # characters of a value, where --field didn't ask for it
HELP = f"""
Show records: text as text, images as their format and size, other values by their first bytes. --raw, --tsv and --out
show them in another way. The exit status is 1 where --where chooses no record.

SRC...
-f --field FIELD...  show this field only, in full, or a path into JSON such as json.label; may be given several times
-n --number NUMBER[int]  of records (default: {FIRST_RECORDS}, with --key 1, with --out {DRAWN_RECORDS}, with --tsv all)
one of:
  --key KEY[int]  show from the record with this number on, -1 for the last
  --find NAME  show the record with this key, such as a tar's 000017
  --shuffle SEED[int]  show the first records of a shuffled epoch
--where MODULE:FUNCTION  show the records for which this Python function gives true
one of:
  --raw  write the value of the field to stdout, and nothing else; with --json a line for each record
  --tsv  a line for each record with tabs between its fields, which -f A,B.C names, under one with their names
  -o --out FILE  draw records: x.png for a sheet of small pictures, x.html for a page
--no-header  with --tsv: without the line of names
--image FIELD  with --out: the field to draw (default: the first image)
--label FIELD  with --out: the field to write under it (default: cls, label, txt, ...)
--json  print a line of JSON for each record, with --out one document; its fields are stable

examples:
  loaderkit show 'train-{{000..009}}.tar' -n 2
  loaderkit show x.tar --key 17 -f jpg --raw > 17.jpg
  loaderkit show x.tar --where filters:is_cat -f json.label --raw -n 1
  loaderkit show x.tar --tsv -f __key__,cls > labels.tsv
  loaderkit show x.tar --out page.html --shuffle 0
"""


def run(options: argparse.Namespace, out: Output) -> ExitStatus | None:
    """Shows the records."""
    _check(options)
    names = table_names(options.field) if options.tsv else []
    where = named_function("--where", options.where) if options.where else None
    with open_source(options) as opened:
        if options.number is None:
            few = DRAWN_RECORDS if options.out else FIRST_RECORDS if options.key is None else 1
            options.number = len(opened) if options.tsv else few
        keys = _keys(options, opened)
        chosen = _chosen(options, opened, keys, where)
        if options.out is not None:
            draw(out, options, opened, keys, chosen)
            return None
        if options.tsv:
            print_table(out, chosen, names, header=not options.no_header)
            return None
        shown = 0
        for key, record in chosen:
            shown += 1
            location = opened.location(key)
            if options.raw:
                # Of a tar's record one field is written, of others the record.
                whole = not options.field and opened.format != "tar"
                fields = {"record": record} if whole else _fields(record, options.field, location)
                _write(out, key, location, fields)
            else:
                fields = _fields(record, options.field, location)
                _show(out, key, location, fields, in_full=bool(options.field))
    if not shown and options.number and (options.raw or where is not None):
        print("loaderkit show: no record was chosen", file=sys.stderr)
        return ExitStatus.FINDINGS
    return None


def _check(options: argparse.Namespace) -> None:
    least = 0 if options.out is None else 1
    if options.number is not None and options.number < least:
        raise UsageError(f"--number: expected {least} or more, got {options.number}")
    if options.raw and len(options.field or []) > 1:
        raise UsageError("--raw: expected one --field at most, got more")
    if options.out is not None:
        check_page_name(options.out)
        if options.field:
            raise UsageError("--field: expected no --out, whose fields --image and --label name, got both")
    check_pairs(options, {"tsv": ["no_header"], "out": ["image", "label"]}, {})


def _chosen(
    options: argparse.Namespace,
    opened: OpenedSource,
    keys: NDArray[np.int64],
    where: Callable[[Any], Any] | None,
) -> Iterator[tuple[int, Any]]:
    """The records of `keys` one after the other; with --where all from the first key on that it chooses, -n of them."""
    if where is None:
        yield from read_all(opened, keys)
        return
    left = options.number
    for key, record in read_all(opened, keys):
        if not left:
            return
        try:
            chosen = where(record)
        except Exception as error:
            # As an uncaught one it would end with 1, which says that no record is chosen.
            raise DataFormatError(
                f"--where: expected true or false from {options.where} for {opened.location(key)}, got "
                f"{type(error).__name__}: {error}"
            ) from error
        if chosen:
            left -= 1
            yield key, record


def _keys(options: argparse.Namespace, opened: OpenedSource) -> NDArray[np.int64]:
    total = len(opened)
    if options.find is not None:
        return np.array([_find(opened, options.find)], np.int64)
    # -n counts what --where chooses.
    number = min(options.number, total) if options.where is None else total
    if options.shuffle is not None and number:
        return shuffled_keys(total, options.shuffle, number)
    if options.key is None:
        return np.arange(number)
    if not -total <= options.key < total:
        raise UsageError(f"--key: expected a number below {total}, the number of records, got {options.key}")
    first = options.key % total
    return np.arange(first, min(first + number, total))


def _find(opened: OpenedSource, name: str) -> int:
    find = getattr(opened.source, "find", None)
    if find is None:
        raise UsageError(f"--find: expected records with keys, as those of tar files, got {opened.format}")
    try:
        return int(find(name))
    except KeyError:
        raise UsageError(f"--find: expected the key of a record, got {name!r}, which none has") from None
    except ValueError as error:  # the index has no keys
        raise UsageError(f"--find: {error}") from error


def _fields(record: Any, wanted: list[str] | None, location: str) -> dict[str, Any]:
    fields = fields_of(record)
    if wanted is None:
        return fields
    found = {name: fields[name] if name in fields else field_value(record, name) for name in wanted}
    for name, value in found.items():
        if value is MISSING:
            has = ", ".join(map(printable, fields))
            raise UsageError(f"--field: expected a field of {location}, which has {has}, got {name!r}")
    return found


def _show(out: Output, key: int, location: str, fields: dict[str, Any], *, in_full: bool) -> None:
    values = {name: value_json(value) for name, value in fields.items()} if out.as_json else {}
    out.document({"key": key, "location": location, "fields": values})
    most = None if in_full else LONGEST_VALUE
    if most is not None and out.width is not None:
        most = max(out.width - max(map(len, fields), default=0) - 4, NARROWEST)
    out.text(f"{key}  {location}", style="bold")
    out.facts([(name, value_text(value, most)) for name, value in fields.items()])


def _write(out: Output, key: int, location: str, fields: dict[str, Any]) -> None:
    chosen = [(name, value) for name, value in fields.items() if name != "__key__" or len(fields) == 1]
    if len(chosen) != 1:
        has = ", ".join(map(printable, fields))
        raise UsageError(f"--raw: expected --field with one of the fields of {location}: {has}")
    ((name, value),) = chosen
    if out.as_json:
        out.document({"record": key, "location": location, "field": name, "value": value_json(value)})
        return
    if not isinstance(value, bytes | bytearray | memoryview):
        text = value if isinstance(value, str) else json.dumps(value_json(value), ensure_ascii=False)
        value = (text + "\n").encode("utf-8", "surrogateescape")
    sys.stdout.buffer.write(value)


def table_names(given: list[str] | None) -> list[str]:
    """The names of the columns. given: by -f, each may have several with commas between."""
    names = [name.strip() for each in given or [""] for name in each.split(",")]
    if not all(names) or len({*names}) < len(names):
        said = ",".join(given or []) or "none"
        raise UsageError(f"--field: expected names with commas between, each once, got {said!r}")
    return names


def print_table(out: Output, records: Iterable[tuple[int, Any]], names: list[str], *, header: bool) -> None:
    """Prints a line for each record.

    records: (key, record). names: of the fields. header: whether their names come first.
    """
    seen, count = dict.fromkeys(names, False), 0
    if header and not out.as_json:
        print("\t".join(map(printable, names)))
    for _, record in records:
        count += 1
        row = {name: field_value(record, name, None) for name in names}
        for name, value in row.items():
            seen[name] |= value is not None
        out.document({name: value_json(value) for name, value in row.items()})
        if not out.as_json:
            print("\t".join(map(_cell, row.values())))
    for name, found in seen.items():
        if count and not found:
            raise UsageError(f"--field: expected fields that records have, got {name!r}, which none has")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    told = value_json(value)
    text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
    with contextlib.suppress(AttributeError):
        text = text.rstrip("\n")  # of a text file
    return printable(text)


def check_page_name(name: str) -> None:
    """UsageError for a file that is neither a picture nor a page."""
    if Path(name).suffix.lower() not in (".png", ".html", ".htm"):
        raise UsageError(f"--out: expected a name that ends in .png or .html, got {name!r}")


def draw(
    out: Output,
    options: argparse.Namespace,
    opened: OpenedSource,
    keys: NDArray[np.int64],
    records: Iterator[tuple[int, Any]],
) -> None:
    """Writes the picture or the page --out.

    keys: (n,) int64, of the records that are read. records: (key, record), those of them to draw.
    """
    cards = []
    with out.progress("records", len(keys)) as advance:
        for key, record in records:
            cards.append(card_of(key, record, image_field=options.image, label_field=options.label))
            advance(1)
    path, title = Path(options.out), printable(_title(opened))
    how = "in order" if options.shuffle is None else f"shuffled with seed {options.shuffle}"
    subtitle = f"{len(cards):,} of {len(opened):,} records, {how}"
    if path.suffix.lower() == ".png":
        content = contact_sheet(cards, title, subtitle)
    else:
        content = html_page(cards, title, subtitle).encode()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"--out: {error}") from error
    found = [can_be_decoded(card.image) for card in cards if card.image is not None]
    images, broken = sum(found), len(found) - sum(found)
    told = {"output": str(path), "records": len(cards), "images": images, "undecodable": broken}
    out.document({**told, "bytes": len(content)})
    wrong = f"{broken:,} with one that can't be decoded, " if broken else ""
    out.text(f"{path}: {len(cards):,} records, {images:,} with an image, {wrong}{size_text(len(content))}")


def _title(opened: OpenedSource) -> str:
    first, *more = (name.rpartition("/")[2] for name in opened.names)
    return first + (f" and {len(more)} more" if more else "")
