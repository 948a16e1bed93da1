"""The commands of 0.1 that are options of others: the same output, status and files, and the new line on stderr."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from small_archives import tar_of

from loaderkit import cli
from loaderkit.cli.former_commands import FORMER, REMOVED_IN

JOB = """
import loaderkit as lk

def loader():
    return lk.load(range(100), shuffle=True, seed=0, batch_size=2)
"""
CHOSEN = """
def late(record):
    return record["__key__"] > "000004"

def none(record):
    return False
"""
LINES = [
    ("verify x.tar", "check --only index x.tar"),
    ("verify --full --json x.tar -p 2", "check --only index x.tar --full --json --processes 2"),
    ("verify damaged.tar --ful", "check --only index damaged.tar --full"),
    ("lint x.tar y.tar --all --label=cls", "check --only training x.tar y.tar --all --label cls"),
    ("lint x.tgz --json", "check --only training x.tgz --json"),
    (
        "stats x.tar -f cls --voc 3 -o out.json",
        "inspect --values x.tar --fields cls --vocabulary 3 --output out.json",
    ),
    ("stats x.tar --json --quantiles 2 -p1", "inspect --values x.tar --json --quantiles 2 --processes 1"),
    ("first x.tar -f json.a --where chosen:late", "show --raw -n 1 x.tar --field json.a --where chosen:late"),
    ("first x.tar -f json --json", "show --raw -n 1 x.tar --field json --json"),
    ("first x.tar -f cls --where chosen:none", "show --raw -n 1 x.tar --field cls --where chosen:none"),
    ("table x.tar -f __key__,json.a -n 3", "show --tsv x.tar --field __key__,json.a --number 3"),
    ("table x.tar --fields=cls --no-header", "show --tsv x.tar --field cls --no-header"),
    ("table x.tar -f cls --json", "show --tsv x.tar --field cls --json"),
    ("preview x.tar -n 4 --output page.html", "show x.tar --number 4 --out page.html"),
    ("preview x.tar -o page.html --shuffle 3 --json", "show x.tar --out page.html --shuffle 3 --json"),
    ("cat x.tar y.tar -o new.tar --shuffle 7 -n 9", "convert x.tar y.tar new.tar --shuffle 7 --number 9"),
    ("cat -p 1 x.tar --out=new.tar --json", "convert x.tar new.tar --processes 1 --json"),
    ("cat x.tar -o -", "convert x.tar - --to tar"),
    ("sort y.tar x.tar -o new.tar", "convert y.tar x.tar new.tar --by __key__"),
    (
        "sort x.tar -k json.a --numeric --reverse -o new.tar",
        "convert x.tar new.tar --by json.a --numeric --reverse",
    ),
    ("cat x.tar -o new.bin --to tar", "convert x.tar new.bin --to tar --file"),
    ("split x.tar -n 12 -o part", "convert --prefix x.tar part --records 12"),
    (
        "split x.tar -s 20K -o part --max-shards 2",
        "convert --prefix x.tar part --size 20K --max-shards 2",
    ),
    ("create plan.tsv -C . -o new.tar", "convert --from-table plan.tsv new.tar --folder ."),
    ("records job:loader --step 7", "explain job:loader --step 7"),
]


def folder_of(path: Path) -> Path:
    path.mkdir()
    for name, first in ("x", 0), ("y", 30):
        keys = range(first, first + 30)
        fields = [(f"{key:06d}", {"cls": b"%d" % (key % 3), "json": b'{"a": %d}' % key}) for key in keys]
        tar_of(str(path / f"{name}.tar"), fields)
    (path / "damaged.tar").write_bytes((path / "x.tar").read_bytes())
    (path / "cat.txt").write_text("a cat")
    (path / "plan.tsv").write_text("0.txt\tcat.txt\n1.txt\ttext:two cats\n")
    (path / "job.py").write_text(JOB)
    (path / "chosen.py").write_text(CHOSEN)
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".tar", ".json", ".html", ".bin")
    }


def run_in(folder: Path, line: str, loaderkit, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    for name in ("job", "chosen"):
        sys.modules.pop(name, None)
    return loaderkit(*shlex.split(line))


@pytest.fixture
def both(tmp_path, loaderkit, monkeypatch):
    """Runs an old line and a new one, each in its own copy of the same folder."""

    def run(*lines):
        done = []
        for place, line in enumerate(lines):
            folder = folder_of(tmp_path / f"{place}")
            for name in ("x.tar", "damaged.tar"):
                run_in(folder, f"index {name}", loaderkit, monkeypatch)
            with open(folder / "damaged.tar", "r+b") as file:
                file.seek(5_000)
                file.write(b"!")
            done.append((run_in(folder, line, loaderkit, monkeypatch), files_of(folder)))
        return done

    return run


def test_a_line_of_each_former_command_is_tried():
    assert {line.split()[0] for line, _ in LINES} == {*FORMER}
    assert not {*FORMER} & {*cli.COMMANDS}


@pytest.mark.parametrize(("old", "new"), LINES)
def test_a_former_command_does_what_the_new_one_does(both, old, new):
    """Output, status and files are the same, and stderr has the line to write instead."""
    (before, old_files), (after, new_files) = both(old, new)
    assert (before.status, before.raw) == (after.status, after.raw)
    assert old_files == new_files
    said = f"loaderkit: warning: `loaderkit {old.split()[0]}` goes in {REMOVED_IN}; write: loaderkit {new}\n"
    assert before.err == said + after.err


def test_a_former_command_has_the_help_of_the_new_one(loaderkit):
    ran = loaderkit("lint", "--help")
    assert ran.status == 0 and ran.out.startswith("usage: loaderkit check")


def test_a_former_command_refuses_what_the_new_one_doesnt_know(loaderkit):
    """With the name of the new command, and what was wrong."""
    ran = loaderkit("verify", "x.tar", "--nothing")
    assert ran.status == 2 and ran.err.startswith("loaderkit check: ")
    assert "--nothing" in ran.err and "Traceback" not in ran.err


def test_a_former_command_repeats_no_secret(loaderkit, tmp_path):
    """Neither of a storage option nor of an address."""
    ran = loaderkit("verify", tmp_path / "none.tar", "--storage-option", "key=hidden")
    assert ran.status and "hidden" not in ran.err and "NAME=VALUE" in ran.err


def test_a_former_command_without_a_target_replaces_no_file(both):
    """Its last name is a file that it was to read."""
    ((ran, files), (_, before)) = both("cat x.tar y.tar --overwrite", "doctor --json")
    assert ran.status == 2 and "-o: expected" in ran.err and files == before


def test_check_does_both_where_there_is_an_index(both, loaderkit):
    """Its findings are those of the two; data that differs from its index isn't looked at further."""
    ((ran, _), (differs, _)) = both("check x.tar --json", "check damaged.tar --full --json")
    (told,) = ran.documents
    assert (told["shards"], told["records"], told["records_read"]) == (1, 30, 30)
    assert {"damaged-index", "unshuffled-labels"} <= {*told["checked"]}
    assert differs.status == 1 and differs.documents[0]["records_read"] == 0
    assert json.loads(differs.out)["findings"]


@pytest.mark.parametrize(
    "line",
    [
        "check x.tar --only index --all",
        "check x.tar --only training --full",
        "explain job:loader --state nothing",
        "explain job:loader --step 1 --seconds 3",
    ],
)
def test_options_that_exclude_each_other_are_named(both, line):
    ((ran, _),) = both(line)
    assert ran.status == 2 and "expected" in ran.err.splitlines()[-1]
