"""An exception of a user's class, which may be anything, comes out of next(), wherever the operation runs."""

import pytest
from runtime_loaders import numbers


def raising(*_):
    raise KeyError("mine")


def leaving(*_):
    raise SystemExit(3)


ODD = [
    {"__notes__": 7},
    {"__notes__": property(raising)},
    {"__notes__": [raising]},
    {"__str__": raising, "__repr__": raising},
    {"__str__": leaving},
    {"__str__": lambda self: 7},
    {"__reduce__": raising},
    {"__reduce__": lambda self: self.__reduce__()},
    {"__reduce__": lambda self: (leaving, ())},
    {"__setstate__": raising},
    {"__class__": property(lambda self: int)},
    {"__cause__": property(raising), "__context__": property(raising)},
    {"__dict__": property(raising)},
    {"args": property(raising)},
    {"add_note": raising, "with_traceback": raising},
    {"__eq__": raising, "__bool__": raising, "__hash__": None},
    {"__setattr__": raising},
    {"errno": [1]},
]


def fails(x):
    if x % 2:
        raise type("Odd", (OSError,), ODD[x // 2])("odd", x)
    return x


@pytest.mark.parametrize(
    ("kind", "workers", "policy"),
    [("thread", 0, "raise"), ("thread", 0, "skip"), ("thread", 1, "raise"), ("process", 1, "raise")],
)
def test_the_users_exception_arrives_whatever_it_is(kind, workers, policy):
    """By its own class, or by its name; never as a failure of the engine, and with no element lost."""
    count = 2 * len(ODD)
    given, raised = [], []
    with numbers(count, fails, worker_count=workers, worker_kind=kind, on_record_error=policy) as loader:
        it = iter(loader)
        while True:
            try:
                given.append(next(it))
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001 - its class may say anything of itself
                raised.append(type(error).__name__)
                it.set_state(it.state_past_error())
    assert given == [*range(0, count, 2)]
    if policy == "raise":
        assert len(raised) == len(ODD)
        assert {*raised} <= ({"Odd", "WorkerError"} if kind == "process" else {"Odd"})
