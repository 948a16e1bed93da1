"""How many lost and late workers a loader accepts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """What is put up with from workers.

    restarts      workers that may be lost at the same records before that is an error
    timeout       seconds that one may be at the same work, None for any number
    restart_late  whether one that takes longer is replaced; else that is an error
    """

    restarts: int
    timeout: float | None
    restart_late: bool
