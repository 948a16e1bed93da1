"""How processes agree on the last step, where none can compute it in advance: by announcements in a small store.

Filter and FlatMap change the number of rows, so each process exhausts its streams at a different step. But processes
that train together must all make a step or none. So where the last Batch pads, an exhausted process hands out masked
batches as long as another process has rows. Steps are counted from 1:

    sure    number of steps for which a process has real rows: made already, or certain to follow
    total   number of all its steps with real rows, known once its streams are exhausted

1. Before a process hands out the last step that it announced, it announces the number of steps it is sure of by now.
2. It announces its total as soon as its streams are exhausted.
3. An exhausted process hands out masked batch t if some process has announced t or more.
4. It ends if all processes have announced their totals and t is greater than the largest.
5. Until one of these holds, it waits in the store, but never for a process that announced that it stopped early.

No process waits for ever, also if a trainer runs ahead of its devices. Let t be the lowest step that some process waits
for. Every other process that isn't exhausted has been asked for step t or will be, because all run the same program and
have made every step before t; and it announces before it hands anything out. All processes end at the same step: an
announcement is never withdrawn, so each masked batch t has a real batch t beside it, and no process ends while a larger
total is possible. Rule 1 says "before": otherwise a process could wait on its devices for others that wait for it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Literal

from loaderkit._base.system.dataclasses import dataclass

State = Literal["going", "dry", "stopped"]
GOING: State = "going"
EXHAUSTED: State = "dry"
STOPPED: State = "stopped"


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a process announces about its own steps: how many are sure, and whether more may follow.

    >>> Announcement(7, "dry").text(), Announcement.parse("7 dry")
    ('7 dry', Announcement(sure=7, state='dry'))
    """

    sure: int
    state: State

    def text(self) -> str:
        """The text for the store."""
        return f"{self.sure} {self.state}"

    @classmethod
    def parse(cls, text: str) -> "Announcement":
        """The announcement of a text that `text` made; ValueError for another text."""
        sure, _, state = text.partition(" ")
        if state not in (GOING, EXHAUSTED, STOPPED):
            raise ValueError(f"announcement: expected a number and going, dry or stopped, got {text!r:.80}")
        return cls(int(sure), state)


class Verdict(Enum):
    """What an exhausted process does next."""

    MASK = "hand out a masked batch: another process has rows for it"
    END = "end: no process has rows for it"
    WAIT = "wait: another process may still have rows for it"
    ABANDONED = "fail: a process stopped early, so whether it had rows can't become known"


class Ending:
    """One process's part in the agreement. Steps are numbers of elements handed out: the first has number 1.

    process: index of this process, 0 to `processes` - 1.

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
        """What to announce before step `step`, a real one, is handed out; None if nothing.

        sure: number of steps that this process is sure of by now, `step` or more.
        """
        if sure < step:
            raise ValueError(f"sure: expected {step} (step) or more, got {sure}")
        own = self._own()
        if own is not None and (own.state != GOING or own.sure > step):
            return None
        return self._announce(Announcement(sure, GOING)) if own is None or sure > own.sure else None

    def exhausted(self, total: int) -> Announcement | None:
        """What to announce when this process's streams are exhausted after `total` steps; None if it was announced."""
        return self._announce(Announcement(total, EXHAUSTED)) if self._open else None

    def stop(self) -> Announcement | None:
        """What to announce when this process stops before its streams are exhausted; None if they are."""
        own = self._own()
        return self._announce(Announcement(0 if own is None else own.sure, STOPPED)) if self._open else None

    def hear(self, posts: Mapping[int, Announcement]) -> None:
        """Records the announcements of other processes, {process: announcement}."""
        for process in self._posts.keys() & posts.keys():
            if process != self._process:
                self._posts[process] = posts[process]

    def past(self, step: int) -> Verdict:
        """What this process does at step `step`, for which it has no rows of its own."""
        posts = self._posts.values()
        if any(post is not None and post.sure >= step for post in posts):
            return Verdict.MASK
        if all(post is not None and post.state == EXHAUSTED for post in posts):
            return Verdict.END
        open_ = any(post is None or post.state == GOING for post in posts)
        return Verdict.WAIT if open_ else Verdict.ABANDONED

    def awaited(self) -> list[int]:
        """The processes that may have more steps than they announced."""
        return [process for process, post in self._posts.items() if post is None or post.state == GOING]

    def stopped(self) -> list[int]:
        """The processes that stopped early."""
        return [
            process for process, post in self._posts.items() if post is not None and post.state == STOPPED
        ]

    @property
    def _open(self) -> bool:
        own = self._own()
        return own is None or own.state == GOING

    def _own(self) -> Announcement | None:
        return self._posts[self._process]

    def _announce(self, post: Announcement) -> Announcement:
        self._posts[self._process] = post
        return post
