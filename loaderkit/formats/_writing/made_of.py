"""What decides the bytes of a job's results, by name: a run that was killed goes on only where all is the same."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from loaderkit._source.version import version_of

from .function_text import FunctionText


def made_of(
    source: Any,
    functions: dict[str, Callable[..., Any] | None],
    *,
    version: str | int | None,
    writer: int,
    arguments: dict[str, Any],
    modules: Sequence[str] = (),
) -> dict[str, Any]:
    """What results are made of, as JSON values: source, function, libraries, writer, arguments.

    Args:
        source: any data source; its functions count, too.
        functions: the user's, by the names of the arguments.
        version: of the functions, in place of their text; None to compare the text. TypeError for another type.
        writer: the number of the algorithm, another one for a change that changes a byte.
        arguments: JSON values.
        modules: libraries that write.

    >>> made_of([1, 2], {"function": abs}, version=None, writer=1, arguments={"shards": 2})["arguments"]
    {'shards': 2}
    """
    if isinstance(version, bool) or not isinstance(version, str | int | None):
        raise TypeError(f"version: expected a text, an int or None, got {version!r:.80}")
    libraries = {name: str(getattr(import_module(name), "__version__", "")) for name in modules}
    text = FunctionText(functions, source) if version is None else None
    return {
        "source": version_of(source),
        "function": {"version": version} if text is None else text.as_json(),
        "libraries": {
            "python": "{}.{}".format(*sys.version_info),
            **libraries,
            **({} if text is None else text.libraries),
        },
        "writer": writer,
        "arguments": arguments,
    }
