"""`loaderkit cat`: the records of one or several files as one file."""

import argparse

import numpy as np

from .exit_status import UsageError
from .open_source import add_source_arguments, open_source
from .output import Output, add_output_argument
from .read_each import shuffled_keys
from .write_output import (
    add_processes_argument,
    add_target_arguments,
    check_pipe,
    write_chosen,
    write_format,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Write the records of all files, in order or shuffled, into one file. Keys, fields and types are kept, and the "
        "same records are the same bytes, for any number of processes."
    )
    add_source_arguments(parser)
    add_target_arguments(parser)
    parser.add_argument("-n", "--number", type=int, metavar="N", help="of records (default: all)")
    parser.add_argument(
        "--shuffle", type=int, metavar="SEED", help="in the order of lk.IndexSampler with this seed"
    )
    add_processes_argument(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Writes the file."""
    if options.number is not None and options.number < 1:
        raise UsageError(f"--number: expected 1 or more, got {options.number}")
    check_pipe(options)
    form = write_format(options.output, options.to)
    out = Output(as_json=options.json)
    with open_source(options) as opened:
        total = len(opened)
        keys = np.arange(total) if options.shuffle is None else shuffled_keys(total, options.shuffle)
        return write_chosen(options, opened.source, keys[: options.number], form, out)
