"""The figures of a `Stats` as text and HTML."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .stats import Stats

UNKNOWN = "unknown"
_MOST_CORPORA = 8  # that a line shows


def percent(share: float | None) -> str:
    """A share from 0 to 1.

    >>> percent(0.6184), percent(None)
    ('61.8%', 'unknown')
    """
    return UNKNOWN if share is None else f"{100 * share:.1f}%"


def rate(value: float | None, unit: str) -> str:
    """A number for each second.

    >>> rate(1683.4, "records"), rate(6.581, "steps"), rate(None, "steps")
    ('1,683 records/s', '6.58 steps/s', 'steps/s unknown')
    """
    if value is None:
        return f"{unit}/s {UNKNOWN}"
    return f"{value:,.0f} {unit}/s" if value >= 100 else f"{value:.3g} {unit}/s"


def size(nbytes: float | None) -> str:
    """Bytes with a unit.

    >>> size(38_500_000), size(999)
    ('38.5 MB', '999 B')
    """
    if nbytes is None:
        return UNKNOWN
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if nbytes >= factor:
            return (
                f"{nbytes / factor:.3g} {unit}"
                if nbytes < 1000 * factor
                else f"{nbytes / factor:,.0f} {unit}"
            )
    return f"{nbytes:.0f} B"


def duration(seconds: float | None) -> str:
    """Seconds with a unit.

    >>> duration(0.001175), duration(48e-6), duration(2.5)
    ('1,175 us', '48 us', '2.5 s')
    """
    if seconds is None:
        return UNKNOWN
    if seconds < 0.01:
        return f"{1e6 * seconds:,.0f} us" if seconds >= 1e-5 else f"{1e6 * seconds:.2g} us"
    return f"{1e3 * seconds:,.0f} ms" if seconds < 1 else f"{seconds:,.3g} s"


def counted(count: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "bad record"), counted(1200, "bad record")
    ('1 bad record', '1,200 bad records')
    """
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def rows_of(stats: "Stats") -> list[tuple[str, str]]:
    """What there is to say, a name and a text each."""
    rows = []
    if stats.trainer is not None:
        rows.append(("run", _run(stats)))
        rows.append(("trainer", _trainer(stats)))
    if stats.corpora:
        rows.append(("corpora", _corpora(stats)))
    rows.append(("workers", _workers(stats)))
    if stats.parts:
        rows.append(("a record", _parts(stats)))
    rows.append(("memory", _memory(stats)))
    rows.append(("faults", _faults(stats)))
    return rows


def lines_of(rows: Sequence[tuple[str, str]]) -> list[str]:
    """The rows as aligned lines."""
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)}  {text}" for name, text in rows]


def html_of(rows: Sequence[tuple[str, str]]) -> str:
    """The rows as a table."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


def line_of(stats: "Stats") -> str:
    """One line for a log."""
    if stats.trainer is None:
        return f"workers: {_workers(stats)}"
    busy = f"workers busy {percent(stats.busy)}" if stats.workers else "no workers"
    return f"{_run(stats)}; next() blocked {percent(stats.waiting)}; {busy}"


def _run(stats: "Stats") -> str:
    trainer = stats.trainer
    assert trainer is not None
    text = (
        f"{trainer.elapsed / 1e9:.1f} s, {counted(trainer.elements, 'step')}: "
        f"{rate(stats.steps_per_second, 'steps')}, {rate(stats.records_per_second, 'records')}"
    )
    if stats.bytes_per_second is not None:
        text += f", {size(stats.bytes_per_second)}/s"
    if stats.tokens_per_second is not None:
        text += f", {rate(stats.tokens_per_second, 'tokens')}, rows {percent(stats.fill)} full"
    if trainer.opening:
        text += f"; opening {duration(trainer.opening / 1e9)}"
    return text + (f"; pauses {duration(trainer.paused / 1e9)}" if trainer.paused else "")


def _trainer(stats: "Stats") -> str:
    trainer = stats.trainer
    assert trainer is not None
    text = f"own {percent(stats.own)}  blocked in next() {percent(stats.waiting)}"
    text += f"  loader's code {percent(stats.handing)}"
    if trainer.placing:
        text += f"  to devices {percent(stats.placing)}"
    text += f"  ready for {trainer.ready:,} of {max(0, trainer.elements - trainer.openings):,}"
    if stats.exposed is not None:
        text += f"  device idle meanwhile {percent(stats.exposed_waiting)}"
    return text


def _corpora(stats: "Stats") -> str:
    most = sorted(stats.corpora, key=lambda name: -stats.corpora[name].records)
    shown = []
    for name in most[:_MOST_CORPORA]:
        corpus, tokens = stats.corpora[name], stats.tokens_of(name)
        text = f"{name} {counted(corpus.records, 'record')}"
        text += "" if corpus.epochs is None else f", {corpus.epochs:.2f} epochs"
        shown.append(text + ("" if tokens is None else f", about {tokens:.3g} tokens"))
    return " | ".join(shown) + (f" | {len(most) - len(shown)} more" if len(most) > len(shown) else "")


def _workers(stats: "Stats") -> str:
    if not stats.pool.executor:
        return "none yet"
    if not stats.workers:
        text = f"none: the thread that calls next() works, CPU {percent(stats.cpu)} of its tasks"
    else:
        text = f"{stats.workers}{'' if stats.pool.workers else ', ended'}  busy {percent(stats.busy)}"
        text += f"  CPU {percent(stats.cpu)} of their tasks  no task {percent(stats.starving)}"
    if stats.reads_in_flight is not None:
        text += f"  reads in flight {stats.reads_in_flight:.1f}, {duration(stats.read_latency)} each"
    at_work = sum(worker.task is not None for worker in stats.pool.workers)
    return text + (f"  at work now: {at_work}" if at_work else "")


def _parts(stats: "Stats") -> str:
    whole = stats.seconds_per_record or 0.0
    shown = [
        f"{name.partition('] ')[2] or name} {percent(seconds / whole if whole else None)} {duration(seconds)}"
        for name, seconds in stats.parts.items()
    ]
    return f"{duration(whole)} of a worker: " + " | ".join(shown)


def _memory(stats: "Stats") -> str:
    pool = stats.pool
    text = "no shared memory"
    if pool.mapped:
        text = f"{size(pool.leased)} held by you, {size(pool.used)} of {size(pool.mapped)} in use"
    if pool.copied:
        text += f", {size(pool.copied)} copied for want of memory"
    sizes = [worker.memory for worker in pool.workers if worker.memory is not None]
    if sizes:
        text += f", workers {len(sizes)} x {size(sum(sizes) / len(sizes))}"
    return text


def _faults(stats: "Stats") -> str:
    found = [
        (stats.pool.lost, "worker", " lost"),
        (stats.pool.repeated, "task", " done again"),
        (stats.pool.all.retries, "read", " tried again"),
        (stats.bad_records or 0, "bad record", ""),
    ]
    text = ", ".join(counted(count, what) + then for count, what, then in found if count) or "none"
    return text + (f"; bad records {UNKNOWN}" if stats.bad_records is None else "")
