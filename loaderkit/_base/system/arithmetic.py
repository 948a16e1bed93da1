"""What the arithmetic of a thread depends on besides its operands, and a new thread or process doesn't take over."""

import contextlib
import contextvars
import ctypes
import sys
from typing import Any

import numpy as np

from .dataclasses import dataclass

_FENV_BYTES = 64  # at least those of the C library's fenv_t, 32 on x86-64


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Of a thread: the processor's control words, numpy's error state, decimal's context, and the process's locale.

    Args:
        words: rounding and whether tiny numbers are flushed to zero, as the C library's fenv_t; b"" if unknown.
        errors: what `np.seterr` set; "warn" for what calls a function, which stays with the thread that set it.
        decimal: the present context; None where decimal isn't imported.
        locale: of the process; None where `locale` isn't imported.

    >>> with np.errstate(divide="raise"):
    ...     Arithmetic.of_this_thread().errors["divide"]
    'raise'
    """

    words: bytes
    errors: dict[str, Any]
    decimal: Any
    locale: str | None

    @classmethod
    def of_this_thread(cls) -> "Arithmetic":
        """The present ones."""
        words = ctypes.create_string_buffer(_FENV_BYTES)
        try:
            known = ctypes.CDLL(None).fegetenv(words) == 0
        except (AttributeError, OSError):  # an interpreter without the symbol
            known = False
        decimal, locale = sys.modules.get("decimal"), sys.modules.get("locale")
        return cls(
            words=words.raw if known else b"",
            errors={kind: "warn" if does in ("call", "log") else does for kind, does in np.geterr().items()},
            # In a copy of the thread's context, for it makes an entry there: then each ufunc looks for numpy's own one.
            decimal=None if decimal is None else contextvars.copy_context().run(decimal.getcontext).copy(),
            locale=None if locale is None else locale.setlocale(locale.LC_ALL),
        )

    def apply(self) -> None:
        """Sets them in the calling thread, and the locale of a process that has another."""
        if self.words:
            ctypes.CDLL(None).fesetenv(self.words)
        np.seterr(**self.errors)
        if self.decimal is not None:
            import decimal

            decimal.setcontext(self.decimal.copy())
        if self.locale is not None:
            import locale

            if locale.setlocale(locale.LC_ALL) != self.locale:
                with contextlib.suppress(locale.Error):
                    locale.setlocale(locale.LC_ALL, self.locale)
