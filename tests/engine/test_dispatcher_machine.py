"""Whatever the order of events, every stream is the naive one and every byte comes back.

The rules are what can happen around the engine: workers start, finish tasks, request space, die in the middle of a
write and report late; streams open and close; users pop elements and keep them; memory runs out.
"""

from engine_specs import chain_specs, grid_specs
from engine_world import World, drain, pick
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from loaderkit._engine.slots import PAGE

MOST_STREAMS = 3
MOST_WORKERS = 3
SECONDS = (3e-5, 1e-4, 1e-3, 1e-2)  # that a row took

streams = Bundle("streams")


class EngineMachine(RuleBasedStateMachine):
    world: World

    @initialize(
        target=streams,
        arena=st.sampled_from(["none", "batches", "all", "all"]),
        pages=st.none() | st.integers(8, 400),
        task_rows=st.none() | st.integers(1, 9),
        workers=st.integers(0, MOST_WORKERS),
        several=st.booleans(),
        to_the_end=st.booleans(),
        spec=grid_specs() | chain_specs(),
    )
    def begin(self, arena, pages, task_rows, workers, several, to_the_end, spec):
        self.world = World(
            arena=arena != "none",
            reserves=arena == "all",
            budget=None if pages is None else pages * PAGE,
            workers=workers,
            task_rows=task_rows,
            several=several,
        )
        self.to_the_end = to_the_end
        for _ in range(workers):
            self.world.hire()
        return self.world.open(spec)

    @rule(events=st.lists(st.integers(0, 2**16 - 1), min_size=10, max_size=60))
    def time_passes(self, events):
        """Tasks are given out and done, elements are popped and let go of, in some order."""
        for event in events:
            which, of = divmod(event, 8)
            if of < 3:
                self.world.give()
            elif of < 5 and self.world.busy:
                worker = pick(self.world.busy, which)
                place = which // 64 % len(self.world.hands[worker].tasks)
                self.world.finish(worker, place if of == 4 else 0, SECONDS[which % len(SECONDS)])
            elif of < 7 and self.world.twins:
                self.world.pop(pick(list(self.world.twins), which))
            elif which % 2 and self.world.leases:
                self.world.release(pick(self.world.leases, which // 2))
            else:
                self.world.let_go()

    @precondition(lambda self: len(self.world.twins) < MOST_STREAMS)
    @rule(target=streams, spec=grid_specs() | chain_specs())
    def open(self, spec):
        return self.world.open(spec)

    @rule(stream=consumes(streams), recalled=st.booleans())
    def close(self, stream, recalled):
        self.world.close(stream, recalled=recalled)

    @rule(stream=streams)
    def progress(self, stream):
        self.world.never_stuck(stream)

    # --- workers --------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.hands) < MOST_WORKERS)
    @rule()
    def hire(self):
        self.world.hire()

    @precondition(lambda self: len(self.world.hands) < MOST_WORKERS)
    @rule()
    def arrive(self):
        """A worker of another machine is there, which reads records only."""
        self.world.hire(elsewhere=True)

    @precondition(lambda self: any(worker in self.world.elsewhere for worker in self.world.busy))
    @rule(data=st.data())
    def withdraw(self, data):
        worker = data.draw(st.sampled_from([one for one in self.world.busy if one in self.world.elsewhere]))
        self.world.withdraw(worker, data.draw(st.integers(0, len(self.world.hands[worker].tasks) - 1)))

    @precondition(lambda self: self.world.hands.keys() - self.world.retiring - self.world.elsewhere)
    @rule(data=st.data(), leave=st.booleans())
    def retire(self, data, leave):
        """There is one worker too many: it gets no further task, and leaves when it has none."""
        staying = self.world.hands.keys() - self.world.retiring - self.world.elsewhere
        self.world.retire(data.draw(st.sampled_from(sorted(staying))))
        if leave:
            self.world.leave()

    @precondition(lambda self: self.world.busy)
    @rule(data=st.data())
    def work_without_a_word(self, data):
        """What a task makes is there, room for it was asked for; the report isn't sent yet."""
        worker = data.draw(st.sampled_from(self.world.busy))
        self.world.begin(worker, data.draw(st.integers(0, len(self.world.hands[worker].tasks) - 1)))

    @precondition(lambda self: self.world.hands)
    @rule(data=st.data(), at=st.none() | st.integers(0, 99), scribbling=st.booleans())
    def die(self, data, at, scribbling):
        worker = data.draw(st.sampled_from(sorted(self.world.hands)))
        self.world.die(worker, begun=data.draw(self.places(worker)), at=at, scribbling=scribbling)

    @precondition(lambda self: self.world.busy)
    @rule(data=st.data(), at=st.none() | st.integers(0, 99))
    def die_in_a_row(self, data, at):
        """One task kills every worker that begins it, always at the same record or before any."""
        self.world.die(data.draw(st.sampled_from(self.world.busy)), begun=0, at=at, scribbling=True)
        self.world.hire()
        self.world.give()

    @precondition(
        lambda self: self.world.hands.keys() - self.world.elsewhere and len(self.world.fenced) < MOST_WORKERS
    )
    @rule(data=st.data(), at=st.none() | st.integers(0, 99), retry=st.booleans())
    def fence(self, data, at, retry):
        """A worker is stuck and can't be ended: another is hired in its place."""
        worker = data.draw(st.sampled_from(sorted(self.world.hands.keys() - self.world.elsewhere)))
        self.world.fence(worker, begun=data.draw(self.places(worker)), at=at, retry=retry)
        self.world.hire()

    @precondition(lambda self: any(hand.tasks for hand in self.world.fenced.values()))
    @rule(data=st.data())
    def write_late(self, data):
        """A fenced worker wakes up and writes."""
        writing = sorted(worker for worker, hand in self.world.fenced.items() if hand.tasks)
        worker = data.draw(st.sampled_from(writing))
        self.world.write_late(worker, data.draw(st.integers(0, len(self.world.fenced[worker].tasks) - 1)))

    @precondition(lambda self: self.world.fenced)
    @rule(data=st.data())
    def fenced_ended(self, data):
        self.world.fenced_ended(data.draw(st.sampled_from(sorted(self.world.fenced))))

    def places(self, worker):
        """Of the task that a worker is in, or None."""
        tasks = len(self.world.hands[worker].tasks)
        return st.none() | st.integers(0, tasks - 1) if tasks else st.none()

    @precondition(lambda self: self.world.stale)
    @rule(data=st.data(), by_a_living_one=st.booleans())
    def hear_of_an_older_attempt(self, data, by_a_living_one):
        worker, task, attempt = data.draw(st.sampled_from(self.world.stale))
        if by_a_living_one and self.world.hands:
            worker = data.draw(st.sampled_from(sorted(self.world.hands)))
        self.world.tell_stale(worker, task, attempt)

    @precondition(lambda self: self.world.out_again)
    @rule(data=st.data())
    def hear_of_an_older_attempt_of_what_is_out(self, data):
        """A worker's own task, under the number that it had with another one."""
        self.world.tell_stale(*data.draw(st.sampled_from(self.world.out_again)))

    # --- memory ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.slots is not None)
    @rule(pages=st.none() | st.integers(0, 100))
    def memory_is_left(self, pages):
        self.world.slots.budget = None if pages is None else self.world.slots.nbytes + pages * PAGE

    @invariant()
    def books_agree(self):
        slots = self.world.slots
        if slots is not None:
            assert slots.used == sum(slots.live.values())

    def teardown(self):
        if not hasattr(self, "world"):
            return
        if self.to_the_end:
            self.world.hire()
            self.world.slots_without_end()
            for stream in list(self.world.twins):
                drain(self.world, stream)
        self.world.wind_up()


TestEngine = EngineMachine.TestCase
# Most of what goes wrong needs several things to go wrong at once.
TestEngine.settings = settings(max_examples=max(100, settings.default.max_examples))
