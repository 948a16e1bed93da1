"""What `explain` answers: one line first, then a table of changes, as text, HTML and JSON."""

import html
from typing import Any

from loaderkit._base.system.dataclasses import dataclass

from .analysis import Change, Limit


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether the loader is the bottleneck, what limits it, and what to change.

    Attributes:
        bottleneck: None where it isn't known.
        limit: of the loader.
        advice: what to try first, "" for nothing.
        why: what the first line follows from.
        changes: the best first.
        notes: what else is worth knowing.
        lacking: how the trainer's side is told, where it isn't known.
    """

    bottleneck: bool | None
    limit: Limit
    advice: str = ""
    why: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    lacking: str = "use it.watch(loss)"

    @property
    def first_line(self) -> str:
        """The answer."""
        if self.bottleneck is None:
            said = f"Whether the loader is the bottleneck is unknown: {self.lacking}."
        else:
            said = f"The loader is {'' if self.bottleneck else 'not '}the bottleneck."
        tried = f" Try {self.advice}." if self.advice and self.bottleneck is not False else ""
        return f"{said} Limit: {self.limit.what}.{tried}"

    def __str__(self) -> str:
        lines = [self.first_line, *self.why]
        if self.changes:
            cells = [("change", "records/s", "gain", "known", "stream"), *map(_cells, self.changes)]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells
            ]
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{html.escape(line)}</p>" for line in (self.first_line, *self.why))
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(change)) + "</tr>"
            for change in self.changes
        )
        head = "".join(f"<th>{name}</th>" for name in ("change", "records/s", "gain", "known", "stream"))
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"{said}<table><tr>{head}</tr>{rows}</table>{notes}" if rows else said + notes

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "bottleneck": self.bottleneck,
            "limit": {"kind": self.limit.kind, "what": self.limit.what, "part": self.limit.part},
            "advice": self.advice,
            "why": list(self.why),
            "changes": [
                {
                    "what": change.what,
                    "records_per_second": change.rate,
                    "gain": change.gain,
                    "known": change.known,
                    "same_stream": change.same_stream,
                }
                for change in self.changes
            ],
            "notes": list(self.notes),
        }


def _cells(change: Change) -> tuple[str, ...]:
    at_most = "<= " if change.known == "at most" else ""
    return (
        change.what,
        "unknown" if change.rate is None else f"{at_most}{change.rate:,.0f}",
        "unknown" if change.gain is None else f"{at_most}{change.gain:.2g}x",
        change.known,
        "the same" if change.same_stream else "another",
    )
