"""The workers that may be given a task, by how many each has. A call takes the same time for any number of them."""

from collections.abc import Hashable


class FreeWorkers:
    """Which of the workers has the fewest tasks.

    >>> free = FreeWorkers()
    >>> free.put("a", 2), free.put("b", 1), free.least()
    (None, None, 'b')
    >>> free.put("b", 3), free.least(), free.remove("a"), "a" in free, free.least()
    (None, 'a', None, False, 'b')
    """

    def __init__(self) -> None:
        self._tasks: dict[Hashable, int] = {}
        # By number of tasks, in the order in which they came to it.
        self._with: list[dict[Hashable, None]] = [{}]
        self._fewest = 0  # none has fewer; some may have more

    def __contains__(self, worker: Hashable) -> bool:
        return worker in self._tasks

    def put(self, worker: Hashable, tasks: int) -> None:
        """A worker, known or new, has so many tasks now."""
        self.remove(worker)
        while len(self._with) <= tasks:
            self._with.append({})
        self._tasks[worker] = tasks
        self._with[tasks][worker] = None
        self._fewest = min(self._fewest, tasks)

    def remove(self, worker: Hashable) -> None:
        """A worker, known or not, is given no tasks for now."""
        tasks = self._tasks.pop(worker, None)
        if tasks is not None:
            del self._with[tasks][worker]

    def least(self) -> Hashable:
        """One with the fewest tasks, None where there is no worker."""
        if not self._tasks:
            return None
        while not self._with[self._fewest]:
            self._fewest += 1
        return next(iter(self._with[self._fewest]))
