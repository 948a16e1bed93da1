"""Streams that give one element each in turn; every stream has a scheduler of its own.

A stream that has ended is skipped from then on; a failure ends all streams when its turn comes. Tasks are asked for in
the order of the turns, so the element that is delivered first is begun first. Each stream makes its share of what is
made ahead.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import chain

from loaderkit._base.system.dataclasses import dataclass, field, replace
from loaderkit._engine.scheduler import Records, Scheduler, SchedulerContext, no_replacement
from loaderkit._engine.task import End, Outcome, Ready, Slot, Task, TaskResult


@dataclass(slots=True, eq=False)
class _Stream:
    scheduler: Scheduler
    waiting: deque[Ready] = field(default_factory=deque)  # single elements that the scheduler gave

    def due(self) -> bool:
        return bool(self.waiting) or self.scheduler.due()

    def pop(self) -> Outcome | None:
        if not self.waiting:
            outcome = self.scheduler.pop()
            if not isinstance(outcome, Ready) or outcome.slot is not None:
                return outcome
            self.waiting.extend(_single(outcome, number) for number in range(outcome.size))
        return self.waiting.popleft()


def _single(ready: Ready, number: int) -> Ready:
    facts = ready.facts
    if facts.ends is not None:
        facts = replace(facts, ends=facts.ends[number : number + 1])
    return ready._replace(first=ready.first + number, size=1, facts=facts)


class RoundRobinScheduler:
    """The scheduler of several streams that give one element each in turn.

    Args:
        make: by number of the stream, makes its scheduler from its share of the context.
        first: the stream that gives the first element.
        context: what the loader's schedulers share.
    """

    def __init__(
        self,
        make: Mapping[int, Callable[[SchedulerContext], Scheduler]],
        first: int,
        context: SchedulerContext,
    ) -> None:
        # Each gives one element a turn.
        share = replace(context, bulk=False, pace=context.pace.shared_by(len(make)))
        order = sorted(make, key=lambda number: (number < first, number))
        self._all = [_Stream(make[number](share)) for number in order]
        self._turn = list(self._all)  # those that haven't ended; the one whose turn is next comes first
        self._work: dict[int, _Stream] = {}  # task id -> its stream
        self._popped: dict[int, _Stream] = {}  # likewise, of an element that was popped and not delivered yet

    def next_task(self) -> Task | None:
        for stream in self._turn:
            task = stream.scheduler.next_task()
            if task is not None:
                self._work[task.id] = stream
                return task
        return None

    def done(self, task: Task, result: TaskResult) -> int:
        return self._work.pop(task.id).scheduler.done(task, result)

    def replacement(self, index: int, tried: int) -> Records:
        return no_replacement(index, tried)

    def due(self) -> bool:
        return not self._turn or self._turn[0].due()

    def pop(self) -> Outcome | None:
        while self._turn:
            stream = self._turn[0]
            outcome = stream.pop()
            if isinstance(outcome, End):
                del self._turn[0]
                continue
            if isinstance(outcome, Ready):
                self._turn.append(self._turn.pop(0))
                if outcome.slot is None:
                    self._popped[outcome.task] = stream
            return outcome
        return End()

    def delivered(self, ready: Ready) -> None:
        self._popped.pop(ready.task).scheduler.delivered(ready)

    def owned(self) -> tuple[list[Slot], list[int]]:
        slots, outputs = zip(*(stream.scheduler.owned() for stream in self._all), strict=True)
        return [*chain(*slots)], [*chain(*outputs)]
