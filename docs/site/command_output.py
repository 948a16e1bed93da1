"""What the commands print: their lines are run, as a shell runs them, on small data that is made here."""

import contextlib
import io
import json
import re
import shlex
import tarfile
import tempfile
from pathlib import Path

import loaderkit as lk
from loaderkit.cli import main
from loaderkit.cli.exit_status import ExitStatus

_SHARDS = "'train-{000..001}.tar'"
# Command -> what is run, one line after the other. Of the other commands each machine has its own output.
LINES = {
    "inspect": [f"inspect {_SHARDS}", "inspect people.jsonl --values --vocabulary 2"],
    "show": [
        f"show {_SHARDS} -n 2",
        f"show {_SHARDS} --key -1 -f cls --json",
        f"show {_SHARDS} --tsv -f __key__,cls -n 3",
    ],
    "check": [f"check {_SHARDS}", f"check {_SHARDS} --only index --full"],
    "index": [f"index {_SHARDS} --keys", f"show {_SHARDS} --find 000073"],
    "convert": [
        "convert people.jsonl shuffled --shuffle 7 --shards 2",
        "convert train-000.tar part --prefix --records 20",
        "convert people.jsonl by-age.jsonl --by age --numeric --reverse",
        "show by-age.jsonl -n 1",
    ],
    "map": [
        "map 'train-000.tar[0:5]' -c 'tr a-z A-Z < sample.txt > sample.loud' -o loud.tar",
        "show loud.tar -n 1",
    ],
    "exclude": [
        'exclude people.jsonl blocked --key 7 --key 9 --reason "requests of May"',
    ],
    "cache": [
        "cache train-000.tar --cache kept --fetch --limit 1GB",
        "cache train-000.tar --cache kept --clear",
    ],
    "explain": [
        "explain training:loader --step 1000000",
        "explain training:loader --document 861 --until 1500",
    ],
    "state": [
        "state diff before.json after.json",
        "state verify after.json",
        "state edit after.json --seek 71 -o next.json",
    ],
}
# What a line names -> what it holds.
_DATA = {
    "train-": "the shards hold 50 texts each, and a label of each",
    "people.jsonl": "`people.jsonl` has the ages of 100 people, and their pets",
    "training:": "`training.py` returns a loader of 1,000 records in batches of 2",
    "before.json": "the two states are of steps 0 and 70 of a loader",
}
_TRAINING = """
import loaderkit as lk

def loader():
    return lk.load(range(1000), shuffle=True, seed=0, batch_size=2)
"""
_DIGEST = re.compile(r"[0-9a-f]{64}")  # of a file with the time at which it was made


def data(command: str) -> str:
    """What the lines of a command are run on.

    >>> data("state")
    'These lines ran when this page was made: the two states are of steps 0 and 70 of a loader.'
    """
    lines = " ".join(LINES[command])
    return f"These lines ran when this page was made: {'; '.join(_DATA[name] for name in _DATA if name in lines)}."


def printed(command: str) -> str:
    """What a shell shows of a command: each of its lines behind a prompt, and what it printed.

    >>> print(printed("state"))
    $ loaderkit state diff before.json after.json
    field  first  second
    step   0      70
    index  0      140
    $ echo $?
    1
    $ loaderkit state verify after.json
    1 file of step 70: nothing is wrong
    $ loaderkit state edit after.json --seek 71 -o next.json
    next.json: step 71, index 142
    """
    shown = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _write_data()
        for line in LINES[command]:
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                try:
                    status = main(shlex.split(line))
                except SystemExit as error:
                    status = error.code if isinstance(error.code, int) else int(error.code is not None)
            if status > ExitStatus.FINDINGS:
                raise RuntimeError(f"loaderkit {line}: exit status {status}: {out.getvalue()}")
            shown += [f"$ loaderkit {line}", out.getvalue().rstrip("\n")]
            if status:
                shown += ["$ echo $?", str(status)]
    return _DIGEST.sub("…", "\n".join(shown))


def _write_data() -> None:
    for shard in range(2):
        with tarfile.open(f"train-{shard:03}.tar", "w") as archive:
            for number in range(50 * shard, 50 * shard + 50):
                text = f"text {number} says: {'again and ' * (number % 7)}done"
                for field, value in {"txt": text, "cls": str(shard)}.items():
                    member = tarfile.TarInfo(f"{number:06}.{field}")
                    member.size = len(value)
                    archive.addfile(member, io.BytesIO(value.encode()))
    people = [{"age": number % 50, "pet": "cat" if number % 3 else "dog"} for number in range(100)]
    Path("people.jsonl").write_text("".join(json.dumps(each) + "\n" for each in people))
    Path("training.py").write_text(_TRAINING)
    with iter(lk.load(range(1000), shuffle=True, seed=0, batch_size=2)) as it:
        Path("before.json").write_bytes(it.get_state())
        it.seek(70)
        Path("after.json").write_bytes(it.get_state())
