"""What steps in order refuse, where they differ from Grain, and the thread that makes elements ahead."""

import threading
from itertools import islice

import numpy as np
import pytest

import loaderkit.interop.grain as grain
from loaderkit.interop.grain.dataset.in_order.elements import FilterIterDataset
from loaderkit.testing import check_iter_dataset

experimental = grain.experimental


def documents(*lengths):
    values = [{"a": np.arange(1, length + 1, dtype=np.int32)} for length in lengths]
    return grain.MapDataset.source(values).to_iter_dataset()


def numbers(count):
    return grain.MapDataset.range(count).to_iter_dataset()


def first_fit(ds, **more):
    return experimental.FirstFitPackIterDataset(
        ds, **{"length_struct": {"a": 4}, "num_packing_bins": 2, "shuffle_bins": False, **more}
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: experimental.LimitIterDataset(numbers(3), 0), "count: expected"),
        (lambda: experimental.RebatchIterDataset(numbers(3), 0), "batch_size: expected"),
        (lambda: experimental.RepeatIterDataset(numbers(3), 0), "num_epochs: expected"),
        (lambda: experimental.WindowShuffleIterDataset(numbers(3), window_size=0, seed=1), "window_size: expected"),
        (lambda: experimental.InterleaveIterDataset([numbers(3)], cycle_length=0), "cycle_length: expected"),
        (lambda: experimental.ThreadPrefetchIterDataset(numbers(3), prefetch_buffer_size=-1), "prefetch_buffer_size"),
        (lambda: experimental.ZipIterDataset([]), "parents: expected one"),
        (lambda: grain.IterDataset.mix([numbers(3), numbers(3)], [1, 0]), "weights: expected one other"),
        (lambda: grain.IterDataset.mix([numbers(3), numbers(3)], [1]), "weights: expected one other than 0"),
        (lambda: numbers(3).filter(bool).random_map(max), "requires a seed"),
        (lambda: first_fit(documents(1), max_sequences_per_bin=0), "max_sequences_per_bin: expected"),
        (lambda: first_fit(documents(1), length_struct={"a": 0}), r"length_struct\['a'\]: expected"),
        (
            lambda: experimental.ConcatThenSplitIterDataset(documents(1), length_struct={"a": 4}, bos_token_id=1),
            "bos_token_id, bos_features: expected with bos_handling",
        ),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_refused_where_they_are_written(made, message):
    """At the line of the step, with the argument, what was expected and what came."""
    with pytest.raises(ValueError, match=message):
        made()


def test_a_document_that_no_row_has_room_for_is_refused():
    """With its feature and both numbers; the rows before it and behind it aren't lost."""
    for packer in (experimental.FirstFitPackIterDataset, experimental.BestFitPackIterDataset):
        iterator = iter(
            packer(documents(2, 5, 3), length_struct={"a": 4}, num_packing_bins=2, shuffle_bins=False)
        )
        with pytest.raises(ValueError, match="'a': expected at most 4 tokens, as length_struct says, got 5"):
            next(iterator)
        assert [row["a"].tolist() for row in iterator] == [[1, 2, 0, 0], [1, 2, 3, 0]]


def test_a_document_of_other_kind_is_refused():
    """Lists, other features, and a meta feature that is longer than its row."""
    with pytest.raises(TypeError, match="'a': expected an array or a number, got "):
        next(iter(first_fit(numbers(1).map(lambda x: {"a": [1, 2]}))))
    concat = experimental.ConcatThenSplitIterDataset
    with pytest.raises(ValueError, match=r"expected documents with the features \['b'\]"):
        next(iter(concat(documents(2), length_struct={"b": 4})))
    with pytest.raises(ValueError, match=r"meta_features: expected .* got a document with {'a': 5}"):
        next(iter(concat(documents(5), length_struct={"a": 4}, meta_features=["a"])))


def test_a_document_cut_twice_beside_a_whole_one_is_said():
    """Grain's rows lose or repeat its tokens then, and so do these: not in silence."""
    values = [{"a": np.arange(9), "b": np.arange(n)} for n in (3, 2)]
    ds = experimental.ConcatThenSplitIterDataset(
        grain.MapDataset.source(values).to_iter_dataset(), length_struct={"a": 4, "b": 4}
    )
    with pytest.warns(UserWarning, match="lose or repeat tokens"):
        list(islice(ds, 9))


def test_an_empty_data_set_is_not_repeated_without_end():
    """A named error, where Grain doesn't come back."""
    with pytest.raises(ValueError, match="repeat without end, got an empty one"):
        next(iter(experimental.RepeatIterDataset(numbers(5).filter(lambda x: False))))


def test_interleaved_data_sets_are_repeated_exactly():
    """With states that go on, where Grain's second epoch has states of exhausted data sets."""
    interleaved = experimental.InterleaveIterDataset([numbers(3), numbers(2), numbers(4)], cycle_length=2)
    ds = experimental.RepeatIterDataset(interleaved, 2)
    elements = [int(each) for each in ds]
    assert elements == [0, 0, 1, 1, 2, 0, 1, 2, 3] * 2
    for place in range(len(elements) + 1):
        iterator = iter(ds)
        assert len([*islice(iterator, place)]) == place
        again = iter(ds)
        again.set_state(iterator.get_state())
        assert [int(each) for each in again] == elements[place:]


def test_rows_are_packed_again():
    """Any step may stand before a packer, and its states are exact."""
    cut = experimental.ConcatThenSplitIterDataset(documents(3, 6, 5, 4), length_struct={"a": 4})
    check_iter_dataset(first_fit(cut.map(lambda row: {"a": row["a"]}), length_struct={"a": 9}))
    check_iter_dataset(first_fit(cut, length_struct={"a": 9}))
    check_iter_dataset(first_fit(first_fit(documents(3, 1, 2, 4, 1)), length_struct={"a": 5}))


def test_a_state_of_another_number_of_streams_is_refused():
    """With both numbers."""
    state = iter(experimental.InterleaveIterDataset([numbers(3), numbers(2)], cycle_length=2)).get_state()
    iterator = iter(experimental.InterleaveIterDataset([numbers(3)] * 3, cycle_length=3))
    with pytest.raises(ValueError, match="expected one of 3 data sets or streams in turn, got one of 2"):
        iterator.set_state(state)


def test_concat_then_split_goes_on_from_a_state_that_was_json():
    """Lists in the place of tuples, which Grain takes for a rest of no tokens."""
    ds = experimental.ConcatThenSplitIterDataset(documents(3, 6, 5), length_struct={"a": 4})
    rows = [row["a"].tolist() for row in ds]
    iterator = iter(ds)
    iterator.set_state(
        {
            "parent_state": {"next_index": 0},
            "remainder_slices": {"a": [-1, -1]},
            "elements_from_buffer_after_checkpoint": 1,
        }
    )
    assert [row["a"].tolist() for row in iterator] == rows[1:]
    with pytest.raises(ValueError, match="a document that it doesn't have"):
        iterator.set_state(
            {**iterator.get_state(), "parent_state": {"next_index": 3}, "remainder_slices": {"a": [1, 2]}}
        )


# --- the thread -------------------------------------------------------------------------------------------------------


def in_thread(ds, size=2):
    return iter(experimental.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=size))


def kept(ds, function):
    """A data set of which no engine makes the elements."""
    return FilterIterDataset(experimental.WindowShuffleIterDataset(ds, window_size=1, seed=0), function)


def test_a_thread_makes_elements_ahead_and_states_are_those_of_what_was_given():
    """The element after next is made before it is asked for; a state says the one that was given last."""
    made = threading.Event()
    iterator = in_thread(kept(numbers(9), lambda x: made.set() is None if x == 1 else True))
    first = next(iterator)
    assert made.wait(60)
    other = in_thread(kept(numbers(9), lambda x: True), 0)
    other.set_state(iterator.get_state())
    assert [first, *other] == [*range(9)]
    iterator.close()
    iterator.close()


def test_an_error_of_the_thread_is_raised_in_its_turn():
    """After the elements before it; then the iterator goes on, as without a thread."""

    def keeps(x):
        if x == 2:
            raise RuntimeError("the third")
        return True

    iterator = in_thread(kept(numbers(4), keeps), 3)
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(RuntimeError, match="the third"):
        next(iterator)
    assert [*iterator] == [3]


def test_the_thread_ends_with_the_iterator():
    """At close, at a move, at the end, and with the last reference to an iterator that wasn't closed."""

    def threads():
        return [each for each in threading.enumerate() if each.name == "loaderkit-in-order"]

    iterator = in_thread(kept(numbers(9), lambda x: True))
    next(iterator)
    assert len(threads()) == 1
    iterator.set_state(iterator.get_state())
    assert not threads()
    assert next(iterator) == 1
    del iterator
    assert not threads()
