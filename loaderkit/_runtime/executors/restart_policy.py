"""The settings of a user for lost and late workers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How many lost and late workers are accepted.

    restarts      workers that may be lost at the same records before that is an error
    timeout       seconds that a worker may go without progress, None for any number
    restart_late  whether a worker that takes longer is replaced; else that is an error
    """

    restarts: int
    timeout: float | None
    restart_late: bool
