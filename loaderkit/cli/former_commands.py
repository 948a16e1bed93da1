"""The commands of 0.1 that are options of others since 0.2; 0.3 removes this file.

A row gives the new command with the words that make it do what the old one did, and the options that have another name.
"""

import argparse
import getopt
import shlex
from collections.abc import Mapping

from loaderkit._base.system.dataclasses import dataclass, field

from .exit_status import UsageError

REMOVED_IN = "0.3"
_TARGET = "DST"  # in place of an option: its value is the last argument that is no option

_TO_FILE = {"-o": _TARGET, "--output": _TARGET}


@dataclass(frozen=True, slots=True)
class FormerCommand:
    """What an old command is now.

    new: the command and its words. renamed: options, old to new. default: an option with its value, where it isn't
    given.
    """

    new: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    default: tuple[str, str] | None = None

    @property
    def command(self) -> str:
        """The new command's name."""
        return self.new.split()[0]


FORMER = {
    "verify": FormerCommand("check --only index"),
    "lint": FormerCommand("check --only training"),
    "records": FormerCommand("explain"),
    "stats": FormerCommand("inspect --values"),
    "first": FormerCommand("show --raw -n 1"),
    "table": FormerCommand("show --tsv", {"--fields": "--field"}),
    "preview": FormerCommand("show", {"--output": "--out"}),
    "cat": FormerCommand("convert", _TO_FILE),
    "sort": FormerCommand("convert", {**_TO_FILE, "-k": "--by", "--field": "--by"}, ("--by", "__key__")),
    "create": FormerCommand("convert --from-table", _TO_FILE),
    "split": FormerCommand(
        "convert --prefix", {**_TO_FILE, "-n": "--records", "--number": "--records", "-s": "--size"}
    ),
}


def new_words(name: str, words: list[str], parser: argparse.ArgumentParser) -> tuple[list[str], str]:
    """The words of the new command for those that followed an old one, and the line to tell its user.

    name: the old command. words: that followed it. parser: the new command's. UsageError for an option that the new
    command doesn't know.
    """
    from loaderkit._storage.addresses import redacted
    from loaderkit.formats import registry

    former = FORMER[name]
    # Of each option its long name now, and whether it takes a value.
    known = {
        option: (action.option_strings[-1], action.nargs != 0)
        for action in parser._actions
        for option in action.option_strings
    }
    known |= {old: (new, known.get(new, ("", True))[1]) for old, new in former.renamed.items()}
    short = "".join(option[1:] + ":" * valued for option, (_, valued) in known.items() if option[1] != "-")
    long = [option[2:] + "=" * valued for option, (_, valued) in known.items() if option[1] == "-"]
    try:
        given, names = getopt.gnu_getopt(words, short, long)
    except getopt.GetoptError as error:
        raise UsageError(f"expected options of `loaderkit {former.new}`, got another: {error}") from error
    made, shown, targets = former.new.split(), former.new.split(), list[str]()
    options, options_shown = list[str](), list[str]()
    for option, value in given:
        now, valued = known[option]
        if now == _TARGET:
            targets = [value]
            continue
        hidden = "NAME=VALUE" if option == "--storage-option" else value  # it may be a secret
        options += [now, value] if valued else [now]
        options_shown += [now, hidden] if valued else [now]
    added: list[str] = []
    if former.default is not None and former.default[0] not in options:
        added += former.default
    if _TARGET in former.renamed.values():
        if not targets:
            raise UsageError("-o: expected the name of the new file, got none")
        if targets == ["-"] and "--to" not in options:
            added += ["--to", "tar"]  # convert writes the format of SRC
        elif targets != ["-"] and "--prefix" not in made and registry.by_name(targets[0]) is None:
            added += ["--file"]  # convert makes a folder
    made += [*names, *targets, *options, *added]
    shown += [*map(redacted, names), *map(redacted, targets), *options_shown, *added]
    line = shlex.join(["loaderkit", *shown])
    return made, f"`loaderkit {name}` goes in {REMOVED_IN}; write: {line}"
