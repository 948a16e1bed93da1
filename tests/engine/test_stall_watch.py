"""For how long a worker gave no sign of life, by a clock that only runs while the trainer looks."""

from loaderkit._engine.stall_watch import StallWatch


def looks(watch, start, signs, count, starting=()):
    """So many looks, one interval apart; what each of them reports."""
    return [watch.look(start + n * watch.interval, signs, starting) for n in range(count)]


def reported(*arguments, **options):
    """All that so many looks report."""
    return [stall for report in looks(*arguments, **options) for stall in report]


def test_a_stall_is_reported_once():
    """After `warn` seconds, with as many as have passed; without a limit it is never over."""
    watch = StallWatch(warn=8.0, limit=None)
    reports = looks(watch, 0.0, {1: "task 7"}, 100)
    (stall,) = (stall for report in reports for stall in report)
    assert reports.index([stall]) == 8 and (stall.worker, stall.seconds, stall.too_long) == (1, 8.0, False)


def test_a_sign_of_life_begins_a_new_count():
    """The next stall is reported as the first was; a worker that has nothing to do is forgotten."""
    watch = StallWatch(warn=8.0, limit=None)
    assert len(reported(watch, 0.0, {1: "task 7"}, 20)) == 1
    assert reported(watch, 20.0, {1: "task 8"}, 8) == []
    assert len(reported(watch, 28.0, {1: "task 8"}, 20)) == 1
    assert reported(watch, 48.0, {}, 1) == []
    assert reported(watch, 49.0, {1: "task 8"}, 8) == []


def test_time_in_which_the_trainer_stood_still_doesnt_count():
    """An hour between two looks is no more than two intervals of them."""
    watch = StallWatch(warn=8.0, limit=4.0)
    assert looks(watch, 0.0, {1: "task 7"}, 2) == [[], []]
    assert watch.look(3600.0, {1: "task 7"}) == []
    assert watch._seen[1].seconds == 3 * watch.interval


def test_beyond_the_limit_it_is_over_at_every_look():
    """Until it is dealt with; reaching the limit is enough."""
    watch = StallWatch(warn=8.0, limit=4.0)
    reports = looks(watch, 0.0, {1: "task 7"}, 12)
    assert [[stall.too_long for stall in report] for report in reports] == [[]] * 8 + [[True]] * 4
    assert reports[8][0].seconds == 4.0


def test_a_worker_that_starts_has_as_long_as_a_warning_takes():
    """However short the limit; a limit that is longer holds for it too."""
    watch = StallWatch(warn=8.0, limit=1.0)
    signs = {1: "starts", 2: "task 7"}
    reports = looks(watch, 0.0, signs, 65, starting={1})
    assert {stall.worker for report in reports[:64] for stall in report} == {2}
    assert [(stall.worker, stall.too_long) for stall in reports[64]] == [(1, True), (2, True)]
    longer = StallWatch(warn=8.0, limit=12.0)
    assert not any(stall.too_long for stall in reported(longer, 0.0, signs, 12, starting={1}))


def test_a_look_is_due_an_interval_after_the_last():
    """Eight of them fit in the shorter of both times."""
    watch = StallWatch(warn=8.0, limit=4.0)
    assert watch.interval == 0.5 and watch.due(0.0)
    watch.look(10.0, {})
    assert not watch.due(10.49) and watch.due(10.5)
