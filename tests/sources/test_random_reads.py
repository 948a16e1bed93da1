"""Which of the sources of a concatenation are asked whether they may be read at random."""

import sys

import hypothesis.strategies as st
from hypothesis import given

import loaderkit as lk
from loaderkit.sources.random_reads import check_random_reads


class Asked(list):
    """Records of a source that is asked."""

    asked = False

    def check_random_reads(self):
        self.asked = True


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=5),
)
def test_a_source_is_asked_if_one_of_its_keys_is_read_at_random(sizes, parts):
    """The parts may overlap, touch, be empty, and lie in any order."""
    sources = [Asked(range(size)) for size in sizes]
    parts = [range(begin, begin + length) for begin, length in parts]
    check_random_reads(lk.ConcatDataSource(sources), parts)
    start = 0
    for source in sources:
        keys = range(start, start + len(source))
        assert source.asked == any(key in part for part in parts for key in keys)
        start = keys.stop


def calls_to_open(components: int) -> int:
    names = [f"corpus{number}" for number in range(components)]
    count = 0

    def counting(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        source = lk.ConcatDataSource([lk.RangeDataSource(0, 100, 1) for _ in names])
        sampler = lk.samplers.MixedSampler(
            {
                name: lk.IndexSampler(100, shuffle=number % 2 == 0, seed=number, num_epochs=None)
                for number, name in enumerate(names)
            },
            weights={name: 1 + number % 7 for number, name in enumerate(names)},
        )
        with iter(lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(8)])) as it:
            it.set_state(it.get_state())
    finally:
        sys.setprofile(None)
    return count


def test_each_component_of_a_mixture_costs_the_same():
    """Eight times the components take at most eight times the function calls to open, save and restore."""
    calls_to_open(2)  # imports
    assert calls_to_open(400) < 8 * calls_to_open(50)
