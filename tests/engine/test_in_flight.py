"""Losses at a task: counted where they happened, also where what was read instead of a bad record is to blame."""

from engine_values import read_rows, read_stream, stream_read, whole

from loaderkit._engine.in_flight import InFlightTask, before


def losing(*places: tuple[int, tuple[int, int] | None]) -> tuple[InFlightTask, list[bool]]:
    """A task of records 20..29, keys 120..129, whose workers were lost there; each time whether it is done again."""
    in_flight = InFlightTask(0, read_rows(range(20, 30)))
    lost = [(None, None), *places]
    return in_flight, [in_flight.lose("SIGSEGV", *at, max_restarts=1, retry=True, late=False) for at in lost]


def test_the_record_read_instead_is_named_with_the_row_that_needed_it():
    """The second loss, at a candidate, is the end: its key, and the row's index."""
    in_flight, again = losing((23, (41, 141)))
    assert again == [True, False]
    assert in_flight.error is not None
    assert (in_flight.error.indices, in_flight.error.record_keys) == ((23,), (141,))
    assert "at index 41 (record_key 141), read instead of index 23 (record_key 123), which is bad" in str(
        in_flight.error
    )


def test_losses_at_other_records_read_for_one_row_are_no_row_of_losses():
    """Each of them may have been bad luck."""
    in_flight, again = losing((23, None), (23, (41, 141)), (23, (42, 142)))
    assert again[0] and not again[1]
    in_flight, again = losing()
    assert [
        in_flight.lose("SIGSEGV", *at, max_restarts=2, retry=True, late=False)
        for at in ((23, None), (23, (41, 141)), (23, (42, 142)), (23, (42, 142)))
    ] == [True, True, True, True]
    assert not in_flight.lose("SIGSEGV", 23, (42, 142), max_restarts=2, retry=True, late=False)
    assert in_flight.error is not None and in_flight.error.record_keys == (142,)


def test_what_is_left_of_a_task_that_was_given_up_is_forgiven_losses_of_its_own():
    """The records before the one that kills are innocent: a kill from outside meanwhile doesn't lose them."""
    in_flight = InFlightTask(0, read_stream(range(20, 30)))
    for at in (None, 29, 28, 27, 26, 25, 24, 23):  # four times as many as are forgiven at one record
        assert in_flight.lose("SIGKILL", at, max_restarts=2, retry=True, late=False)
    assert in_flight.error is None
    assert in_flight.lose("SIGKILL", 22, max_restarts=2, retry=True, late=False)
    assert in_flight.error is not None and in_flight.to_do().indices.tolist() == [20, 21]
    assert in_flight.lose("SIGKILL", 21, max_restarts=2, retry=True, late=False)
    assert in_flight.to_do().indices.tolist() == [20, 21]


def test_an_error_before_that_of_the_lost_workers_comes_first():
    """The records before the one that kills are done once more: what one of them raises now is the task's error."""
    in_flight = InFlightTask(0, read_stream(range(20, 30)))
    for at in (None, 23):
        assert in_flight.lose("SIGSEGV", at, max_restarts=1, retry=True, late=False)
    assert in_flight.to_do().indices.tolist() == [20, 21, 22]
    earlier = stream_read(None, None, 1, ValueError("record 21"))
    assert in_flight.completed(earlier) is earlier
    failure = in_flight.completed(stream_read(None, None, 3)).failure
    assert failure is not None and failure.error is in_flight.error is not None
    assert failure.indices == (23,)  # a state past the error leaves this record out


def test_what_comes_before_a_record_is_so_in_the_order_of_the_task():
    """Where a stream begins again, or steps of dealt records lie side by side, indices don't ascend."""
    task = read_rows([0, 2, 4, 1, 3, 5], whole(3), whole(3))
    assert [(before(task, index)[0].indices.tolist(), before(task, index)[1]) for index in (4, 1, 5)] == [
        ([], 0),
        ([0, 2, 4], 1),
        ([0, 2, 4], 1),
    ]
    wrapped = read_stream([98, 99, 0, 1])
    assert before(wrapped, 99)[0].indices.tolist() == [98]
    in_flight = InFlightTask(0, wrapped)
    assert [in_flight.lose("SIGSEGV", 99, max_restarts=1, retry=True, late=False) for _ in range(2)] == [
        True,
        True,
    ]
    assert in_flight.to_do().indices.tolist() == [98]
