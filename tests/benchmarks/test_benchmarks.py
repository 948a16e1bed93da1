"""The benchmark suite runs, and its arithmetic is right. The figures of a test run mean nothing: see its README."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("psutil", reason="the benchmarks need psutil")
pytest.importorskip("cv2", reason="the benchmarks need opencv-python-headless")

from benchmarks import augment, chunk_order, crop_bound, growth
from benchmarks.benchmark import PER_SECOND, Bound, speedup
from benchmarks.contender import grain_tuned, ours, torch
from benchmarks.report import BEGIN, END, README, kept, outcome_of, with_report
from benchmarks.runner import Outcome
from benchmarks.summary import summarised
from benchmarks.table import ahead, of_all, of_outcome
from benchmarks.visibility import table as visibility_table
from benchmarks.workloads import NAMES, benchmarks_of

ROOT = Path(__file__).parents[2]
# The test command takes every eighth one: most of the time goes to processes that start.
BY_DAY = NAMES[1::8]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory, nightly):
    """What `python -m benchmarks --smoke` wrote and printed: every benchmark once, with few records.

    In two processes at once, of half the names each.
    """
    folder = tmp_path_factory.mktemp("smoke")
    asked = NAMES if nightly else BY_DAY
    halves = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks", *names, "--smoke", "--json", str(folder / names[0])],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for names in (asked[::2], asked[1::2])
    ]
    printed = [half.communicate()[0] for half in halves]
    assert [half.returncode for half in halves] == [0, 0], "\n".join(printed)
    figures = [json.loads((folder / names[0]).read_text()) for names in (asked[::2], asked[1::2])]
    return [entry for half in figures for entry in half["benchmarks"]], "\n".join(printed)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_runs_and_every_metric_is_a_positive_number(name, smoke, nightly):
    """loaderkit and the bare loop take part in each benchmark, and each of their metrics is more than zero."""
    if not nightly and name not in BY_DAY:
        pytest.skip("nightly")
    figures, printed = smoke
    for benchmark in benchmarks_of(name):
        (found,) = (entry for entry in figures if entry["name"] == benchmark.name)
        (results,) = found["rounds"]
        expected = {c.name for c in benchmark.contenders if c.peer in ("bare", "loaderkit")}
        assert results.keys() == expected
        assert all(
            value > 0 for metrics in results.values() for key, value in metrics.items() if "a Map" not in key
        )
        assert f"## {benchmark.name}\n" in printed and benchmark.what.strip() in printed


@pytest.mark.slow
def test_what_takes_no_part_is_listed(smoke):
    """The tables and the file name the contenders that didn't run, with the reason."""
    figures, printed = smoke
    (small,) = (entry for entry in figures if entry["name"] == "small")
    assert small["not run"]["torch, 0 workers"] == "not asked for"
    assert "torch, 0 workers; torch, 2 workers" in printed


@pytest.mark.slow
def test_the_conformance_table_is_made(at_night):
    """A few probes of loaderkit, each in a process of its own: a row each, and what it does below."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "conformance", "--smoke"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 5 and all(row.endswith("| yes |") for row in rows[1:])
    assert all(f"- *{row.split('|')[1].strip()}*: " in done.stdout for row in rows[1:])


@pytest.mark.slow
def test_the_table_of_what_libraries_say_is_made(at_night):
    """One pipeline, by loaderkit alone: the run and the experiments each name a limit."""
    table = visibility_table.run(set(), smoke=True, say=lambda line: None)
    assert table.startswith("## decode-bound\n")
    assert table.count("Limit: ") == 2 and "Reads alone make" in table
    assert "### grain" not in table


def test_the_table_of_orders_is_made_and_the_guide_has_its_rows():
    """The smoke table has a row for each order; the guide's table has the same head and orders."""
    table = chunk_order.run(repeats=1, smoke=True, say=lambda line: None)
    page = (ROOT / "docs/guide.md").read_text()
    assert all(line in table and line in page for line in chunk_order.HEAD)
    for order in chunk_order.ORDERS:
        assert f"\n| {order.name} | " in table and f"\n| {order.name} | " in page


def test_the_table_of_growth_is_made_and_the_page_has_its_rows():
    """Every size has a row with all figures; the page's table has the rows of the full sizes."""
    table = growth.run(repeats=1, smoke=True, say=lambda line: None)
    page = (ROOT / "docs/performance.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert rows[0] in page and len(rows) == 11
    assert all(row.count("(") == 6 for row in rows[1:])
    for name in ("records", "hosts", "components of a mixture", "shards of an index"):
        assert page.count(f"\n| {name}: ") == 3


def test_augmentations_are_compared():
    """Every row has a time of ours, and none of peers that weren't asked for; the page has the rows."""
    table = augment.run(set(), repeats=1, smoke=True, say=lambda line: None)
    page = (ROOT / "docs/images.md").read_text()
    for name in augment.ours():
        assert f"\n| {name} | " in table and f"\n| {name} | " in page


@pytest.mark.parametrize(
    "order", [chunk_order.ORDERS[2], chunk_order.ORDERS[5]], ids=lambda order: order.name
)
def test_the_guide_has_what_is_measured(order):
    """One epoch of one order: the ratio of one step within 5 percent, chunks and reads to the digit."""
    page = (ROOT / "docs/guide.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {order.name} | "))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    (keys,), full = order.epochs(chunk_order.STEPS, 1), chunk_order.FULL.epochs(chunk_order.STEPS, 1)
    ratio = chunk_order.mixing([keys], 1) / chunk_order.mixing(full, 1)
    assert ratio == pytest.approx(float(cells[1]), rel=0.05)
    assert f"{chunk_order.reads(keys, order.chunk):.2f}" == cells[6]


def test_names_are_unique_and_comparisons_speak_of_contenders_that_exist():
    """Every comparison names contenders that exist, so no ratio is missing."""
    names = [benchmark.name for name in NAMES for benchmark in benchmarks_of(name)]
    assert len(set(names)) == len(names)
    for name in NAMES:
        for benchmark in benchmarks_of(name):
            contenders = [contender.name for contender in benchmark.contenders]
            assert len(set(contenders)) == len(contenders)
            everything = Everything(contenders)
            for comparison in benchmark.comparisons:
                assert comparison.value(everything) is not None


class Everything(dict):
    """A round in which each contender has every metric, at 1."""

    def __init__(self, contenders):
        super().__init__({name: Ones() for name in contenders})


class Ones(dict):
    def __missing__(self, metric):
        return 1.0


def rounds(*pairs):
    return [{"loaderkit, 0 workers": {PER_SECOND: a}, "torch, 0 workers": {PER_SECOND: b}} for a, b in pairs]


def test_ratios_are_taken_inside_a_round():
    """Both were ten times slower in the second round: the ratio of each round is the same."""
    comparison = speedup(ours(), *torch(0), bound=Bound(">=", 2.0))
    summary = summarised(comparison, rounds((30, 10), (3, 1), (40, 10)))
    assert summary.values == (3.0, 3.0, 4.0)
    assert summary.median == 3.0 and summary.interval == (3.0, 4.0)


@pytest.mark.parametrize(("count", "inset"), [(1, 0), (5, 0), (7, 0), (8, 1), (11, 2)])
def test_the_interval_leaves_out_as_much_as_90_percent_confidence_allows(count, inset):
    """The order statistics that hold the median with at least 90%; all values where there are few."""
    values = [float(k) for k in range(1, count + 1)]
    summary = summarised(speedup(ours(), *torch(0)), rounds(*((value, 1.0) for value in values)))
    assert summary.interval == (values[inset], values[-1 - inset])


def test_a_round_without_one_of_the_two_gives_no_ratio():
    """A contender that failed leaves the ratios of the other rounds as they are."""
    comparison = speedup(ours(), *torch(0))
    partial = [*rounds((30, 10)), {"loaderkit, 0 workers": {PER_SECOND: 1.0}}]
    assert summarised(comparison, partial).values == (3.0,)
    assert summarised(comparison, partial[1:]) is None


def test_the_best_of_several_counts_in_each_round():
    """Beside a family of settings, each round compares with the fastest of them, present ones only."""
    tuned = grain_tuned(0)
    comparison = speedup(ours(), *tuned, best_of="the best")
    results = {"loaderkit, 0 workers": {PER_SECOND: 12.0}}
    results |= {contender.name: {PER_SECOND: rate} for contender, rate in zip(tuned[:2], (2.0, 4.0))}
    assert comparison.value(results) == 3.0


def test_different_worker_counts_are_said():
    """A comparison of 0 workers with 2 says so."""
    assert "worker counts differ" in speedup(ours(2), *torch(0)).label
    assert "worker counts differ" not in speedup(ours(2), *torch(2)).label


def test_rows_where_a_peer_is_ahead_are_listed():
    """The last table names each comparison that a peer wins, and no other."""
    (benchmark,) = (b for b in benchmarks_of("small") if b.name == "small")
    outcome = Outcome("small", benchmark, rounds((30, 40), (31, 40)))
    assert "loaderkit, 0 workers / torch, 0 workers" in ahead([outcome])
    assert "peer ahead" in of_outcome(outcome)
    outcome.rounds[:] = rounds((50, 40))
    assert "In no comparison of this run" in ahead([outcome])
    assert "peer ahead" not in of_outcome(outcome)


@pytest.mark.slow
def test_earlier_figures_make_one_table(smoke):
    """What `--json` wrote becomes the comparisons that were printed."""
    figures, printed = smoke
    table = of_all([outcome_of(entry) for entry in figures])
    rows = [line.split("|") for line in table.splitlines()[2:]]
    assert len(rows) == sum(len(entry["comparisons"]) for entry in figures) > 0
    assert {row[1].strip() for row in rows} == {entry["name"] for entry in figures if entry["comparisons"]}
    assert all(row[2].strip() in printed for row in rows)


def test_the_table_of_the_readme_is_what_its_figures_say():
    """`python -m benchmarks.report` changes nothing; figures of several commits, or of no commit, make no table."""
    text = README.read_text()
    assert with_report(text, kept()) == text
    other = {"versions": {"loaderkit": "0.1.0 (0123456)"}}
    changed = {"versions": {"loaderkit": "0.1.0 (0123456-dirty)"}}
    for documents in ([*kept(), other], [changed], []):
        with pytest.raises(ValueError, match="of one commit"):
            with_report(BEGIN + END, documents)


def test_the_bound_of_a_crop_is_made(monkeypatch):
    """Shares of one operation: what lies outside a crop is a part of the decoding, and skipping it gains."""
    pytest.importorskip("simplejpeg")
    times = itertools.cycle([10.0, 8.0, 6.0])  # the operation, its decoding, that at 1/8
    monkeypatch.setattr(crop_bound, "_least", lambda run, repeats: (run(), next(times))[1])
    table = crop_bound.run(repeats=2, smoke=True, say=lambda line: None)
    rows = dict(line.strip("| ").split(" | ")[:2] for line in table.splitlines() if line.startswith("| "))
    share = {name: float(rows[name]) for name in crop_bound.COLUMNS}
    assert (share["operation, us"], share["decoding"], share["codes, at most"]) == (10, 0.8, 0.6)
    assert 0 < share["outside, about"] < 0.2 and 1 < share["gain, about"] < 1.25
