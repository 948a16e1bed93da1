"""How a keeper's connection becomes a worker's, without a socket: who is let in, and what any other bytes lead to."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._runtime.remote import frames
from loaderkit._runtime.remote.connection import Silence
from loaderkit._runtime.remote.facts import host_facts, why_other_data, why_refused
from loaderkit._runtime.remote.frames import KEY_NBYTES, FrameError, Opener, Sealer
from loaderkit._runtime.remote.handshake import (
    MOST_BEFORE,
    NONCE_NBYTES,
    KeeperHandshake,
    Start,
    TrainerHandshake,
)
from loaderkit._runtime.remote.rows import RowsHeader

SECRET = b"s" * 32
FACTS = host_facts()
ANSWER = {"records": 3, "source": "digest", "shown": "a", "numerics": {"numpy": "1"}, "missing": None}
PARTS = (b"first messages", memoryview(bytes(range(256)) * 9000))
bytes_of_keys = st.binary(min_size=KEY_NBYTES, max_size=KEY_NBYTES)


def trainer(
    admit: Callable[[Any], Start | str] = lambda facts: Start("d", PARTS, {"checksum": "crc32"}),
    judge: Callable[[Any], str | None] = lambda answer: None,
    secret: bytes = SECRET,
) -> TrainerHandshake:
    return TrainerHandshake(secret, b"b" * NONCE_NBYTES, admit, judge)


def keeper(program: str = "", secret: bytes = SECRET, **facts: Any) -> KeeperHandshake:
    return KeeperHandshake(secret, b"a" * NONCE_NBYTES, {**FACTS, **facts}, program)


def cuts(sizes: list[int]) -> Iterator[int]:
    while True:
        yield from sizes or [1 << 30]


def talk(ours: TrainerHandshake, theirs: KeeperHandshake, sizes: list[int] | None = None) -> None:
    """Carries bytes both ways, in pieces of these sizes, until none are left."""
    size = cuts(sizes or [])
    moved = True
    while moved:
        moved = False
        for one, other in ((ours, theirs), (theirs, ours)):
            sent = one.take()
            moved |= bool(sent)
            while sent:
                cut = next(size)
                other.receive(sent[:cut])
                sent = sent[cut:]
        if theirs.started and theirs.session is None and theirs.stopped is None and not moved:
            theirs.answer(json.dumps(ANSWER).encode())
            moved = True


@given(sizes=st.lists(st.integers(1, 100_000), max_size=5))
def test_a_keeper_with_the_secret_is_let_in_wherever_its_bytes_are_cut(sizes: list[int]) -> None:
    """It has the program then, both have the same session, and what each seals the other one opens."""
    ours, theirs = trainer(), keeper(host="far")
    talk(ours, theirs, [*sizes, 1 << 20])
    assert ours.session is not None and theirs.session is not None
    assert [*map(bytes, theirs.parts)] == [*map(bytes, PARTS)]
    assert ours.session.answer == ANSWER and ours.session.facts["host"] == "far"
    assert theirs.session.settings == {"checksum": "crc32"}
    for one, other in ((ours.session, theirs.session), (theirs.session, ours.session)):
        other.opener.received += one.sealer.seal(frames.PING, b"x")
        assert other.opener.next() == (frames.PING, b"x")


def test_a_program_is_sent_once() -> None:
    """A keeper that has it says its name, and gets no part again."""
    ours, theirs = trainer(), keeper(program="d")
    talk(ours, theirs)
    assert ours.session is not None and theirs.parts == []


@pytest.mark.parametrize("of_keeper", [True, False])
def test_another_secret_ends_both_sides_before_anything_is_told(of_keeper: bool) -> None:
    """A trainer gives a stranger no program, and a keeper gives one no facts: neither has sealed a message."""
    ours = trainer(secret=SECRET if of_keeper else b"t" * 32)
    theirs = keeper(secret=b"t" * 32 if of_keeper else SECRET)
    talk(ours, theirs)
    assert ours.stopped is not None and ours.stopped.wrong_secret
    assert not ours.proven and not theirs.proven


def test_a_trainer_that_only_repeats_is_found_out() -> None:
    """A keeper's own nonce, or its proof of another connection, proves nothing to it."""
    theirs = keeper()
    hello = theirs.take()
    theirs.receive(hello[-NONCE_NBYTES:] + bytes(32))
    assert theirs.stopped is not None and theirs.stopped.wrong_secret and theirs.take() == b""


@pytest.mark.parametrize("at_facts", [True, False])
def test_a_refusal_reaches_the_keeper_as_text(at_facts: bool) -> None:
    """Of its host, or of what its worker set up."""
    ours = trainer(lambda facts: "old") if at_facts else trainer(judge=lambda answer: "old")
    theirs = keeper()
    talk(ours, theirs)
    for side in (ours, theirs):
        assert side.stopped is not None and side.stopped.refused and str(side.stopped) == "old"


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_any_bytes_at_the_door_end_closed(pieces: list[bytes]) -> None:
    """No exception, no session, nothing asked of the loader, and little memory held."""
    door = trainer()
    for piece in [*pieces, bytes(2 * MOST_BEFORE)]:
        door.receive(piece)
    assert door.stopped is not None and not door.stopped.refused
    assert door.session is None and not door.told_facts


@given(st.data())
def test_any_bytes_behind_the_proof_end_closed(data: st.DataObject) -> None:
    """A connection that proved itself and then breaks, or is taken over on the way, is told and gives nothing."""
    door, theirs = trainer(), keeper()
    door.receive(theirs.take())
    theirs.receive(door.take())
    sent = bytearray(theirs.take())
    place = data.draw(st.integers(0, len(sent) - 1))
    sent[place] ^= 1 << data.draw(st.integers(0, 7))
    door.receive(bytes(sent) + bytes(MOST_BEFORE))
    assert door.stopped is not None and door.session is None and not door.told_facts


@given(body=st.sampled_from([b"[]", b"{", b'"', b"\xff", b"[" * 3000, b"1" * 4000, b'{"versions": []}']))
def test_facts_that_are_no_facts_end_closed(body: bytes) -> None:
    """Also of a keeper that knows the secret."""
    door, theirs = trainer(admit=lambda facts: facts["versions"].get("numpy")), keeper()
    door.receive(theirs.take())
    theirs.receive(door.take())
    proof = theirs.take()[:32]
    door.receive(proof)
    door.receive(Sealer(theirs._sealer._key).seal(frames.FACTS, body))
    assert door.stopped is not None and not door.stopped.refused


# --- frames -----------------------------------------------------------------------------------------------------


@given(
    key=bytes_of_keys,
    bodies=st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=60)), min_size=1, max_size=5),
    size=st.integers(1, 50),
)
def test_messages_arrive_as_they_were_sealed(key: bytes, bodies: list[tuple[int, bytes]], size: int) -> None:
    """In order, however they are cut."""
    sealer, opener, found = Sealer(key), Opener(key, 60), []
    sent = b"".join(sealer.seal(*message) for message in bodies)
    for place in range(0, len(sent), size):
        opener.received += sent[place : place + size]
        while (message := opener.next()) is not None:
            found.append(message)
    assert found == bodies and not opener.received


@given(
    bodies=st.lists(st.binary(max_size=30), min_size=3, max_size=3),
    order=st.permutations(range(3)).filter(lambda order: [*order] != [0, 1, 2]),
)
def test_a_message_left_out_repeated_or_moved_is_an_error(bodies: list[bytes], order: list[int]) -> None:
    """Each has a number on its side of the connection."""
    sealer, opener = Sealer(SECRET), Opener(SECRET, 30)
    sealed = [sealer.seal(frames.PONG, body) for body in bodies]
    first_wrong = next(place for place in range(3) if order[place] != place)
    for place in order:
        opener.received += sealed[place]
    for _ in range(first_wrong):
        assert opener.next() is not None
    with pytest.raises(FrameError, match="doesn't have its seal"):
        opener.next()


def test_a_long_message_is_an_error_before_it_is_received() -> None:
    """Its length is enough."""
    opener = Opener(SECRET, 100)
    opener.received += Sealer(SECRET).seal(frames.PONG, bytes(101))[: frames.HEAD_NBYTES]
    with pytest.raises(FrameError, match="101 bytes"):
        opener.next()


@given(st.binary(max_size=200))
def test_a_head_of_rows_that_is_none_is_an_error(body: bytes) -> None:
    """Or says what those bytes say."""
    try:
        header = RowsHeader.unpack(body)
    except FrameError:
        return
    assert header.pack() == body


# --- hosts ------------------------------------------------------------------------------------------------------


def test_a_host_with_other_versions_is_refused_with_both() -> None:
    """Also one with another byte order; a library that it lacks is found when the program needs it."""
    theirs = {**FACTS, "versions": {**FACTS["versions"], "numpy": "1.0"}}
    refused = why_refused(FACTS, theirs)
    assert refused is not None and "numpy 1.0" in refused and FACTS["versions"]["numpy"] in refused
    assert "byte order" in str(why_refused(FACTS, {**FACTS, "byte order": "big"}))
    assert "protocol" in str(why_refused(FACTS, {**FACTS, "protocol": 2}))
    lacking = {**FACTS, "versions": {k: v for k, v in FACTS["versions"].items() if k != "pillow"}}
    assert why_refused(FACTS, lacking) is None


def test_other_data_or_other_bits_are_refused_with_both() -> None:
    """Other last bits only where that is asked for."""
    assert why_other_data(ANSWER, ANSWER, numerics=True) is None
    assert "4 there, 3" in str(why_other_data(ANSWER, {**ANSWER, "records": 4}, numerics=True))
    other = {**ANSWER, "source": "other", "shown": "b"}
    assert "b there, a at the trainer" in str(why_other_data(ANSWER, other, numerics=True))
    assert "No such file" in str(why_other_data(ANSWER, {"error": "No such file"}, numerics=True))
    assert "shared storage" in str(why_other_data(ANSWER, {**ANSWER, "missing": __file__}, numerics=True))
    gone = {**ANSWER, "missing": __file__ + ".gone"}  # a bad record here as well
    assert why_other_data(ANSWER, gone, numerics=True) is None
    bits = {**ANSWER, "numerics": {"numpy": "2"}}
    assert "numpy computes other last bits" in str(why_other_data(ANSWER, bits, numerics=True))
    assert why_other_data(ANSWER, bits, numerics=False) is None


def test_a_process_that_was_stopped_has_not_heard_silence() -> None:
    """A laptop that slept looks again before it gives its workers up; a silent one is given up in time."""
    silence = Silence(0.0, 10.0)
    assert not silence.is_over(1.0) and not silence.is_over(61.0)
    assert not silence.is_over(65.0) and not silence.is_over(70.0) and silence.is_over(71.0)
