"""Scripts as a user runs them: a file, a fresh interpreter, a process group of its own; and who of the group lives."""

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENDS_WITHIN = 20.0  # seconds for a whole script, start included, on a busy machine
DIES_WITHIN = 3.0  # seconds for a worker behind its trainer


@dataclass
class Script:
    """A script that runs. `stop` must be called."""

    process: "subprocess.Popen[str]"

    def line(self) -> str:
        """Waits for its next line of output."""
        assert self.process.stdout is not None
        out, got = self.process.stdout.fileno(), b""
        while not got.endswith(b"\n"):
            if not select.select([out], [], [], ENDS_WITHIN)[0]:
                raise TimeoutError(f"the script wrote {got!r} and no more")
            if not (byte := os.read(out, 1)):
                raise EOFError(f"the script ended after {got!r}")
            got += byte
        return got.decode().strip()

    def interrupt(self) -> None:
        """What Ctrl-C does: SIGINT to every process of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self) -> tuple[int, str, str]:
        """Waits for its end: exit code, the rest of its output, and its stderr."""
        out, err = self.process.communicate(timeout=ENDS_WITHIN)
        return self.process.returncode, out, err

    def members(self) -> list[int]:
        """The pids of its group that live, its own aside."""
        return [pid for pid in _pids() if pid != self.process.pid and _group(pid) == self.process.pid]

    def stop(self) -> None:
        """Ends what is left of it."""
        for pid in [*self.members(), *([self.process.pid] if self.process.poll() is None else [])]:
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()


def start(folder: Path, text: str, *arguments: object) -> Script:
    """Starts a script. It sees the package and the modules beside it, and every warning is an error to it."""
    path = folder / "script.py"
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(path), *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return Script(subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes))


def run(folder: Path, text: str, *arguments: object) -> str:
    """Runs a script that must end well, without a word on stderr and without leaving a process; its output."""
    script = start(folder, text, *arguments)
    try:
        code, out, err = script.finish()
        assert (code, err) == (0, ""), f"exit code {code}, stderr:\n{err}"
        assert still_alive(script.members()) == []
    finally:
        script.stop()
    return out


def still_alive(pids: list[int], within: float = DIES_WITHIN) -> list[int]:
    """Those that haven't ended after so many seconds."""
    deadline = time.monotonic() + within
    return [pid for pid in pids if not _ends_before(pid, deadline)]


def _ends_before(pid: int, deadline: float) -> bool:
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], max(0.0, deadline - time.monotonic()))[0])
    finally:
        os.close(watch)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _group(pid: int) -> int | None:
    try:
        state, _, group = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:3]
    except OSError:
        return None
    return None if state == "Z" else int(group)
