"""The bins of the packers beside naive ones, which look at every bin."""

from hypothesis import given
from hypothesis import strategies as st

from loaderkit.interop.grain.dataset.in_order.bins import BestFit, FirstFit

CELLS = 8
DOCUMENTS = st.integers(1, 3).flatmap(
    lambda features: st.lists(st.tuples(*[st.integers(0, CELLS + 1)] * features), min_size=1, max_size=40)
)


def naive_rows(kind, documents, bins, most, alignment):
    """The bin of each document, by looking at all of them."""
    starts = [[0] * len(documents[0]) for _ in range(bins)]
    counts, rows = [0] * bins, []
    for needs in documents:
        may = [
            number
            for number in range(bins)
            if all(start + need <= CELLS for start, need in zip(starts[number], needs, strict=True))
            and (most is None or counts[number] < most)
        ]
        if not may:
            rows.append(None)
            continue
        chosen = may[0] if kind is FirstFit else max(may, key=lambda number: sum(starts[number]))
        counts[chosen] += 1
        taken = [-(-need // alignment) * alignment for need in needs]
        starts[chosen] = [start + each for start, each in zip(starts[chosen], taken, strict=True)]
        rows.append(chosen)
    return rows


@given(
    st.sampled_from([FirstFit, BestFit]),
    DOCUMENTS,
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(1, 4)),
    st.integers(1, 3),
)
def test_a_document_goes_where_a_look_at_all_bins_finds_the_place(kind, documents, bins, most, alignment):
    """For any lengths, several features, limits and alignments; documents that fit nowhere are in no bin."""
    if (
        kind is BestFit and most is not None
    ):  # where Grain lets empty documents go on into a bin of empty ones
        documents = [tuple(need or 1 for need in needs) for needs in documents]
    packer = kind(bins, [CELLS] * len(documents[0]), most)
    rows = [packer.put(needs, [-(-need // alignment) * alignment for need in needs]) for needs in documents]
    assert rows == naive_rows(kind, documents, bins, most, alignment)
