"""The command `loaderkit`, also `python -m loaderkit`. Each command has a file, imported when it runs."""

import argparse
import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from loaderkit._base.version import __version__
from loaderkit.errors import ClusterError

from .exit_status import ExitStatus, UsageError
from .former_commands import FORMER, new_words

COMMANDS = {
    "inspect": "what a set of data files holds: format, shards, records, fields, sizes, values",
    "show": "records as readable text, the bytes of a field, lines with tabs, or a page of pictures",
    "check": "whether the data is what was indexed, and what in it would harm a training",
    "index": "find where each record lies, and keep it in a file beside the data",
    "convert": "the records as one file or several, in another format or order, or through a function",
    "map": "a shell command, or a function, on each record",
    "exclude": "a list of records that loaders leave out from now on",
    "cache": "what the folder of lk.Cache holds of a set, fetched ahead or deleted",
    "explain": "whether a loader is the bottleneck, and what to change; which records a step has",
    "state": "show, compare, check and edit saved positions",
    "doctor": "whether this machine has what loaders need",
    "demo": "train on handwritten digits, kill the training in the middle of an epoch, resume it exactly",
}


class _Parser(argparse.ArgumentParser):
    """One whose errors are a line, which a long usage would hide; `--help` has the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(int(ExitStatus.USAGE), f"{self.prog}: {message}; `{self.prog} --help` says what it takes\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status, an `ExitStatus`.

    Args:
        arguments: what stands behind `loaderkit` in a shell; None for those of the program. SystemExit for arguments
            that can't be parsed, and for --help and --version.

    >>> main(["--help"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # What Python writes when it exits goes nowhere, rather than into a second error.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitStatus.CLOSED_PIPE)
    except KeyboardInterrupt:
        print("loaderkit: interrupted", file=sys.stderr)
        return int(ExitStatus.INTERRUPTED)
    return status


def _run(given: list[str]) -> int:
    parser = _Parser(prog="loaderkit", description="A deterministic data loader for JAX.")
    parser.add_argument("--version", action="version", version=f"loaderkit {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    parsers = {name: commands.add_parser(name, help=text) for name, text in COMMANDS.items()}
    # The options before a command have no values, so the first other word is the command.
    place = next((place for place, word in enumerate(given) if not word.startswith("-")), len(given))
    said = given[place] if place < len(given) else ""
    name = FORMER[said].command if said in FORMER else said
    if name not in COMMANDS:
        parser.parse_args(given)  # exits: --help, --version, or no command of these
    from . import options  # it imports the formats
    from .output import Output

    command = importlib.import_module(f".{name}", __name__)
    options.add_help(parsers[name], command.HELP, getattr(command, "ACTIONS", {}))
    behind: list[str] = []
    if getattr(command, "TAKES_ARGUMENTS", False) and "--" in given:
        end = given.index("--")
        given, behind = given[:end], given[end + 1 :]
    try:
        if said in FORMER:
            words, line = new_words(said, given[place + 1 :], parsers[name])
            given = [*given[:place], *words]
            print(f"loaderkit: warning: {line}", file=sys.stderr)
        actions = [*getattr(command, "ACTIONS", ())]
        word = next((word for word in given[place + 1 :] if not word.startswith("-")), None)
        if actions and word is not None and word not in actions:
            line = f"loaderkit {name} {actions[0]} {word}"
            parsers[name].error(f"expected one of {', '.join(actions)}, got {word!r}; write: {line}")
        parsed = parser.parse_args(given)
        parsed.arguments = behind
        out = Output(as_json=getattr(parsed, "json", False))
        return int(command.run(parsed, out) or ExitStatus.DONE)
    except (UsageError, ImportError) as error:
        _say(name, error)
        return int(ExitStatus.USAGE)
    except BrokenPipeError:
        raise
    except (OSError, ClusterError) as error:
        _say(name, error)
        return int(ExitStatus.UNREADABLE)


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    # What the user can mend is in the message, not in a line of loaderkit.
    print(f"loaderkit: warning: {message}", file=sys.stderr)


def _say(name: str, error: Exception) -> None:
    sys.stdout.flush()
    print(f"loaderkit {name}: {error}", file=sys.stderr)
