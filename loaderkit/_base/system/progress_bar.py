"""A progress bar on a terminal, by rich where it is installed."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress_bar(what: str, total: int | None, done: int = 0) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while the block runs, where stderr is a terminal and rich is installed.

    Args:
        what: is counted; printable text.
        total: how many there are; None where that isn't known: the bar shows the count and the rate.
        done: how many were done before.

    Gives a function that is told how many of the `total` were done since its last call.

    >>> with progress_bar("records", 3) as advance:
    ...     advance(3)
    """
    console = rich_console(sys.stderr)
    if console is None:
        yield lambda more: None
        return
    from rich import progress

    columns: tuple[Any, ...] = (progress.TextColumn("{task.description}"), progress.BarColumn())
    if total is None:
        columns += (progress.TextColumn("{task.completed:,}"), progress.TextColumn("{task.fields[rate]}"))
    else:
        columns += (progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total, completed=done, rate="")

        def advance(more: int) -> None:
            bar.advance(task, more)
            if total is None and (speed := bar.tasks[0].speed):
                bar.update(task, rate=f"{speed:,.0f}/s")

        yield advance


def rich_console(stream: Any) -> Any:
    """A rich console on a stream; None where that isn't a terminal, or rich isn't installed.

    >>> import io
    >>> rich_console(io.StringIO()) is None
    True
    """
    if stream is None or not stream.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, highlight=False, markup=False, emoji=False)
