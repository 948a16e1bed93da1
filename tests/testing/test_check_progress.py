"""What check_pipeline tells while it runs, and what it has looked at when it is through."""

import io
import sys

import pytest

import loaderkit as lk
from loaderkit.errors import PurityError
from loaderkit.testing import PipelineReport, check_pipeline, pipeline
from loaderkit.testing.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _without_a_pause(monkeypatch):
    monkeypatch.setattr(pipeline, "_CLOCK_SECONDS", 0.0)


def double(x: int) -> int:
    return 2 * x


def loader_of(*operations, **options) -> "lk.DataLoader":
    return lk.load(
        range(10), num_epochs=1, operations=operations, batch_size=4, worker_kind="thread", **options
    )


def test_the_report_says_what_was_compared(capsys):
    """Fewer batches than were asked for where there are no more; nothing is written where stderr is no terminal."""
    assert check_pipeline(loader_of(double)) == PipelineReport(
        batches=3,
        indices=10,
        leaves=("",),
        operations=("Map(double)", "Batch(batch_size=4)"),
        runs=(
            "in this process",
            "in this process again",
            "in another order",
            "with 1 worker, in another order",
            "with 3 workers",
        ),
    )
    assert capsys.readouterr() == ("", "")


def test_a_report_of_nothing():
    """No batch came, and the report says so."""
    report = check_pipeline(loader_of(lk.Filter(lambda x: False)))
    assert (report.batches, report.indices, report.leaves) == (0, 0, ())


def test_progress_is_written_where_it_is_asked_for(capsys):
    """A line for each stage where there is no terminal; a check that fails says that it looks for the operation."""
    check_pipeline(loader_of(double), batches=2, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"check_pipeline {n}/6" for n in range(1, 7)]
    assert lines[-1].endswith(": with 3 workers")
    counted = iter(range(1000))
    with pytest.raises(PurityError):
        check_pipeline(loader_of(lambda x: next(counted)), batches=2, progress=True)
    assert capsys.readouterr().err.splitlines()[-1].endswith("it differs: looking for the operation at fault")


@pytest.mark.parametrize("fails", [False, True])
def test_a_terminal_has_one_line_which_goes(monkeypatch, fails):
    """Each is written over the one before, and none is left, whatever the end is."""
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("loaderkit.testing.progress._BETWEEN", 0.0)
    if fails:
        with pytest.raises(ZeroDivisionError):
            check_pipeline(loader_of(lambda x: 1 // (x - x)), batches=2)
    else:
        check_pipeline(loader_of(double), batches=2)
    written = sys.stderr.getvalue()
    assert "\n" not in written
    shown = written.split("\r\x1b[K")
    assert shown[0] == shown[-1] == ""
    assert shown[1] == "check_pipeline 1/6: in this process"
    assert fails or shown[2] == "check_pipeline 1/6: in this process, 1 of 2 batches"
    assert all(0 < len(line) < 80 for line in shown[1:-1])


def test_a_terminal_is_not_written_to_where_that_is_said(monkeypatch):
    """Nor is anything written if there is no terminal, or if it was closed."""
    closed = Terminal()
    closed.close()
    for stream, shown in ((Terminal(), False), (None, True), (closed, None), (closed, True)):
        monkeypatch.setattr("sys.stderr", stream)
        with ProgressLine(shown=shown, name="check", stages=1) as progress:
            progress.stage("reading")
            progress.count(1, "records")
        assert stream is None or stream.closed or stream.getvalue() == ""


def test_progress_is_yes_no_or_none():
    """Any other value is an error before the pipeline runs."""
    with pytest.raises(TypeError, match="progress: expected True, False or None, got 3"):
        check_pipeline(loader_of(double), progress=3)
