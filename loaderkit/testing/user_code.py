"""Copies of a user's code in a loader as it was before it ran, so that no run has what another one kept."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from loaderkit._loader.settings import LoaderSettings
from loaderkit.sources.mapped import MapFunctions
from loaderkit.transforms.base import operation_name

from .workers import copies_of


class UserCode:
    """A loader's operations, its function for bad records, and those of MapDataSources in its source, as they are now.

    Args:
        settings: the loader's. The data of its source isn't copied.

    shared: names of those that can't be copied, which all runs share.

    >>> from loaderkit.samplers import SequentialSampler
    >>> from loaderkit.transforms import Map
    >>> operation = Map(lambda x, seen=[]: seen.append(x) or len(seen))
    >>> code = UserCode(LoaderSettings(source=[5], sampler=SequentialSampler(1), operations=(operation,)))
    >>> for _ in range(2):
    ...     with code.unused() as settings:
    ...         print(settings["operations"][0].map(7))
    1
    1
    """

    def __init__(self, settings: LoaderSettings) -> None:
        self.of_source = MapFunctions(settings.source)
        self._count = len(settings.operations)
        self._parts = [*settings.operations, *self.of_source.functions, settings.on_record_error]
        self._names = [operation_name(place, each) for place, each in enumerate(settings.operations)]
        self._names += [*(name for name, _ in self.of_source.parts), "on_record_error"]
        self.shared: tuple[str, ...] = ()
        # All at once, as they travel to a worker: they may have an object in common.
        together = _copier(self._parts)
        if together is not None:
            self._copies = together
        else:
            self._copy_each([_copier(part) for part in self._parts])

    def _copy_each(self, copiers: Sequence[Callable[[], Any] | None]) -> None:
        self._copies = lambda: [one if copy is None else copy() for one, copy in zip(self._parts, copiers)]
        self.shared = tuple(name for name, copier in zip(self._names, copiers, strict=True) if copier is None)

    def share(self) -> None:
        """Gives all runs the user's own objects: a copy may not know an object of the source by its identity."""
        self._put_back()
        self._copy_each([None] * len(self._parts))

    def __enter__(self) -> "UserCode":
        return self

    def __exit__(self, *exception: object) -> None:
        self._put_back()

    def _put_back(self) -> None:
        """Makes a script's classes as they were, which making copies does."""
        with suppress(Exception):  # the user's reduce may raise anything
            self._copies()

    @contextmanager
    def unused(self) -> Iterator[dict[str, Any]]:
        """Copies that haven't run, as settings of a loader; while it lasts the source has those of its functions."""
        *parts, on_record_error = self._copies()
        with self.of_source.replaced(parts[self._count :]):
            yield {"operations": tuple(parts[: self._count]), "on_record_error": on_record_error}


def _copier(part: Any) -> Callable[[], Any] | None:
    """None where it can't be copied, as an operation that only threads can run."""
    try:
        copy, _ = copies_of(part)
        copy()  # there are pickles that can't be loaded
    except Exception:  # noqa: BLE001 - the user's reduce may raise anything
        return None
    return copy
