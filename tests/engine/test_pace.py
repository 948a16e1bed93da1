"""Tasks are as long as the work in them asks for, never nothing, and what is ahead is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.pace import AHEAD_SECONDS, ALONE_SECONDS, TASK_SECONDS, Pace

TASKS = st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 100)), max_size=20)


@given(st.integers(0, 64), st.none() | st.integers(1, 100), TASKS, st.integers(1, 10**6), st.integers(0, 500))
def test_whatever_was_seen_a_task_has_rows_and_a_worker_two_tasks(workers, task_rows, tasks, batch, reads):
    """Work stays in both directions: an interval of 0 seconds or of an hour is no reason to stop."""
    pace = Pace(workers=workers, task_rows=task_rows, reads=reads)
    for rows, seconds in tasks:
        pace.saw(rows=rows, seconds=seconds)
    assert pace.rows(batch) >= 1
    assert pace.tasks_ahead() >= 2
    assert 0 <= pace.least_ahead(pace.rows(batch)) <= pace.rows_ahead(batch)
    assert workers == 0 or pace.least_ahead(pace.rows(batch)) >= workers * max(2 * pace.rows(batch), reads)


@given(st.integers(0, 8), TASKS, st.integers(1, 10**4), st.integers(0, 500), st.integers(1, 9))
def test_streams_that_share_a_pace_have_as_much_ahead_together_as_one_alone(
    workers, tasks, batch, reads, streams
):
    """Each new iterator would else make as much ahead as the first: memory without a bound."""
    whole = Pace(workers=workers, task_rows=None, reads=reads)
    share = whole.shared_by(streams)
    for rows, seconds in tasks:
        whole.saw(rows=rows, seconds=seconds)  # one mean: the share has it too
    assert share.rows(batch) == whole.rows(batch) and share.tasks_ahead() == whole.tasks_ahead()
    for all_of_it, part in (
        (whole.rows_ahead(batch), share.rows_ahead(batch)),
        (whole.least_ahead(batch), share.least_ahead(batch)),
    ):
        assert all_of_it <= streams * part < all_of_it + streams


@given(st.integers(1, 8), st.integers(1, 8), TASKS, st.integers(1, 10**4), st.integers(0, 500))
def test_another_number_of_workers_is_as_if_there_had_always_been_so_many(
    before, workers, tasks, batch, reads
):
    """For those that share the pace, too."""
    resized, fresh = (Pace(workers=count, task_rows=None, reads=reads) for count in (before, workers))
    share = resized.shared_by(3)
    for pace in (resized, fresh):
        for rows, seconds in tasks:
            pace.saw(rows=rows, seconds=seconds)
    resized.resize(workers)
    for mine, other in ((resized, fresh), (share, fresh.shared_by(3))):
        assert mine.rows(batch) == other.rows(batch)
        assert mine.rows_ahead(batch) == other.rows_ahead(batch)
        assert mine.least_ahead(batch) == other.least_ahead(batch)


@given(st.floats(1e-6, 1e-1), st.integers(1, 8))
def test_a_steady_pace_gives_tasks_of_the_wanted_length_and_enough_of_them(row_seconds, workers):
    pace = Pace(workers=workers, task_rows=None)
    for _ in range(5):
        pace.saw(rows=10, seconds=10 * row_seconds)
    task_seconds = pace.rows(1) * row_seconds
    assert pace.rows(1) == 1 or TASK_SECONDS / 2 < task_seconds <= TASK_SECONDS * (1 + 1e-9)
    assert pace.tasks_ahead() * task_seconds >= AHEAD_SECONDS * (1 - 1e-9)
    assert pace.tasks_ahead() == 2 or (pace.tasks_ahead() - 1) * task_seconds < AHEAD_SECONDS * (1 + 1e-9)


def test_a_task_that_nobody_did_says_nothing_of_the_time():
    """As where its worker died: else the next ones would have millions of rows, or a fifth more than is right."""
    pace = Pace(workers=2, task_rows=None)
    pace.saw(rows=8, seconds=0.0)
    assert pace.rows(256) == 64
    pace.saw(rows=100, seconds=0.1)
    pace.saw(rows=8, seconds=0.0)
    assert pace.rows(256) == 16


def test_a_fixed_number_of_rows_stays():
    pace = Pace(workers=2, task_rows=7)
    pace.saw(rows=7, seconds=100.0)
    assert pace.rows(256) == 7


def test_before_anything_is_known_a_batch_is_all_that_the_workers_have():
    """The first batch comes as early as can be: no worker has a row of the next one before its rows are joined."""
    paces = [Pace(workers=workers, task_rows=None) for workers in (1, 2, 3)]
    assert [pace.rows(256) for pace in paces] == [256, 64, 43]
    assert [pace.rows_ahead(256) for pace in paces[1:]] == [256, 258]


def test_the_trainer_alone_makes_whole_batches_and_more_of_cheap_rows():
    pace = Pace(workers=0, task_rows=None)
    assert pace.rows(256) == 256
    pace.saw(rows=1, seconds=1.0)
    assert pace.rows(256) == 256
    assert pace.rows_ahead(256) == 256
    for _ in range(100):
        pace.saw(rows=1, seconds=ALONE_SECONDS / 1000)
    assert pace.rows(256) in (999, 1000)


def test_the_mean_follows_a_change():
    pace = Pace(workers=1, task_rows=None)
    pace.saw(rows=1, seconds=TASK_SECONDS / 100)
    rows = [pace.rows(1)]
    for _ in range(20):
        pace.saw(rows=1, seconds=TASK_SECONDS / 10)
        rows.append(pace.rows(1))
    assert rows == sorted(rows, reverse=True)
    assert rows[0] in (99, 100)
    assert 10 <= rows[-1] <= 11


def test_reads_in_flight_need_rows_ahead():
    pace = Pace(workers=1, task_rows=4, reads=64)
    assert pace.tasks_ahead() * pace.rows(1) >= 64


@given(st.integers(1, 8), st.integers(1, 512), st.integers(0, 2000), st.integers(0, 9))
def test_a_worker_has_two_tasks_before_a_pace_is_known(workers, batch, reads, calls):
    """64 reads in flight made 256 tasks of the first batch's size: 17,000 rows were read before it came."""
    pace = Pace(workers=workers, task_rows=None, reads=reads, calls=calls if reads else 0)
    assert pace.tasks_ahead() == 2
    begun = workers * pace.tasks_ahead() * pace.rows(batch)
    assert begun == 2 * batch if workers == 1 else batch <= begun < batch + 2 * workers
    pace.saw(rows=pace.rows(batch), seconds=0.001)
    assert calls or pace.tasks_ahead() * pace.rows(batch) >= reads


def test_bulk_reads_in_flight_need_tasks_ahead():
    """One task for each, and the one that is being done; no more than the buffer has room for."""
    for rows, tasks in ((4, 6), (100, 6), (250, 3), (1000, 2)):
        pace = Pace(workers=2, task_rows=rows, reads=500, calls=5, in_bulk=True)
        assert pace.tasks_ahead() == tasks
        assert pace.least_ahead(rows) == 2 * tasks * rows <= pace.rows_ahead(rows)
        alone = Pace(workers=0, task_rows=rows, reads=500, calls=5, in_bulk=True)
        # Half of a window that was full still has as many.
        assert alone.rows_ahead(rows) // 2 >= (tasks - 1) * rows


@given(st.integers(0, 3), st.booleans(), st.floats(1e-7, 1), st.floats(0, 1), st.integers(1, 512))
def test_waiting_is_no_work_but_makes_no_endless_tasks(workers, in_bulk, row_work, row_wait, batch):
    """A task has the rows for its work, at most those that last for 8 times as long, or a few of a bulk read."""
    pace = Pace(workers=workers, task_rows=None, in_bulk=in_bulk)
    for _ in range(3):
        pace.saw(rows=10, seconds=10 * (row_work + row_wait), waited=10 * row_wait)
    seconds = TASK_SECONDS if workers else ALONE_SECONDS
    rows, least = pace.rows(batch), 1 if workers else batch
    assert rows == least or rows * row_work <= seconds * (1 + 1e-6)
    short = rows * (row_work + row_wait) <= 8 * seconds * (1 + 1e-6)
    assert rows == least or short or (in_bulk and rows <= 16)
    assert not in_bulk or rows >= 16 or (rows + 1) * row_work > seconds * (1 - 1e-6)


def test_a_source_that_only_waits_keeps_tasks_of_a_useful_size():
    """Calls of 20 ms whatever their size: rows grow to what lasts for the work, instead of falling to one."""
    pace = Pace(workers=2, task_rows=None, in_bulk=True)
    rows = pace.rows(64)
    for _ in range(30):
        pace.saw(rows=rows, seconds=0.02 + rows * 1e-5, waited=0.02)
        rows = pace.rows(64)
    assert rows > 1000
