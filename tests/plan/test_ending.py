"""Processes agree on the end: in every order of events the same end, no invented step, and no endless wait."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._plan.ending import Announcement, Ending, Verdict


@dataclass
class Process:
    """A process as it is without the loader: streams that are read ahead, and a trainer that runs ahead of its devices.

    own: steps that its rows give. ahead: how many of them it may have made before they are asked for. first: elements
    that earlier runs handed out.
    """

    number: int
    processes: int
    own: int
    ahead: int
    first: int
    store: dict[int, str]
    handed: list[bool] = field(default_factory=list)  # whether the step was real
    made: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        self.ending = Ending(self.number, self.processes)

    @property
    def step(self) -> int:
        return self.first + len(self.handed)

    def make(self) -> bool:
        """The streams give one more step, or their end."""
        if self.made < min(self.own, len(self.handed) + self.ahead):
            self.made += 1
            return True
        return False

    def ask(self) -> bool:
        """The trainer asks for an element once more; whether it got one."""
        before = dict(self.store)
        if len(self.handed) < self.made:
            self.say(self.ending.before(self.step + 1, sure=self.first + self.made))
            self.handed.append(True)
            return True
        if self.made < self.own:
            return False
        self.say(self.ending.exhausted(self.first + self.own))
        self.ending.hear({process: Announcement.parse(text) for process, text in self.store.items()})
        verdict = self.ending.past(self.step + 1)
        if verdict is Verdict.MASK:
            self.handed.append(False)
        self.ended = verdict is Verdict.END
        return verdict is not Verdict.WAIT or self.store != before

    def say(self, post: Announcement | None) -> None:
        if post is not None:
            self.store[self.number] = post.text()


def run(
    owns: list[int], aheads: list[int], depths: list[int], first: int, chance: random.Random
) -> list[Process]:
    """All processes until all have ended, in any order. A step's collective is over when all have begun it, and a
    trainer stops asking while more than `depth` of its steps aren't over; AssertionError if no process can move.
    """
    store: dict[int, str] = {}
    processes = [
        Process(number, len(owns), own, ahead, first, store)
        for number, (own, ahead) in enumerate(zip(owns, aheads, strict=True))
    ]
    while not all(process.ended for process in processes):
        over = min(len(process.handed) for process in processes)
        moves = [process.make for process in processes]
        moves += [
            process.ask
            for process, depth in zip(processes, depths, strict=True)
            if not process.ended and len(process.handed) - over <= depth
        ]
        chance.shuffle(moves)
        assert any(move() for move in moves), "no process can move"
    return processes


@given(
    owns=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    first=st.sampled_from([0, 0, 7]),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_all_end_equal(owns, first, seed, data):
    """For any number of own steps, of steps made ahead and of steps in flight, and any order of events, every process
    hands out as many steps as the one with most rows: its own ones first, then masked ones.
    """
    count = len(owns)
    aheads = data.draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    depths = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    for process in run(owns, aheads, depths, first, random.Random(seed)):
        assert process.handed == [True] * process.own + [False] * (max(owns) - process.own)


@pytest.mark.slow
def test_all_end_equal_in_thousands_of_orders(nightly):
    """The same for many random orders at once: how rare races show."""
    chance = random.Random(5)
    for _ in range(100_000 if nightly else 4_000):
        count = chance.randint(1, 5)
        owns = [chance.choice([0, 1, 2, chance.randint(0, 9)]) for _ in range(count)]
        aheads = [chance.randint(1, 4) for _ in range(count)]
        depths = [chance.randint(0, 3) for _ in range(count)]
        for process in run(owns, aheads, depths, chance.choice([0, 3]), chance):
            assert process.handed == [True] * process.own + [False] * (max(owns) - process.own)


@given(
    owns=st.lists(st.integers(0, 9), min_size=2, max_size=4),
    seed=st.integers(0, 2**32),
    stops=st.integers(0, 12),
)
def test_a_masked_step_is_always_backed(owns, seed, stops):
    """At any moment, for each masked step handed out so far some process has rows of its own."""
    chance = random.Random(seed)
    store: dict[int, str] = {}
    processes = [Process(number, len(owns), own, 3, 0, store) for number, own in enumerate(owns)]
    for _ in range(stops * len(owns)):
        chance.choice(
            [move for process in processes for move in (process.make, process.ask) if not process.ended]
            or [int]
        )()
    assert all(len(process.handed) <= max(owns) for process in processes)


def test_posts_are_few():
    """A process that has k steps made ahead posts once for k steps, not at each."""
    ending = Ending(0, 2)
    posts = [ending.before(step, sure=min(step + 7, 40)) for step in range(1, 41)]
    assert [post.sure for post in posts if post is not None] == [8, 15, 22, 29, 36, 40]


def test_who_stopped_early_is_not_waited_for():
    """A process that stops posts that; then the end can't be known, and the exhausted processes name that one."""
    exhausted, stopped = Ending(0, 2), Ending(1, 2)
    stopped.before(1, sure=2)
    exhausted.exhausted(1)
    assert exhausted.past(2) is Verdict.WAIT and exhausted.awaited() == [1]
    post = stopped.stop()
    assert post == Announcement(2, "stopped")
    exhausted.hear({1: post})
    assert exhausted.past(2) is Verdict.MASK
    assert exhausted.past(3) is Verdict.ABANDONED and exhausted.stopped() == [1]


def test_who_is_dry_needs_no_further_words():
    """A process that posted its total posts nothing more: neither at its last real steps, nor by stopping."""
    ending = Ending(0, 1)
    assert ending.exhausted(3) == Announcement(3, "dry")
    assert (ending.before(3, sure=3), ending.exhausted(3), ending.stop()) == (None, None, None)
    assert ending.past(3) is Verdict.MASK and ending.past(4) is Verdict.END


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Ending(2, 2), "process: expected 0 to 1, got 2"),
        (lambda: Ending(0, 2).before(4, sure=3), "sure: expected 4"),
        (lambda: Announcement.parse("7 soon"), "announcement: expected .*'7 soon'"),
        (lambda: Announcement.parse("x dry"), "invalid literal"),
    ],
)
def test_what_makes_no_sense(call, says):
    """An error that names the argument."""
    with pytest.raises(ValueError, match=says):
        call()
