"""The two methods of Orbax's newer interface, StatefulCheckpointable."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from loaderkit._loader.state_files import StatefulIterator


class OrbaxMethods:
    """Saves and restores through `loaderkit._loader.state_files`, which is imported then."""

    async def save(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: takes the position now; the coroutine that is returned writes it."""
        from loaderkit._loader.state_files import save_async

        return await save_async(cast("StatefulIterator", self), directory)

    async def load(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: restores the position saved there with `self.allow`, and prefetches."""
        from loaderkit._loader.state_files import load_async

        return await load_async(cast("StatefulIterator", self), directory)
