"""Whatever the order of events, every stream is the naive one and every byte comes back.

The rules are what can happen around the engine: workers come, finish this or that, ask for room, die in the middle of
a write and are heard of again later; streams open and close; users pop and hold on; memory runs out.
"""

from engine_specs import chain_specs, grid_specs
from engine_world import World
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

MOST_STREAMS = 3
MOST_WORKERS = 3
PAGES = 4096

streams = Bundle("streams")


class EngineMachine(RuleBasedStateMachine):
    world: World

    @initialize(
        arena=st.sampled_from(["none", "batches", "all"]),
        pages=st.none() | st.integers(8, 400),
        task_rows=st.none() | st.integers(1, 9),
        workers=st.integers(0, MOST_WORKERS),
    )
    def begin(self, arena, pages, task_rows, workers):
        self.world = World(
            arena=arena != "none",
            reserves=arena == "all",
            budget=None if pages is None else pages * PAGES,
            workers=workers,
            task_rows=task_rows,
        )

    # --- streams --------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.twins) < MOST_STREAMS)
    @rule(target=streams, spec=grid_specs() | chain_specs())
    def open(self, spec):
        return self.world.open(spec)

    @rule(stream=consumes(streams))
    def close(self, stream):
        self.world.close(stream)

    @rule(stream=streams, count=st.integers(1, 6))
    def pop(self, stream, count):
        for _ in range(count):
            self.world.pop(stream)

    @rule(stream=streams)
    def progress(self, stream):
        self.world.never_stuck(stream)

    @precondition(lambda self: self.world.leases)
    @rule(data=st.data())
    def release(self, data):
        self.world.release(data.draw(st.sampled_from(self.world.leases)))

    @rule()
    def let_go(self):
        self.world.let_go()

    # --- workers --------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.hands) < MOST_WORKERS)
    @rule()
    def hire(self):
        self.world.hire()

    @rule(count=st.integers(1, 8))
    def give(self, count):
        for _ in range(count):
            self.world.give()

    @precondition(lambda self: self.world.busy)
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 1e-5, 1e-3, 0.1]))
    def finish_some(self, data, seconds):
        worker = data.draw(st.sampled_from(self.world.busy))
        for _ in range(data.draw(st.integers(1, len(self.world.hands[worker].tasks)))):
            place = data.draw(st.integers(0, len(self.world.hands[worker].tasks) - 1))
            self.world.finish(worker, place, seconds)

    @precondition(lambda self: self.world.busy)
    @rule(data=st.data())
    def work_without_a_word(self, data):
        """What a task makes is there, room for it was asked for; the report isn't sent yet."""
        worker = data.draw(st.sampled_from(self.world.busy))
        self.world.begin(worker, data.draw(st.integers(0, len(self.world.hands[worker].tasks) - 1)))

    @precondition(lambda self: self.world.hands)
    @rule(data=st.data(), blame=st.booleans(), scribbling=st.booleans())
    def die(self, data, blame, scribbling):
        worker = data.draw(st.sampled_from(sorted(self.world.hands)))
        self.world.die(worker, blame=blame, scribbling=scribbling)

    @precondition(lambda self: self.world.busy)
    @rule(data=st.data())
    def die_in_a_row(self, data):
        """One task kills all who touch it: it is somebody's oldest each time."""
        self.world.die(data.draw(st.sampled_from(self.world.busy)), blame=True, scribbling=True)
        self.world.hire()
        self.world.give()

    @precondition(lambda self: self.world.stale)
    @rule(data=st.data(), by_a_living_one=st.booleans())
    def hear_of_an_older_attempt(self, data, by_a_living_one):
        worker, task, attempt = data.draw(st.sampled_from(self.world.stale))
        if by_a_living_one and self.world.hands:
            worker = data.draw(st.sampled_from(sorted(self.world.hands)))
        self.world.tell_stale(worker, task, attempt)

    # --- memory ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.slots is not None)
    @rule(pages=st.none() | st.integers(0, 100))
    def memory_is_left(self, pages):
        self.world.slots.budget = None if pages is None else self.world.slots.nbytes + pages * PAGES

    @invariant()
    def books_agree(self):
        slots = self.world.slots
        if slots is not None:
            assert slots.used == sum(slots.live.values())

    def teardown(self):
        if hasattr(self, "world"):
            self.world.wind_up()


TestEngine = EngineMachine.TestCase
