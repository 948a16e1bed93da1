"""What a loader shows of itself: methods that describe, follow, explain and debug it, on copies of the loader."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from loaderkit.observe.describe import Description
    from loaderkit.observe.explanation import Explanation
    from loaderkit.observe.follow import Followed

    from .loader import DataLoader
    from .settings import LoaderSettings


class LoaderInspection:
    """The methods of a DataLoader that look inside. What they need is imported when they are called."""

    _settings: "LoaderSettings"

    def describe(self) -> "Description":
        """What this loader does, part by part, with what an element looks like behind each operation; text and HTML.

        >>> import loaderkit as lk
        >>> "operations[0] Map(float)" in str(lk.load([5, 6], transformations=[float]).describe())
        True
        """
        from loaderkit.observe.describe import describe

        return describe(cast("DataLoader[Any]", self))

    def follow(self, index: int) -> "Followed":
        """What becomes of the record of an index: its key, each operation's time, result and random key, step and row.

        Args:
            index: place in the stream of all epochs. IndexError where there is none such.

        >>> import loaderkit as lk
        >>> lk.load([5, 6], transformations=[lambda x: x * x]).follow(1).value
        36
        """
        from loaderkit.observe.follow import follow

        return follow(cast("DataLoader[Any]", self), index)

    def explain(self, step: Any = None, seconds: float = 20.0) -> "Explanation":
        """Whether this loader is the bottleneck, what limits it and what to change, by experiments on copies of it.

        Args:
            step: the training step, a function of a batch; without it nothing is known of the trainer.
            seconds: for all experiments.

        Raises RuntimeError while an iterator of the loader is open: they share the processors.

        >>> import loaderkit as lk
        >>> lk.load(range(1000), batch_size=10).explain(lambda batch: None, seconds=1).limit.kind != ""
        True
        """
        from loaderkit.observe.explain import explain_loader

        return explain_loader(cast("DataLoader[Any]", self), step, seconds)

    def debug(self) -> Self:
        """The same stream for a debugger: this thread works, row by row, and `breakpoint()` stops in an operation.

        Its bad records aren't those of a run: none is written to the quarantine.

        >>> import loaderkit as lk
        >>> next(iter(lk.load([5, 6], worker_count=2).debug()))
        5
        """
        from .loader import variant_of

        variant = variant_of(
            cast("DataLoader[Any]", self),
            worker_count=0,
            task_rows=1,
            quarantine=None,
            read_options=replace(self._settings.read_options, num_threads=0),
        )
        return cast(Self, variant)
