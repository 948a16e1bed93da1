"""When a run ends whose processes can't know it ahead: which step each may hand out, agreed over a small store.

Filter and FlatMap change the number of rows, so the streams of each process are exhausted at a step of their own. But
processes that train together must all make a step or none. So where the last Batch pads, a process whose streams
are exhausted hands out masked batches for as long as another one has rows. The rules, with steps counted from 1:

    sure    steps that real rows of a process back: made, or known to come
    total   its steps in all, known as soon as its streams are exhausted

1. Before a process hands out the last step that it posted, it posts how many it surely has by now.
2. It posts its total as soon as its streams are exhausted.
3. An exhausted process hands out masked batch t when some process has posted t or more.
4. It ends when the totals of all are posted and t is past the largest.
5. Until one of the two is known, it waits in the store. It waits for no process that said it stopped early.

Why nobody waits for ever, also where a trainer runs ahead of its devices: say that t is the lowest step that some
process waits to know about. All others that are not exhausted were asked for step t too, or will be, for they run the
same program and every step before t was made by all; and a process answers by posting before it hands anything out. Why
all end equal: a post is a fact, never taken back, so masked batch t has a real one beside it, and nobody ends while a
larger total may come. Rule 1 is "before", or a process could wait on its devices for the others, who wait for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

State = Literal["going", "dry", "stopped"]
GOING: State = "going"
EXHAUSTED: State = "dry"
STOPPED: State = "stopped"


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a process says of itself: the steps it surely has, and whether more may come.

    >>> Announcement(7, "dry").text(), Announcement.parse("7 dry")
    ('7 dry', Announcement(sure=7, state='dry'))
    """

    sure: int
    state: State

    def text(self) -> str:
        """What is put in the store."""
        return f"{self.sure} {self.state}"

    @classmethod
    def parse(cls, text: str) -> "Announcement":
        """The post that `text` made."""
        sure, _, state = text.partition(" ")
        if state not in (GOING, EXHAUSTED, STOPPED):
            raise ValueError(f"post: expected a number and going, dry or stopped, got {text!r:.80}")
        return cls(int(sure), state)


class Verdict(Enum):
    """What an exhausted process does about its next step."""

    MASK = "hand out a masked batch: another process has rows for it"
    END = "end: no process has rows for it"
    WAIT = "wait: it isn't known yet"
    ABANDONED = "fail: it can't become known, for a process stopped early"


class Ending:
    """One process's part in the agreement. Steps are numbers of elements handed out: the first has number 1.

    process: of `processes`.

    >>> ending = Ending(0, 2)
    >>> ending.before(1, sure=3)
    Announcement(sure=3, state='going')
    >>> ending.before(2, sure=3)
    >>> ending.exhausted(3)
    Announcement(sure=3, state='dry')
    >>> ending.past(4), ending.hear({1: Announcement(4, "going")}), ending.past(4)
    (<Verdict.WAIT: ...>, None, <Verdict.MASK: ...>)
    """

    def __init__(self, process: int, processes: int) -> None:
        if not 0 <= process < processes:
            raise ValueError(f"process: expected 0 to {processes - 1}, got {process}")
        self._process = process
        self._posts: dict[int, Announcement | None] = dict.fromkeys(range(processes))

    def before(self, step: int, *, sure: int) -> Announcement | None:
        """What to post before step number `step` is handed out, a real one; None: nothing new need be said.

        sure: steps that this process surely has by now, `step` or more.
        """
        if sure < step:
            raise ValueError(f"sure: expected {step} (step) or more, got {sure}")
        said = self._said()
        if said is not None and (said.state != GOING or said.sure > step):
            return None
        return self._say(Announcement(sure, GOING)) if said is None or sure > said.sure else None

    def exhausted(self, total: int) -> Announcement | None:
        """What to post when the streams of this process are exhausted after `total` steps."""
        return self._say(Announcement(total, EXHAUSTED)) if self._open else None

    def stop(self) -> Announcement | None:
        """What to post when this process goes no further although its streams have more; None if they are."""
        said = self._said()
        return self._say(Announcement(0 if said is None else said.sure, STOPPED)) if self._open else None

    def hear(self, posts: Mapping[int, Announcement]) -> None:
        """Takes in what the others posted."""
        for process in self._posts.keys() & posts.keys():
            if process != self._process:
                self._posts[process] = posts[process]

    def past(self, step: int) -> Verdict:
        """What becomes of step number `step`, for which this process has no rows of its own."""
        posts = self._posts.values()
        if any(post is not None and post.sure >= step for post in posts):
            return Verdict.MASK
        if all(post is not None and post.state == EXHAUSTED for post in posts):
            return Verdict.END
        open_ = any(post is None or post.state == GOING for post in posts)
        return Verdict.WAIT if open_ else Verdict.ABANDONED

    def awaited(self) -> list[int]:
        """The processes that may still have more steps than they said."""
        return [process for process, post in self._posts.items() if post is None or post.state == GOING]

    def stopped(self) -> list[int]:
        """The processes that stopped early."""
        return [
            process for process, post in self._posts.items() if post is not None and post.state == STOPPED
        ]

    @property
    def _open(self) -> bool:
        said = self._said()
        return said is None or said.state == GOING

    def _said(self) -> Announcement | None:
        return self._posts[self._process]

    def _say(self, post: Announcement) -> Announcement:
        self._posts[self._process] = post
        return post
