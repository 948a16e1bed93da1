"""What a command prints: tables for a terminal, aligned text for a pipe or without rich, or JSON."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from loaderkit._base.system.progress_bar import progress_bar, rich_console

from .printable import printable

Row = Sequence[str]


class Output:
    """Prints to stdout, or shows progress on stderr.

    as_json: texts and tables are left out, and `document` prints. rich is used where stdout is a terminal and rich is
    installed. All texts are escaped: no control character of a data file reaches the terminal.

    >>> Output().table(["field", ">records"], [["jpg", "1,000"], ["cls", "999"]])
    field  records
    jpg      1,000
    cls        999
    >>> Output(as_json=True).document({"records": 1000})
    {"records": 1000}
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._console = None if as_json else rich_console(sys.stdout)

    def document(self, value: Any) -> None:
        """Prints a JSON value as one line, where JSON was asked for."""
        if self.as_json:
            print(json.dumps(value, allow_nan=False, default=str))

    @property
    def width(self) -> int | None:
        """The columns of the terminal, None without one."""
        return None if self._console is None else int(self._console.width)

    def text(self, line: str = "", style: str = "") -> None:
        """Prints a line. style: rich's name of a style, such as "bold", for terminals."""
        if self._console is not None:
            from rich.text import Text

            self._console.print(Text(printable(line), style=style), soft_wrap=True)
        elif not self.as_json:
            _print(printable(line))

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """Prints names and their values as two columns."""
        shown = [(printable(name), printable(value)) for name, value in rows]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            if self._console is not None:
                from rich.text import Text

                line = Text.assemble("  ", (name.ljust(width), "cyan"), "  ", value)
                self._console.print(line, soft_wrap=True)
            elif not self.as_json:
                _print(f"  {name.ljust(width)}  {value}".rstrip())

    def table(self, columns: Row, rows: Sequence[Row], title: str = "") -> None:
        """Prints rows under the names of their columns; the texts of a column named ">..." end at its right edge."""
        if self.as_json:
            return
        names = [name.removeprefix(">") for name in columns]
        right = [name.startswith(">") for name in columns]
        shown = [[printable(cell) for cell in row] for row in rows]
        if self._console is not None:
            self._rich_table(names, right, shown, title)
            return
        if title:
            _print(printable(title))
        widths = [max(map(len, column)) for column in zip(names, *shown)]
        for row in [names, *shown]:
            cells = [
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right)
            ]
            _print("  ".join(cells).rstrip())

    def _rich_table(
        self, names: Sequence[str], right: Sequence[bool], rows: Sequence[Row], title: str
    ) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(printable(title)) if title else None,
            title_justify="left",
            title_style="bold",
            header_style="bold",
            box=box.SIMPLE_HEAD,
        )
        for name, to_right in zip(names, right):
            table.add_column(Text(name), justify="right" if to_right else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        assert self._console is not None
        self._console.print(table)

    def progress(self, what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """A bar on stderr while the block runs, as `progress_bar` shows one."""
        return progress_bar(printable(what), total)


def _print(line: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding))
