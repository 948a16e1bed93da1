"""Damaged state files on disk: an error that names file and field, the position where it was, and no code run."""

import ast
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from refusals import loader_of

import loaderkit as lk
from loaderkit._loader.state_files import document_name, restore_from, write_document

PACKAGE = Path(lk.__file__).parent


def saved() -> tuple[dict[str, Any], str]:
    """A sound state of the loader below, as a document and as its text."""
    it = iter(loader_of(lk.Batch(2)))
    next(it)
    text = it.get_state().decode()
    return json.loads(text), text


DOCUMENT, TEXT = saved()


def unsigned(**fields: Any) -> bytes:
    """The document with other fields and no digest, as edited by hand."""
    return json.dumps({**{k: v for k, v in DOCUMENT.items() if k != "digest"}, **fields}).encode()


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "state: expected JSON"),
    "truncated": (TEXT.encode()[:200], "state: expected JSON"),
    "truncated by the last line": (TEXT.encode()[:-3], "state: expected JSON"),
    "zeros, as a crashed disk leaves": (bytes(len(TEXT)), "state: expected JSON"),
    "garbage": (bytes(range(256)), "state: expected JSON in UTF-8"),
    "UTF-16": (TEXT.encode("utf-16"), "state: expected JSON in UTF-8"),
    "Latin-1": (TEXT.replace("loaderkit", "löaderkit").encode("latin-1"), "state: expected JSON in UTF-8"),
    "a byte order mark": (b"\xef\xbb\xbf" + TEXT.encode(), "state: expected JSON"),
    "two documents": ((TEXT + TEXT).encode(), "state: expected JSON"),
    "a list": (b"[]", "state: expected a JSON object"),
    "NaN": (unsigned(step=float("nan")), "state: expected finite numbers, got NaN"),
    "infinity": (unsigned(step=float("-inf")), "state: expected finite numbers, got -Infinity"),
    "a float": (unsigned(step=1.0), "step: expected an integer"),
    "a bool": (unsigned(step=True), "step: expected an integer"),
    "a text": (unsigned(step="1"), "step: expected an integer"),
    "negative": (unsigned(step=-1), "step: expected an integer from 0"),
    "huge": (unsigned(step=2**63), "step: expected an integer from 0 to 2\\*\\*63 - 1"),
    "more digits than int() takes": (
        unsigned().replace(b'"step": 1', b'"step": ' + b"9" * 5000),
        "integers of at most 64 bits, got one of 5000 characters",
    ),
    "a negative cursor": (unsigned(cursors=[[-2]]), r"cursors\[0\]\[0\]: expected an integer from 0"),
    "a cursor elsewhere": (unsigned(cursors=[[4]]), "cursors: .*got 4"),
    "two cursors": (unsigned(cursors=[[2], [2]]), r"cursors: expected \[\[index\]\]"),
    "a segment of nothing": (unsigned(segments=[[0, 0, 0]]), r"segments\[0\].stride: expected an int from 1"),
    "segments in disorder": (unsigned(segments=[[0, 0, 2], [0, 0, 2]]), r"segments\[1\].first_step"),
    "a key twice": (TEXT.replace('"step": 1', '"step": 1, "step": 2').encode(), "'step' twice"),
    "deep": (unsigned(source=deep(40)), "expected at most 32 levels"),
    "deeper than the stack": (b'{"a": ' + b"[" * 100_000, "expected at most 32 levels"),
    "an older format": (unsigned(format_version=0), "format_version: expected an integer from 1"),
    "a newer format": (unsigned(format_version=99), "format_version: .*got 99.*upgrade"),
    "a newer stream": (unsigned(stream_version=2), "stream_version: .*got 2.*upgrade"),
    "a flipped digit": (TEXT.replace('"step": 1', '"step": 3').encode(), "digest: .*altered"),
    "a flipped digit of the digest": (
        TEXT.replace(DOCUMENT["digest"], DOCUMENT["digest"][:-1] + "g").encode(),
        "digest: expected sha256:",
    ),
    "a field too many": (unsigned(offset=3), "unknown fields .*offset"),
    "a field too few": (unsigned(cursors=None), "cursors: expected"),
    "a pickle": (pickle.dumps({"step": 1}), "state: expected JSON in UTF-8"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused_by_file_and_field(tmp_path, name):
    """One type of error, and the iterator stays where it is and goes on."""
    content, says = FILES[name]
    write_document(tmp_path, content)
    it = iter(loader_of(lk.Batch(2)))
    first = next(it)
    before = it.get_state()
    with pytest.raises(lk.errors.StateError, match=says) as error:
        restore_from(it, tmp_path, ())
    (note,) = error.value.__notes__
    assert str(tmp_path / "process_0-of-1.json") in note
    assert it.get_state() == before
    it.seek(0)
    assert next(it).tobytes() == first.tobytes()


def test_of_several_files_the_damaged_one_is_named(tmp_path):
    """Where rows change in number each process wrote a part; the error says which part is wrong."""
    options = {"sampler": lk.IndexSampler(10, seed=0), "logical_streams": 2}
    shards = [
        iter(loader_of(lk.Filter(bool), lk.Batch(2), shard_options=lk.ShardOptions(k, 2), **options))
        for k in range(2)
    ]
    for place, shard in enumerate(shards):
        next(shard)
        (tmp_path / document_name(place, 2)).write_bytes(shard.get_state())
    alone = iter(loader_of(lk.Filter(bool), lk.Batch(4), **options))
    restore_from(alone, tmp_path, ())
    assert alone.step == 1
    second = tmp_path / document_name(1, 2)
    second.write_bytes(second.read_bytes().replace(b'"step": 1', b'"step": 7'))
    with pytest.raises(lk.errors.StateError, match="digest") as error:
        restore_from(alone, tmp_path, ())
    assert any("document 1" in note for note in error.value.__notes__)
    assert any(str(second) in note for note in error.value.__notes__)


@pytest.mark.parametrize("index", [2**62 + 1, 2**63 - 1])
def test_a_cursor_where_nothing_can_be_planned_is_refused(index):
    """Not by the next(), when it would be too late to say which state it was."""
    it = iter(loader_of(lk.Filter(bool), lk.Batch(2), sampler=lk.IndexSampler(10, seed=0)))
    document = json.loads(it.get_state())
    del document["digest"]
    document["cursors"] = {"0": [index]}
    with pytest.raises(
        lk.errors.StateError, match=rf"cursors.0: expected an index up to 2\*\*62, got {index}"
    ):
        it.set_state(json.dumps(document).encode())


WATCHED = """
import contextlib, sys
from pathlib import Path
import loaderkit as lk
from loaderkit._loader.state_files import restore_from

folder = Path(sys.argv[1])
it = iter(lk.load(range(10), batch_size=2, num_epochs=1))
places = sorted(folder.iterdir())
for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"):
    "".encode(encoding)  # json looks for them
for place in places:  # what is imported or compiled once is there
    with contextlib.suppress(lk.errors.StateError):
        restore_from(it, place, ())
seen = []
watched = ("pickle.find_class", "exec", "compile", "marshal.loads", "os.system", "subprocess.Popen", "import")
sys.addaudithook(lambda event, arguments: seen.append((event, repr(arguments)[:200])) if event in watched else None)
for place in places:
    try:
        restore_from(it, place, ())
    except lk.errors.StateError:
        pass
    else:
        raise AssertionError(place)
assert not seen, seen
"""


class Evil:
    """What a pickle would do if anybody loaded it."""

    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('code of a checkpoint was run')",)


@pytest.mark.slow
def test_no_state_runs_code(tmp_path):
    """The interpreter itself is asked: no pickle, no compilation, no import, no process, whatever the file holds."""
    contents = [pickle.dumps(Evil(), protocol=protocol) for protocol in range(6)]
    contents += [b"__import__('os').system('false')", unsigned(step={"py/object": "os.system"})]
    contents += [content for content, _ in FILES.values()]
    for number, content in enumerate(contents):
        (tmp_path / str(number)).mkdir()
        write_document(tmp_path / str(number), content)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(tmp_path)],
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_whoever_reads_states_has_no_unpickler():
    """The rooms on the way from a file to a position import nothing that could make code of data."""
    able = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "importlib", "runpy", "code"}
    rooms = ("_base", "_order", "_order/mixture", "_plan", "_plan/state", "_loader/iterator", "samplers")
    files = [
        file
        for room in rooms
        for file in (PACKAGE / room).glob("*.py")
        if file.name not in ("lazy_package.py", "former.py")
    ]
    files += [PACKAGE / "checkpoint.py", PACKAGE / "_loader/state_files.py"]
    for file in files:
        tree = ast.parse(file.read_bytes())
        named = {
            alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        named |= {
            (node.module or "").partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
        }
        called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & {
            "eval",
            "exec",
            "__import__",
        }
        assert not named & able and not called, file
