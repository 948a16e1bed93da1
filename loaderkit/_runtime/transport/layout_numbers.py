"""The numbers by which a worker knows the layouts of its tasks; each is sent once, and then its number."""

from loaderkit._engine.task import Task, inputs_of, targets_of
from loaderkit._runtime.memory.batch_layout import BatchLayout

# That a worker remembers. Without a limit its memory would grow with batches of ever new shapes; a smaller one sends
# the layouts of loaders with many shapes again and again.
_MOST_LAYOUTS = 64


class LayoutNumbers(dict[BatchLayout, int]):
    """What one worker was told."""

    def tell(self, task: Task) -> list[tuple[int, BatchLayout]]:
        """The layouts of a task that the worker must be told now, with their numbers.

        Of too many, the oldest that this task doesn't need loses its number.
        """
        needed = [*(target.layout for target in targets_of(task)), *(span.layout for span in inputs_of(task))]
        told = []
        for layout in needed:
            if isinstance(layout, BatchLayout) and layout not in self:
                number = len(self)
                if number >= _MOST_LAYOUTS:
                    oldest = next((known for known in self if known not in needed), None)
                    if oldest is not None:
                        number = self.pop(oldest)
                self[layout] = number
                told.append((number, layout))
        return told
