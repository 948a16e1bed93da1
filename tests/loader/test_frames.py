"""How many calls lie between the user's `next()` and the user's own code, where the calling thread works."""

import sys

import loaderkit as lk

FRAMES: dict[str, int] = {}


def note(what: str) -> None:
    """Counts the frames from `__next__` on, it included, the user's own left out; other calls aren't counted."""
    frame, count = sys._getframe(2), 1
    while frame is not None and frame.f_code.co_name != "__next__":
        frame, count = frame.f_back, count + 1
    if frame is not None:
        FRAMES[what] = count


class Squares:
    """A source that notes how deep it is called."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, key: int) -> dict[str, int]:
        note("source")
        return {"x": key * key}


class Noted(lk.Map):
    """An operation that does."""

    def map(self, element: dict[str, int]) -> dict[str, int]:
        note("operation")
        return element


class Backwards:
    """A sampler of a user, without bulk methods, that does."""

    seed = 0

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> lk.RecordMetadata:
        note("key")
        return lk.RecordMetadata(index=index, record_key=99 - index)


def test_next_calls_the_users_code_by_few_frames():
    """Each frame is a part of an error's traceback that a reader has to pass, and time in every batch."""
    loader = lk.DataLoader(
        data_source=Squares(), sampler=Backwards(), operations=[Noted(), lk.Batch(4)], worker_count=0
    )
    FRAMES.clear()
    with iter(loader) as batches:
        assert next(batches)["x"].tolist() == [99**2, 98**2, 97**2, 96**2]
        next(batches)
    assert FRAMES.keys() == {"source", "operation", "key"}
    assert FRAMES["source"] <= 9
    assert FRAMES["operation"] <= 11
    assert FRAMES["key"] <= 14
