"""Every step keeps its indices through any history of resizes, skips and seeks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._plan.segments import Segments
from loaderkit.errors import StateError

EXAMPLE = Segments(((0, 0, 256), (100, 25600, 512), (150, 52736, 512)))

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 20)),
        st.tuples(st.just("skip"), st.integers(0, 5)),
        st.tuples(st.just("resize"), st.integers(1, 9)),
        st.tuples(st.just("seek"), st.integers(0, 100)),
    ),
    max_size=30,
)


def test_the_example_of_a_resize_and_a_skip() -> None:
    """A resize at step 100 and skip(3) at step 150 give these segments; seek finds each step by them."""
    segments = Segments(((0, 0, 256),)).resize(100, 25600, 512)
    segments = segments.skip(150, segments.index_of(150), 3)
    assert segments == EXAMPLE
    assert segments.seek(120, 512) == 35840
    assert segments.seek(150, 512) == 52736
    with pytest.raises(ValueError, match="step 50 takes 256 indices, this loader's steps 512"):
        segments.seek(50, 512)
    assert segments.span_of(50) == (12800, 256)


@given(ACTIONS)
def test_a_step_keeps_its_index_through_any_history(actions: list[tuple[str, int]]) -> None:
    """The segments give the indices that a step delivered, until a skip or resize replaces it."""
    segments, step, stride = Segments(((0, 0, 4),)), 0, 4
    delivered: dict[int, tuple[int, int]] = {}
    for action, number in actions:
        if action == "deliver":
            for _ in range(number):
                span = segments.span_of(step)
                if span[1] != stride:
                    break  # a segment of another batch size: a loader stops here with an error
                assert delivered.setdefault(step, span) == span
                step += 1
        elif action == "skip" and segments.stride_of(step) == stride:
            index = segments.index_of(step)
            segments = segments.skip(step, index, number)
            assert segments.index_of(step) == index + number * stride
            if number:
                delivered = {t: span for t, span in delivered.items() if t < step}
        elif action == "resize":
            index, stride = segments.index_of(step), number
            segments = segments.resize(step, index, stride)
            assert segments.span_of(step) == (index, stride)
            delivered = {t: span for t, span in delivered.items() if t < step}
        elif action == "seek" and segments.stride_of(number) == stride:
            before = segments
            assert segments.seek(number, stride) == segments.index_of(number)
            assert segments == before
            step = number
        assert all(segments.span_of(t) == span for t, span in delivered.items())
        assert Segments.from_json(segments.to_json()) == segments


@given(ACTIONS, st.integers(0, 300))
def test_lookup_equals_a_walk_over_the_entries(actions: list[tuple[str, int]], step: int) -> None:
    """span_of equals walking from entry to entry, for segments of any history."""
    segments, now = Segments(((0, 0, 4),)), 0
    for action, number in actions:
        if action == "skip":
            segments = segments.skip(now, segments.index_of(now), number)
        elif action == "resize":
            segments = segments.resize(now, segments.index_of(now), number)
        now += number
    first_step, first_index, stride = next(e for e in reversed(segments.entries) if e.first_step <= step)
    assert first_index is not None
    assert segments.span_of(step) == (first_index + (step - first_step) * stride, stride)
    assert segments.end_of(step) == next(
        (e.first_step for e in segments.entries if e.first_step > step), None
    )


@pytest.mark.parametrize(("step", "end"), [(0, 100), (99, 100), (100, 150), (149, 150), (150, None)])
def test_a_segment_ends_where_the_next_one_starts(step: int, end: int | None) -> None:
    """This holds after a seek back, too, with several later segments."""
    assert EXAMPLE.end_of(step) == end


def test_a_new_segment_replaces_those_that_start_later() -> None:
    """After going back to step 120, a skip there drops the one that was made at step 150, and keeps 100's."""
    assert EXAMPLE.skip(120, 35840, 1).to_json() == [[0, 0, 256], [100, 25600, 512], [120, 36352, 512]]
    assert EXAMPLE.resize(100, 25600, 128).to_json() == [[0, 0, 256], [100, 25600, 128]]
    assert EXAMPLE.resize(0, 0, 32).to_json() == [[0, 0, 32]]


def test_skipping_nothing_changes_nothing() -> None:
    """skip(0) is the same value, and so keeps the later segments."""
    assert EXAMPLE.skip(120, 35840, 0) is EXAMPLE


def test_without_known_rows_only_the_number_of_indices_is_known() -> None:
    """Where operations change the number of rows, resizes are kept, and asking for an index says why not."""
    segments = Segments(((0, None, 256),)).resize(100, None, 512)
    assert not segments.computable
    assert segments.to_json() == [[0, None, 256], [100, None, 512]]
    assert [segments.stride_of(step) for step in (0, 99, 100, 10**9)] == [256, 256, 512, 512]
    for ask in (
        lambda: segments.index_of(3),
        lambda: segments.seek(3, 256),
        lambda: segments.skip(3, 0, 1),
    ):
        with pytest.raises(ValueError, match="an operation changes the number of rows"):
            ask()


@pytest.mark.parametrize("step", [-1, 2**63, 10**40])
def test_a_step_that_cannot_be_is_an_index_error(step: int) -> None:
    """A negative step, and one whose index would be past 2**63, are index errors."""
    with pytest.raises(IndexError, match="step: "):
        EXAMPLE.index_of(step)


def test_skips_that_cannot_be_are_refused() -> None:
    """A negative number points to seek; one past the end of all indices is an index error."""
    with pytest.raises(ValueError, match=r"skip: expected 0 or more steps, got -1; seek\(step\) goes back"):
        EXAMPLE.skip(200, 78336, -1)
    with pytest.raises(IndexError, match=r"skip: .* past 2\*\*63"):
        EXAMPLE.skip(200, 78336, 2**62)


MALFORMED: list[tuple[object, str]] = [
    (None, "segments: expected a list"),
    ({}, "segments: expected a list"),
    ([], "segments: expected one or more"),
    ([[0, 0]], r"segments\[0\]: expected \[first_step"),
    ([[0, 0, 4], 7], r"segments\[1\]: expected \[first_step"),
    ([[1, 0, 4]], r"segments\[0\].first_step: expected 0, got 1"),
    ([[0, 0, 0]], r"segments\[0\].stride: expected an int from 1"),
    ([[0, -1, 4]], r"segments\[0\].first_index: expected an int from 0"),
    ([[0, 2**63, 4]], r"segments\[0\].first_index: expected an int from 0 to 2\*\*63 - 1"),
    ([[0, 0, 4.0]], r"segments\[0\].stride: .* got 4.0"),
    ([[False, 0, 4]], r"segments\[0\].first_step: .* got False"),
    ([[None, 0, 4]], r"segments\[0\].first_step: .* got None"),
    ([[0, "0", 4]], r"segments\[0\].first_index: .* got '0'"),
    ([[0, 0, 4], [0, 8, 4]], r"segments\[1\].first_step: expected more than 0"),
    ([[0, 8, 4], [2, 7, 4]], r"segments\[1\].first_index: expected 8 or more, got 7"),
    ([[0, None, 4], [2, 7, 4]], r"segments\[1\].first_index: expected null in all segments or in none"),
]


@pytest.mark.parametrize(("value", "text"), MALFORMED)
def test_malformed_segments_are_refused_by_place(value: object, text: str) -> None:
    """A document's segments that can't be are a StateError which names the entry and its field."""
    with pytest.raises(StateError, match=text):
        Segments.from_json(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_reading_segments_raises_nothing_but_a_state_error(value: object) -> None:
    """Any value in a document gives segments or a StateError."""
    read: object
    try:
        read, problem = Segments.from_json(value).to_json(), ""
    except StateError as error:
        read, problem = value, str(error)
    assert read == value
    assert problem.startswith("segments") or not problem
