"""A state comes back as it was, from every version that ever wrote one, or an error names the field."""

import copy
import json
import pickle
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._base.canonical_json import digest
from loaderkit._order.exclusions import Begin, ExclusionStage
from loaderkit._order.mixture.stages import MixtureStage, MixtureStages
from loaderkit._plan.bad_records import BadRecords
from loaderkit._plan.ledger import Ledger
from loaderkit._plan.segments import Segments
from loaderkit._plan.state.document import dumps, loads
from loaderkit._plan.state.state import SavedStreams, State, merge
from loaderkit.errors import StateError

GOLDEN = Path(__file__).parents[1] / "golden" / "states"

SHUFFLED = State(
    step=163,
    cursors={0: (59392,)},
    segments=Segments(((0, 0, 256), (100, 25600, 512), (150, 52736, 512))),
    sampler={
        "kind": "IndexSampler",
        "num_records": 60000,
        "shuffle": True,
        "seed": 2**64 - 1,
        "num_epochs": None,
    },
    source={
        "kind": "declared",
        "files": ["train-00000-of-00002.array_record", "\udcffé.array_record"],
        "share": 0.5,
    },
    operations=["RandomMap(Augment)", {"op": "Batch", "inner": [[4, "keep"]]}],
    rows=128,
    stride=512,
    streams=None,
    epoch=None,
    versions={"loaderkit": "0.1.0", "numpy": "2.1.3", "python": "3.11.9"},
)
STREAMED = replace(
    SHUFFLED,
    step=3,
    cursors={0: (290, 2), 1: (311,), 10: (2**62, 0, 7)},
    segments=Segments(((0, None, 512),)),
    operations=[{"op": "Filter", "name": "long_enough"}, {"op": "FlatMap", "name": "Windows"}],
    streams=SavedStreams(16, 32, (0, 0, *([1] * 8), 0, *([1] * 5))),
)
EPOCH = replace(SHUFFLED, step=0, cursors={0: (120000,)}, segments=Segments(((0, 120000, 512),)), epoch=2)

LOSSY = replace(SHUFFLED, losses=BadRecords(Ledger({7: 8, 2**40: 0, 59391: 59400}), {}))
SKIPPED = replace(STREAMED, losses=BadRecords(Ledger({290: 290}), {0: 3, 10: 2**40}))

PARAMETERS = [
    {"op": "Map", "name": "decode"},
    {
        "op": "RandomMap",
        "name": "Crop",
        "parameters": {"size": [64, 96], "scale": 0.08, "fill": None, "key": "image"},
    },
    {"op": "Filter", "name": "<lambda>"},
    {"op": "Batch"},
]
NAMED = replace(SHUFFLED, parameters=PARAMETERS)
NAMED_LOSSY = replace(SKIPPED, parameters=[])
NAMED_REPLACED = replace(LOSSY, parameters=PARAMETERS, epoch=7)
STAGES = MixtureStages(
    (
        MixtureStage(0, {"web": Fraction(7, 10), "code": Fraction(3, 10)}),
        MixtureStage(1000, {"web": Fraction(1, 2), "books é": Fraction(2**80 + 1, 10**9)}),
        MixtureStage(1000, {"web": Fraction(1)}, live=True),
        MixtureStage(2**60, {"code": Fraction(10**30)}),
    ),
    known=2,
    taken={"web": 700, "code": 300},
)
MIXED = replace(NAMED, mixture=STAGES)
MIXED_STREAMS = replace(
    NAMED_LOSSY, mixture=MixtureStages((MixtureStage(0, {"web": Fraction(1)}),)), parameters=PARAMETERS
)
BITS = {"numpy": "0123456789abcdef", "libm": "00" * 8, "BLAS": "ff" * 8, "cv2": "é"}
NUMBERED = replace(NAMED, numerics=BITS)
NUMBERED_MIXED = replace(MIXED_STREAMS, numerics={"libm": "1"})

EXCLUDED = replace(
    NUMBERED,
    exclusions=(
        ExclusionStage(0, {"": ("0" * 64,)}, {"": Begin(0, 0, 0)}),
        ExclusionStage(59392, {"": ("0" * 64, "f" * 64)}, {"": Begin(59392, 2, 7)}),
    ),
)
EXCLUDED_MIXED = replace(
    MIXED_STREAMS,
    exclusions=(
        ExclusionStage(7, {"web": ("ab" * 32,)}, {"web": Begin(5, 0, 5)}),
        ExclusionStage(2**60, {}, {"web": Begin(2**40, 3, 0), "books é": Begin(0, 0, 0)}),
    ),
)

WRITTEN = {
    "format_1_shuffled": SHUFFLED,
    "format_1_streams": STREAMED,
    "format_1_epoch": EPOCH,
    "format_2_replaced": LOSSY,
    "format_2_skipped": SKIPPED,
    "format_3_named": NAMED,
    "format_3_skipped": NAMED_LOSSY,
    "format_3_replaced": NAMED_REPLACED,
    "format_4_mixture": MIXED,
    "format_4_streams": MIXED_STREAMS,
    "format_5_named": NUMBERED,
    "format_5_mixture": NUMBERED_MIXED,
    "format_6_excluded": EXCLUDED,
    "format_6_mixture": EXCLUDED_MIXED,
}


def test_many_stages_of_many_components_are_small() -> None:
    """Each stage says what it changes, in a state and in a pickle, which goes no deeper for more stages."""
    names = [f"component_{number:04}" for number in range(200)]
    stages = MixtureStages(
        (MixtureStage(0, {name: Fraction(place + 1, 7) for place, name in enumerate(names)}),)
    )
    for number in range(1, 400):
        last = dict(stages.entries[-1].weights)
        changes = {names[number * 7 % 200]: Fraction(number), names[number * 3 % 200]: Fraction(1, number)}
        stages = stages.reweighed(number, last | changes)
    document = dumps(replace(MIXED, mixture=stages))
    assert len(document) < 60_000
    read = loads(document).mixture
    assert read is not None and read.entries[-1].weights == stages.entries[-1].weights
    assert read.to_json() == stages.to_json() == pickle.loads(pickle.dumps(stages)).to_json()


COUNTS = st.integers(0, 2**40)
FINGERPRINTS = st.dictionaries(
    st.text(max_size=5), st.integers(0, 2**64 - 1) | st.text(max_size=5) | st.none(), max_size=3
)
OPERATIONS = st.lists(
    st.sampled_from(["Filter(f)", "RandomMap(g)"])
    | st.fixed_dictionaries({"op": st.just("Batch"), "inner": st.lists(COUNTS)}),
    max_size=3,
)


@st.composite
def states(draw: st.DrawFn) -> State:
    """Any state that an iterator could be in: both kinds of pipeline, any history of resizes."""
    count, rows_a_stream, group = (draw(st.integers(1, 5)) for _ in range(3))
    rows, stride = count * rows_a_stream, count * rows_a_stream * group
    streamed = draw(st.booleans())
    segments = Segments(((0, None if streamed else draw(COUNTS), draw(st.integers(1, 100))),))
    for first_step in sorted(draw(st.sets(st.integers(1, 1000), max_size=4))):
        index = None if streamed else segments.index_of(first_step) + draw(COUNTS)
        segments = segments.resize(first_step, index, draw(st.integers(1, 100)))
    step = draw(st.integers(segments.entries[-1].first_step, 2000))
    segments = segments.resize(step, None if streamed else segments.index_of(step), stride)
    own = draw(st.sets(st.integers(0, count - 1), min_size=1))
    cursor = st.lists(COUNTS, min_size=1, max_size=4).map(tuple)
    return State(
        step=step,
        cursors={s: draw(cursor) for s in own} if streamed else {0: (segments.index_of(step),)},
        segments=segments,
        sampler=draw(FINGERPRINTS),
        source=draw(FINGERPRINTS),
        operations=draw(OPERATIONS),
        rows=rows,
        stride=stride,
        streams=SavedStreams(count, rows_a_stream * group, tuple(draw(COUNTS) for _ in range(count)))
        if streamed
        else None,
        epoch=draw(st.none() | COUNTS),
        versions={name: draw(st.text(max_size=5)) for name in ("loaderkit", "numpy", "python")},
        losses=BadRecords(
            Ledger(draw(st.dictionaries(COUNTS, COUNTS, max_size=3))),
            draw(st.dictionaries(st.integers(0, count - 1), st.integers(1, 2**40))) if streamed else {},
        ),
        parameters=draw(
            st.none()
            | st.lists(
                st.builds(lambda p: {"op": "Map", "name": "f", "parameters": p}, FINGERPRINTS), max_size=3
            )
        ),
    )


def signed(document: dict[str, Any]) -> bytes:
    """The document as it would be written, with the digest that belongs to it."""
    return json.dumps({**document, "digest": digest(document)}).encode()


@given(states())
def test_what_is_dumped_is_loaded_again(state: State) -> None:
    """Every state comes back equal, and dumping it once more gives the same bytes."""
    data = dumps(state)
    again = loads(data)
    assert again == state
    assert not again.digest_missing
    assert dumps(again) == data
    assert loads(bytearray(data)) == loads(memoryview(data)) == state


@pytest.mark.parametrize("name", WRITTEN)
def test_states_of_every_released_format_load_for_ever(name: str) -> None:
    """The golden files were written by earlier versions; each means what it meant then."""
    assert loads((GOLDEN / f"{name}.json").read_bytes()) == WRITTEN[name]


def test_every_golden_file_has_its_meaning_here() -> None:
    """No golden file is left untested, and none that a test expects is missing."""
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == sorted(WRITTEN)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_layout_of_the_current_format_is_fixed(name: str) -> None:
    """A change of a byte in what is written needs a new golden file, so it can't happen unnoticed."""
    assert dumps(WRITTEN[name]) == (GOLDEN / f"{name}.json").read_bytes()


def test_a_state_is_the_same_bytes_in_whichever_order_bad_records_came() -> None:
    """Threads of the streams lose records in any order."""
    losses = BadRecords(Ledger({290: 290, 3: 3}), {10: 2**40, 0: 3})
    other = BadRecords(Ledger({3: 3, 290: 290}), {0: 3, 10: 2**40})
    assert dumps(replace(STREAMED, losses=losses)) == dumps(replace(STREAMED, losses=other))


def test_a_document_without_a_digest_is_taken_and_told() -> None:
    """Edited by hand with the digest removed: accepted, with a mark on the value; saved again it has one."""
    document = json.loads(dumps(SHUFFLED))
    del document["digest"]
    state = loads(json.dumps(document).encode())
    assert state.digest_missing
    assert state == SHUFFLED
    assert not loads(dumps(state)).digest_missing


@pytest.mark.parametrize(
    "key", [key for key in json.loads(dumps(SHUFFLED)) if key not in ("format", "digest")]
)
def test_an_altered_field_is_noticed(key: str) -> None:
    """A change of any field without its digest is an error, and so is a change of the digest."""
    document = json.loads(dumps(SHUFFLED))
    document[key] = 1 if document[key] != 1 else 0
    with pytest.raises(StateError, match=rf"^(digest: expected sha256:.*remove its digest|{key}: expected)"):
        loads(json.dumps(document).encode())
    document = {**json.loads(dumps(SHUFFLED)), "digest": None}
    with pytest.raises(StateError, match=r"digest: expected sha256:.*got None"):
        loads(json.dumps(document).encode())


def test_layout_and_order_are_no_part_of_the_digest() -> None:
    """An editor may reformat the document."""
    document = json.loads(dumps(SHUFFLED))
    assert loads(json.dumps(dict(reversed(document.items())), indent=9).encode()) == SHUFFLED


ABSENT = object()
# a sound state, the field to change, what it becomes, what the error says
BROKEN = [
    (SHUFFLED, "format", "grain", "format: expected 'loaderkit', got 'grain'"),
    (SHUFFLED, "format", ABSENT, "format: expected 'loaderkit', got nothing"),
    (SHUFFLED, "format_version", 7, "format_version: .* got 7; .*upgrade"),
    (NUMBERED, "format_version", 6, r"missing fields \['exclusions'\]"),
    (EXCLUDED, "format_version", 5, r"unknown fields \['exclusions'\]"),
    (EXCLUDED, "exclusions", [], "exclusions: expected a list of stages"),
    (NAMED, "format_version", 5, r"missing fields \['numerics'\]"),
    (NUMBERED, "format_version", 3, r"unknown fields \['numerics'\]"),
    (NUMBERED, "numerics", [], "numerics: expected an object"),
    (NUMBERED, "numerics", {}, "numerics: expected 1 to 100 libraries, got 0"),
    (NUMBERED, "numerics", {"numpy": 3}, "numerics.numpy: expected a short text, got 3"),
    (NUMBERED, "numerics", {"numpy": "x" * 101}, "numerics.numpy: expected a short text"),
    (NAMED, "format_version", 4, r"missing fields \['mixture'\]"),
    (MIXED, "format_version", 3, r"unknown fields \['mixture'\]"),
    (MIXED, "mixture", [], "mixture: expected an object with stages, known and taken"),
    (MIXED, "mixture", None, "mixture: expected an object with stages, known and taken"),
    (SHUFFLED, "format_version", 3, r"missing fields \['parameters'\]"),
    (NAMED, "format_version", 1, r"unknown fields \['parameters'\]"),
    (NAMED, "format_version", 2, r"unknown fields \['parameters'\], missing fields \['bad_records'\]"),
    (NAMED, "parameters", {}, "parameters: expected a list"),
    (NAMED, "parameters", [{"op": "Map"}] * 1001, "parameters: expected a list of at most 1000"),
    (NAMED, "parameters", ["Map"], r"parameters\[0\]: expected an object with 'op'"),
    (NAMED, "parameters", [{"name": "decode"}], r"parameters\[0\]: expected an object with 'op'"),
    (NAMED, "parameters", [{"op": "Map", "name": 3}], r"parameters\[0\]: expected an object"),
    (NAMED, "parameters", [{"op": "Map", "parameters": []}], r"parameters\[0\]: expected an object"),
    (NAMED, "parameters", [{"op": "Map", "code": ""}], r"parameters\[0\]: expected an object"),
    (SHUFFLED, "format_version", 2, r"missing fields \['bad_records'\]"),
    (LOSSY, "format_version", 1, r"unknown fields \['bad_records'\]"),
    (LOSSY, "bad_records", [], "bad_records: expected an object"),
    (LOSSY, "bad_records.ledger", ABSENT, "bad_records: expected the keys ledger, skipped, got skipped"),
    (LOSSY, "bad_records.ledger", {"7": 8}, "bad_records.ledger: expected a list"),
    (LOSSY, "bad_records.ledger", [[7]], r"bad_records.ledger\[0\]: expected \[index, index read instead\]"),
    (LOSSY, "bad_records.ledger", [[7, 8], [7, 9]], r"bad_records.ledger\[1\]: .*each index once"),
    (LOSSY, "bad_records.ledger", [[7, -1]], r"bad_records.ledger\[0\]\[1\]: expected an integer"),
    (LOSSY, "bad_records.skipped", {"0": 1}, "bad_records.skipped: expected none where streams is null"),
    (SKIPPED, "bad_records.skipped", {"16": 1}, "bad_records.skipped: expected streams below 16, got 16"),
    (SKIPPED, "bad_records.skipped", {"x": 1}, "bad_records.skipped: expected numbers of streams"),
    (SKIPPED, "bad_records.skipped", {"0": 0}, "bad_records.skipped.0: expected an integer from 1"),
    (SHUFFLED, "format_version", 0, "format_version: expected an integer from 1"),
    (SHUFFLED, "stream_version", 2, "stream_version: .* got 2; .*upgrade"),
    (SHUFFLED, "stream_version", ABSENT, "stream_version: expected 1 to 1, got nothing"),
    (SHUFFLED, "epoch", ABSENT, r"missing fields \['epoch'\]"),
    (SHUFFLED, "speed", 1, r"unknown fields \['speed'\]"),
    (SHUFFLED, "step", -1, "step: expected an integer from 0 to .*, got -1"),
    (SHUFFLED, "step", 2**63, "step: expected an integer from 0 to 2"),
    (SHUFFLED, "step", 2**62, "segments: step: .* past 2"),
    (SHUFFLED, "step", 99, "global_batch.G: expected the G of a segment up to step 99, got 512"),
    (SHUFFLED, "step", 163.0, "step: expected an integer .* got 163.0"),
    (SHUFFLED, "step", True, "step: expected an integer .* got True"),
    (SHUFFLED, "step", "163", "step: expected an integer .* got '163'"),
    (SHUFFLED, "cursors", {"0": [59392]}, r"cursors: expected \[\[index\]\]"),
    (SHUFFLED, "cursors", [[1], [2]], r"cursors: expected \[\[index\]\]"),
    (SHUFFLED, "cursors", [], r"cursors: expected \[\[index\]\]"),
    (SHUFFLED, "cursors", [59392], r"cursors\[0\]: expected a list"),
    (SHUFFLED, "cursors", [[59392, 1]], r"cursors\[0\]: expected a list of 1 to 1"),
    (SHUFFLED, "cursors", [[-1]], r"cursors\[0\]\[0\]: expected an integer"),
    (SHUFFLED, "cursors", [[59393]], "cursors: expected at most 59392.* got 59393"),
    (STREAMED, "cursors", [[1]], "cursors: expected an object"),
    (STREAMED, "cursors", {}, "cursors: expected one stream or more"),
    (STREAMED, "cursors", {"16": [1]}, "streams below 16, got stream 16"),
    (STREAMED, "cursors", {"01": [1]}, "numbers of streams as keys, got '01'"),
    (STREAMED, "cursors", {"\N{SUPERSCRIPT TWO}": [1]}, "numbers of streams as keys"),
    (STREAMED, "cursors", {"1": []}, "cursors.1: expected a list of 1 to 64"),
    (STREAMED, "cursors", {"1": [0] * 65}, "cursors.1: expected a list of 1 to 64"),
    (STREAMED, "cursors", {"1": [0, None]}, r"cursors.1\[1\]: expected an integer"),
    (SHUFFLED, "segments", [[1, 0, 512]], r"segments\[0\].first_step: expected 0"),
    (SHUFFLED, "segments", [[0, None, 512]], "segments: expected null .* exactly where streams"),
    (STREAMED, "segments", [[0, 0, 512]], "segments: expected null .* exactly where streams"),
    (SHUFFLED, "global_batch", [128, 512], "global_batch: expected an object"),
    (SHUFFLED, "global_batch.G", 128, "global_batch.G: expected the G of a segment"),
    (SHUFFLED, "global_batch.N", ABSENT, "global_batch: expected the keys N, G, got G"),
    (SHUFFLED, "global_batch.N", 0, "global_batch.N: expected an integer from 1"),
    (SHUFFLED, "sampler", [], "sampler: expected an object"),
    (SHUFFLED, "source", None, "source: expected an object, got None"),
    (SHUFFLED, "operations", {}, "operations: expected a list"),
    (SHUFFLED, "operations", ["Filter", 3], r"operations\[1\]: expected a string"),
    (SHUFFLED, "operations", [{"name": "x"}], r"operations\[0\]: .* with 'op'"),
    (SHUFFLED, "operations", [{"op": 3}], r"operations\[0\]: .* with 'op'"),
    (SHUFFLED, "streams", False, "streams: expected an object, got False"),
    (STREAMED, "streams.q", ABSENT, "streams: expected the keys count, q, writers"),
    (STREAMED, "streams.q", 0, "streams.q: expected an integer from 1"),
    (STREAMED, "streams.writers", [0], "streams.writers: expected 16 .* got 1"),
    (STREAMED, "streams.writers", ["0"] * 16, r"streams.writers\[0\]: expected"),
    (STREAMED, "global_batch.N", 127, "streams.count: expected a divisor of N = 127"),
    (EPOCH, "epoch", -1, "epoch: expected an integer from 0"),
    (EPOCH, "versions.numpy", 2, "versions.numpy: expected a string, got 2"),
    (EPOCH, "versions.numpy", ABSENT, "versions: expected the keys loaderkit, numpy, python"),
]


@pytest.mark.parametrize(("state", "field", "value", "text"), BROKEN)
def test_a_malformed_field_is_named(state: State, field: str, value: object, text: str) -> None:
    """A field that is missing, of a wrong type or length, out of range or at odds with another is named."""
    document = json.loads(dumps(state))
    *parents, name = field.split(".")
    place = document[parents[0]] if parents else document
    if value is ABSENT:
        del place[name]
    else:
        place[name] = value
    with pytest.raises(StateError, match=text):
        loads(signed(document))


def test_a_newer_format_says_so_whatever_else_it_holds() -> None:
    """A document of a later version has other fields; the error is to upgrade, not a field unknown here."""
    with pytest.raises(StateError, match=r"format_version: .*upgrade"):
        loads(b'{"format": "loaderkit", "format_version": 7, "weights": []}')


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=4),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.sampled_from(["0", "1", "op", "N", "G", "q"]), children)
    ),
    max_leaves=6,
)


@given(st.sampled_from([SHUFFLED, STREAMED, EPOCH, LOSSY, SKIPPED, NAMED]), st.data())
def test_a_mutated_document_raises_nothing_but_a_state_error(state: State, data: st.DataObject) -> None:
    """Any value anywhere, signed as if it were ours: a state that dumps again, or a StateError."""
    document = json.loads(dumps(state))
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
                place[key] = data.draw(JUNK)
                break
            place = place[key]
    if data.draw(st.booleans()):
        document.pop("digest", None)
    else:
        document["digest"] = digest(document)
    try:
        read = loads(json.dumps(document).encode())
    except StateError:
        read = state
    assert loads(dumps(read)) == read


@given(
    st.sampled_from([SHUFFLED, STREAMED, EPOCH, SKIPPED, NAMED]),
    st.integers(0, 5000),
    st.integers(0, 9),
    st.binary(max_size=9),
)
def test_damaged_bytes_raise_nothing_but_a_state_error(state: State, at: int, lost: int, new: bytes) -> None:
    """A document cut, torn or overwritten anywhere is refused, unless the change was none."""
    good = dumps(state)
    damaged = good[: at % len(good)] + new + good[at % len(good) + lost :]
    try:
        read = loads(damaged)
    except StateError:
        read = state
    assert read == state


def test_a_fingerprint_that_is_not_json_cannot_be_dumped() -> None:
    """A user's fingerprint with, say, a numpy integer is an error at the save which says where it is."""
    with pytest.raises(TypeError, match=r"sampler.sizes\[1\]: expected a JSON value, got int64"):
        dumps(replace(SHUFFLED, sampler={"sizes": [1, np.int64(2)]}))


def test_a_state_that_could_not_be_loaded_is_not_written() -> None:
    """What dumps writes loads reads: numbers out of range fail at the save, not at the restore."""
    for wrong in ({"step": -1}, {"rows": 0}, {"cursors": {0: (59393,)}}, {"versions": {"numpy": "2.0"}}):
        with pytest.raises(StateError, match="expected"):
            dumps(replace(SHUFFLED, **wrong))


# Everything that documents of one step have in common: field -> another value.
SHARED: dict[str, Any] = {
    "step": 4,
    "segments": Segments(((0, None, 512), (2, None, 512))),
    "sampler": {**STREAMED.sampler, "seed": 1},
    "source": {**STREAMED.source, "share": 0.25},
    "operations": STREAMED.operations[:1],
    "rows": 256,
    "stride": 256,
    "streams": SavedStreams(16, 32, (0,) * 16),
    "epoch": 0,
    "mixture": STAGES,
    "exclusions": EXCLUDED.exclusions,
}
# What each process's document may say for itself.
OWN = {"cursors", "versions", "numerics", "losses", "parameters", "digest_missing"}


def test_every_field_is_one_run_s_or_a_process_s_own() -> None:
    """A new field of a state is in one of the two tables."""
    assert {field.name for field in fields(State)} == SHARED.keys() | OWN
    assert not SHARED.keys() & OWN


@pytest.mark.parametrize("field", SHARED)
def test_documents_of_another_step_or_run_are_refused(field: str) -> None:
    """Each field that all processes have in common is compared, and named."""
    other = replace(STREAMED, **{field: SHARED[field]})
    assert other != STREAMED
    with pytest.raises(
        StateError, match=f"^{field}: expected documents of one step of one run, got .* in document 1"
    ):
        merge([STREAMED, other])


def test_documents_of_several_processes_make_one_state() -> None:
    """Cursors of all processes are joined; a state that none edited by hand stays unmarked."""
    first = replace(STREAMED, cursors={0: (290, 2), 1: (311,)})
    second = replace(STREAMED, cursors={10: (2**62, 0, 7), 1: (311,)})
    assert merge([first, second]) == STREAMED
    assert merge([SHUFFLED, copy.deepcopy(SHUFFLED)]) == SHUFFLED
    lost = [
        replace(SKIPPED, losses=BadRecords(Ledger({290: 290}), {0: 3})),
        replace(SKIPPED, losses=BadRecords(Ledger(), {10: 2**40})),
    ]
    assert merge(lost) == merge([*lost, SKIPPED]) == SKIPPED
    assert not merge([first, second]).digest_missing
    assert merge([first, replace(second, digest_missing=True)]).digest_missing


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (
            replace(STREAMED, step=4),
            "step: expected documents of one step of one run, got 3 in the first and 4 in",
        ),
        (replace(STREAMED, cursors={1: (312,)}), "cursors: expected one cursor for stream 1"),
        (SHUFFLED, "step: "),
    ],
)
def test_documents_that_do_not_belong_together_are_refused(other: State, text: str) -> None:
    """Another step, another run, or two places in one stream: a StateError names the field."""
    with pytest.raises(StateError, match=text):
        merge([STREAMED, other])
    with pytest.raises(StateError, match=text.partition(" got")[0].partition(":")[0]):
        merge([other, STREAMED])
