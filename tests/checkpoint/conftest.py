"""The first uvloop that Orbax makes opens a pipe for good: it is opened before any test is watched."""

import contextlib

with contextlib.suppress(ImportError):
    import uvloop

    uvloop.new_event_loop().close()
