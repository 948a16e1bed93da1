"""Other libraries, one a room, each imported when it is first asked for."""

from typing import TYPE_CHECKING

from loaderkit._base.lazy_package import importing as _importing
from loaderkit._base.lazy_package import public_names as _public_names

if TYPE_CHECKING:
    from . import grain as grain
    from . import jax as jax
else:
    __getattr__ = _importing(__name__, ["grain", "jax"])


def __dir__() -> list[str]:
    return _public_names(globals(), ["grain", "jax"])
