"""`lk.interop.tqdm.progress`: a bar of tqdm over a loader's iterator."""

from __future__ import annotations

from typing import Any

from loaderkit._base.extras import missing_library
from loaderkit._engine.stats.text import percent, rate


def progress(it: Any, **tqdm_options: Any) -> Any:
    """A bar of tqdm over an iterator: right after a resume, with the share of the time in which next() was blocked.

    The bar begins at `it.step` and ends at `it.step + it.remaining`, so restore before you make it; an endless stream
    has no total. Where rows of tokens are packed it has the tokens a second, too. The share is that of
    `it.stats().waiting`, asked for when the bar is drawn; under JAX a blocked next() needn't mean an idle device. Your
    own `bar.set_postfix(loss=...)` stands before it.

    Args:
        it: of a loader, or a `device_iterator`.
        tqdm_options: `desc`, `mininterval` and the others of tqdm; they go before what is said above.

    TypeError for another iterator or a loader; ImportError naming the extra where tqdm isn't installed.

    >>> import io
    >>> import loaderkit as lk
    >>> it = iter(lk.load(range(64), num_epochs=1, batch_size=8))
    >>> it.seek(3)
    >>> bar = progress(it, file=io.StringIO())
    >>> bar.n, bar.total, len(list(bar))
    (3, 8, 5)
    """
    if not all(hasattr(it, name) for name in ("__next__", "step", "remaining", "stats")):
        raise TypeError(
            f"it: expected an iterator of a loader or a device_iterator, got {type(it).__name__}; "
            "write lk.interop.tqdm.progress(iter(loader))"
        )
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise missing_library("lk.interop.tqdm.progress needs", "tqdm", "progress") from error

    class Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
        @property
        def format_dict(self) -> dict[str, Any]:
            shown: dict[str, Any] = super().format_dict
            stats = self.iterable.stats()
            said = [shown["postfix"]] if shown["postfix"] else []
            said += [] if stats.tokens_per_second is None else [rate(stats.tokens_per_second, "tokens")]
            said += [] if stats.waiting is None else [f"blocked {percent(stats.waiting)}"]
            shown["postfix"] = ", ".join(said)
            return shown

    total = None if it.remaining is None else it.step + it.remaining
    return Bar(it, **{"initial": it.step, "total": total, **tqdm_options})
