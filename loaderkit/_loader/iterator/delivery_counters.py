"""What the user of a stream was given, counted from positions, which an interrupt leaves right."""

from typing import Any, Generic, NamedTuple, Self

from loaderkit._plan.stream_plan import P, StreamPlan


class DeliveryCounters(NamedTuple, Generic[P]):
    """What was handed out until a position.

    elements, records, bad_records: how many; records are this process's. at: the position, or where a move from it led.
    """

    elements: int
    records: int
    bad_records: int
    at: P

    def until(self, position: P, plan: StreamPlan[Any]) -> Self:
        """With what came up to a later position of a plan."""
        records, bad_records = plan.counts_between(self.at, position)
        elements = self.elements + position.step - self.at.step
        return type(self)(elements, self.records + records, self.bad_records + bad_records, position)
