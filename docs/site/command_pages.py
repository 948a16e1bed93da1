"""The pages of commands: what each takes, from its parser, and what it prints, from a run."""

import argparse
import importlib
from collections.abc import Iterator

from loaderkit.cli import COMMANDS, options

from .command_output import LINES, data, printed
from .pages import ROOT


def pages() -> dict[str, str]:
    """The text of each command's page, by its place."""
    return {f"commands/{name}.md": _page(name) for name in COMMANDS}


def _page(name: str) -> str:
    command = importlib.import_module(f"loaderkit.cli.{name}")
    parser = argparse.ArgumentParser(
        prog=f"loaderkit {name}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_help(parser, command.HELP, getattr(command, "ACTIONS", {}))
    lines = [f"# loaderkit {name}", f"{_begun(COMMANDS[name])}.", *_of_parser(parser)]
    if parser.epilog:
        _, _, examples = parser.epilog.partition("\n")
        lines.append(
            "```bash\n" + "\n".join(line.strip() for line in examples.strip().splitlines()) + "\n```"
        )
    lines.append("## What it prints")
    if name in LINES:
        lines += [data(name), f"```console\n{printed(name)}\n```"]
    else:
        lines.append("That depends on the machine.")
    if f"\n## {name}\n" in (ROOT / "docs/commands.md").read_text():
        lines.append(f"More about it: [](../commands.md#{name}).")
    return "\n\n".join(lines) + "\n"


def _of_parser(parser: argparse.ArgumentParser) -> Iterator[str]:
    if parser.description:
        yield " ".join(parser.description.split())
    rows, inner = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            does = {choice.dest: choice.help for choice in action._choices_actions}
            inner = [(does[name], below) for name, below in action.choices.items()]
        elif not isinstance(action, argparse._HelpAction):
            said = parser._get_formatter()._expand_help(action) if action.help else ""
            rows.append(f"| {_written(action)} | {_cell(said)} |")
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows])
    for does, below in inner:
        yield f"## {below.prog.removeprefix('loaderkit ')}"
        yield f"{_begun(does)}."
        yield from _of_parser(below)


def _begun(text: str) -> str:
    """As a sentence begins: names in it keep their letters."""
    return text[:1].upper() + text[1:]


def _written(action: argparse.Action) -> str:
    value = (
        "" if action.nargs == 0 else "|".join(action.choices) if action.choices else str(action.metavar or "")
    )
    shown = [f"`{f'{flag} {value}'.strip()}`" for flag in action.option_strings or [""]]
    return _cell(", ".join(shown))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
