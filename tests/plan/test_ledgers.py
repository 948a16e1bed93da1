"""What is known of bad records: by several processes, up to an index, of some streams; and of how many records."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from internals import plan_of

import loaderkit as lk
from loaderkit._order.facts import Loss
from loaderkit._plan.bad_records import BadRecords, with_substitutions
from loaderkit._plan.ledger import Ledger

INDICES = st.integers(0, 9)
LEDGERS = st.dictionaries(INDICES, INDICES)
SKIPPED = st.dictionaries(st.integers(0, 3), st.integers(1, 5))


@given(LEDGERS, LEDGERS, SKIPPED, SKIPPED)
def test_what_two_processes_know_is_known_together(mine, others, skipped, others_skipped) -> None:
    """Every entry of either; what both have counts once."""
    joined = BadRecords(Ledger(mine), skipped).joined(BadRecords(Ledger(others), others_skipped))
    assert dict(joined.ledger) == {**others, **mine}
    assert joined.skipped == {**others_skipped, **skipped}
    assert joined.count == len({*mine, *others}) + sum({**others_skipped, **skipped}.values())


@example({3: 4}, {}, 3, frozenset())
@given(LEDGERS, SKIPPED, st.integers(0, 10), st.frozensets(st.integers(0, 3)))
def test_a_part_of_what_is_known_is_what_belongs_to_it(ledger, skipped, index, streams) -> None:
    """Before an index, which itself reads another record from there on; and of some streams."""
    known = BadRecords(Ledger(ledger), skipped)
    earlier = known.before(index)
    assert dict(earlier.ledger) == {lost: instead for lost, instead in ledger.items() if lost < index}
    assert earlier.skipped == skipped
    of_streams = known.of_streams(streams, lambda lost: lost % 4)
    assert of_streams.skipped == {s: n for s, n in skipped.items() if s in streams}
    assert of_streams.ledger == {lost: instead for lost, instead in ledger.items() if lost % 4 in streams}


class OneByOne:
    """As a user's sampler without `record_keys`."""

    def __init__(self, num_records: int) -> None:
        self.num_records = num_records

    def __getitem__(self, index: int) -> lk.RecordMetadata:
        return lk.RecordMetadata(index, index)


@pytest.mark.parametrize("kind", [lk.SequentialSampler, OneByOne])
@given(LEDGERS)
def test_a_lost_index_reads_another_record_and_every_other_index_its_own(kind, ledger) -> None:
    """Below, between and above the lost ones, by a ledger as a run has it."""
    sampler = with_substitutions(kind(10), Ledger(ledger))
    read = [sampler[index].record_key for index in range(10)]
    assert read == [ledger.get(index, index) for index in range(10)]


def about(lost: int, index: int) -> str:
    """Of how many records the error says that so many are bad, the last of them at an index."""
    loader = lk.load(
        range(40),
        batch_size=4,
        on_record_error="replace",
        max_bad_records=0,
        shard_options=lk.ShardOptions(0, 2),
    )
    plan = plan_of(loader)
    ledger = Ledger({index - k: 39 for k in range(lost)})
    at = plan.first_position()._replace(losses=BadRecords(ledger))
    with pytest.raises(lk.errors.BadRecordsError) as raised:
        plan.check_bad_records(at, Loss(0, index, index, 39, "Map", "bad"))
    return str(raised.value).partition(" records are bad")[0]


def test_a_process_s_part_of_the_records_that_were_passed_holds_its_bad_ones() -> None:
    """Half of five records are three for one of two processes, and never fewer than are bad."""
    assert about(1, 4) == "1 of about 3"
    assert about(1, 5) == "1 of about 3"
    assert about(4, 4) == "4 of about 4"
