"""What a command of a shell gives, as it comes."""

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator

from loaderkit.errors import StorageError

_SIGPIPE = 141  # exit status of a pipeline of which a later command has read enough


@contextlib.contextmanager
def output_of(command: str, shown: str) -> Iterator[Callable[[int], bytes]]:
    """Runs a command, which ends with the block; gives what reads so many bytes of its output, fewer at its end.

    Args:
        command: for bash where there is one, else sh. StorageError at the end of its output where it fails, with bash
            also in the midst of a pipeline, of which the output would look whole.
        shown: what an error calls it, as it may hold a secret.

    >>> with output_of("echo a; echo b", "a command") as read:
    ...     read(3), read(3), read(3)
    (b'a\\nb', b'\\n', b'')
    """
    bash = shutil.which("bash")
    shell = [bash, "-o", "pipefail"] if bash else ["sh"]
    with subprocess.Popen(
        [*shell, "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        output = process.stdout

        def read(length: int) -> bytes:
            data = output.read(length)
            if not data and (status := process.wait()) not in (0, _SIGPIPE):
                raise StorageError(
                    f"{shown}: expected exit status 0 of the command, got {status}; its stderr says more"
                )
            return data

        try:
            yield read
        finally:
            output.close()
            process.terminate()
