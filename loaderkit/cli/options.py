"""The options of commands: tables of text, which say what --help shows and how each is read."""

import argparse
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loaderkit.formats import registry
from loaderkit.formats.built_in import FORMATS

from .exit_status import UsageError

_FILES = (
    "SRC...  data files: paths, patterns, train-{000..012}.tar, train@64, s3://bucket/x.tar; all are one set"
)
_OF_FILES = f"""
--format FORMAT[known_format]  of the files: {", ".join(each.name for each in FORMATS)}; default: as their names or
        first bytes say
--storage-option NAME=VALUE...  an option for the server, such as region=eu-west-1; may be given several times"""
# What a row without a text stands for.
_SHARED = {
    "SRC...": f"{_FILES}; - reads stdin{_OF_FILES}",
    "SRC..., not -": f"{_FILES}{_OF_FILES}",
    "-p --processes N[workers=0]": "-p --processes N[workers=0]  worker processes that read and encode (default: 0)",
    "-p --processes N[int]": """
-p --processes N[int]  worker processes, 0 for none (default: as many as processors, none for little data)""",
    "--cluster KIND[cluster]": """
--cluster KIND[cluster]  ray: each shard is made by a task on the hosts of a Ray cluster, which all see the data and OUT
--cluster-address HOST:PORT  of its head (default: the cluster of this machine, or RAY_ADDRESS)""",
    "--json": "--json  print one JSON document; its fields are stable",
}
_VALUE = re.compile(
    r"(?P<shown>.+?)(\[(?P<type>\w*)=?(?P<default>\w*)\])?(?P<several>\.\.\.)?(?P<needed>!)?(?P<maybe>\?)?"
)


def add_help(parser: argparse.ArgumentParser, text: str, actions: Mapping[str, str]) -> None:
    """Adds what --help says of a command, and its options.

    text: what the command does, the table of options, and examples, with an empty line between them. actions: of a
    command that has several, by name; the first line says what each does, the others are its options.
    """
    what, options, examples = (*text.strip("\n").split("\n\n"), "", "")[:3]
    parser.description = " ".join(what.split())
    if examples:
        parser.description = textwrap.fill(parser.description, 78)
        parser.epilog, parser.formatter_class = examples + "\n", argparse.RawDescriptionHelpFormatter
    add_options(parser, options)
    if actions:
        parsers = parser.add_subparsers(dest="action", required=True, metavar="|".join(actions))
        for name, action in actions.items():
            does, _, options = action.partition("\n")
            add_options(parsers.add_parser(name, help=does), options)


def add_options(parser: argparse.ArgumentParser, table: str) -> None:
    """Adds the options of a table.

    table: a row for each: what is written on the command line, two spaces or more, and the help, which goes on in lines
    that begin with eight spaces. `--flag` has no value, `-n --number N[int=3]` one of a type and with a default, which
    both may be left out, `--only a|b` one of some words; `FIELD...` may be given several times, `DIR!` has to be given,
    `DIR?` may be left out. A row without help is one that several commands have. `one of:` stands above rows, further
    in, of which one may be given, `one of!:` has to be; other words with a colon are the title of a group.

    >>> parser = argparse.ArgumentParser()
    >>> add_options(parser, "FILE\\n-n --number N[int]  of records\\n--full  read all")
    >>> parser.parse_args(["x.tar", "-n", "3"])
    Namespace(file='x.tar', number=3, full=False)
    """
    group: Any = parser
    for row in re.split(r"\n(?! {8})", table.strip("\n")):
        named, text = (*re.split(r"\s{2,}", row.strip(), maxsplit=1), "")[:2]
        place = group if row.startswith(" ") else parser
        if named.startswith("one of"):
            group = parser.add_mutually_exclusive_group(required="!" in named)
        elif named.endswith(":"):
            group = parser.add_argument_group(named[:-1])
        elif named in _SHARED and not text:
            add_options(place, _SHARED[named])
        elif named:
            _add(place, named, " ".join(text.split()))


def _add(parser: Any, named: str, text: str) -> None:
    flags = [word for word in named.split() if word.startswith("-")]
    value = _VALUE.fullmatch(named.rsplit(maxsplit=1)[-1])
    assert value is not None
    how: dict[str, Any] = {"help": text or None}
    if value[0] in flags:
        parser.add_argument(*flags, action="store_true", **how)
        return
    if "|" in value["shown"]:
        how["choices"] = value["shown"].split("|")
    else:
        how["metavar"] = value["shown"]
    if value["type"]:
        how["type"] = _TYPES[value["type"]]
    if value["default"]:
        how["default"] = value["default"]
    if value["needed"]:
        how["required"] = True
    if value["several"]:
        how |= {"action": "append"} if flags else {"nargs": "+"}
    if value["maybe"]:
        how["nargs"] = "?"
    parser.add_argument(*(flags or [value["shown"].lower()]), **how)


def check_pairs(
    options: argparse.Namespace, only_with: Mapping[str, Sequence[str]], not_with: Mapping[str, Sequence[str]]
) -> None:
    """UsageError for options without the one that they go with, or with one that excludes them.

    only_with, not_with: the options by the name of that one.
    """
    given = {name for name, value in vars(options).items() if value is not None and value is not False}
    said = {name: f"--{name.replace('_', '-')}" for name in vars(options)}
    for needed, names in only_with.items():
        for name in names:
            if name in given and needed not in given:
                raise UsageError(f"{said[name]}: expected with {said[needed]}, got it without")
    for chosen, names in not_with.items():
        for name in names:
            if name in given and chosen in given:
                raise UsageError(f"{said[name]}: expected no {said[chosen]}, got both")


def _known_format(text: str) -> str:
    try:
        return registry.of_name(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("format: ")) from None


def _written_format(text: str) -> str:
    names = registry.writable()
    if text not in names:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(names)}, got {text}")
    return text


def _workers(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {text}")
    return int(text)


def _cluster(text: str) -> str:
    if text != "ray":
        raise argparse.ArgumentTypeError(f"expected ray, got {text}")
    return text


_TYPES: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "path": Path,
    "known_format": _known_format,
    "written_format": _written_format,
    "workers": _workers,
    "cluster": _cluster,
}
