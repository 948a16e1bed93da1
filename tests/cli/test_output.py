"""Tables: on a terminal, and without one."""

import os
import pty
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

TABLE = """
import sys
if {without_rich}:
    sys.modules["rich"] = None
from loaderkit.cli.output import Output
out = Output()
out.table(["field", ">records"], [["[bold]\\x1b[31mjpg", "12"]], title="fields")
out.facts([("records", "12")])
with out.progress("shards", 3) as advance:
    advance(3)
"""


def on_a_terminal(code):
    """What a program writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=environment, check=True)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 1 << 16):
            shown += part
    except OSError:  # what Linux says at the end of a terminal
        pass
    os.close(ours)
    return shown.decode()


def test_a_terminal_gets_a_table():
    """With lines and colours; what a file says is neither markup nor a command to the terminal."""
    shown = on_a_terminal(TABLE.format(without_rich=False))
    assert "\x1b[" in shown and "─" in shown
    assert "[bold]\\x1b[31mjpg" in shown


def test_without_rich_it_is_aligned_text():
    """On a terminal, too."""
    shown = on_a_terminal(TABLE.format(without_rich=True))
    assert "\x1b" not in shown
    assert shown.replace("\r", "") == (
        "fields\nfield              records\n[bold]\\x1b[31mjpg       12\n  records  12\n"
    )


def test_a_bar_of_unknown_length_counts():
    """A generator is written: how many records there were, then the bar goes."""
    shown = on_a_terminal(
        "import os, tempfile\n"
        "import loaderkit as lk\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    lk.write((b'x' for _ in range(1234)), os.path.join(folder, 'x.tfrecord'))\n"
    )
    assert "records" in shown and "1,234" in shown and "/s" in shown
