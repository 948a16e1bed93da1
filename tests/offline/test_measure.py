"""lk.offline.measure: a value for each record in an array file, made once, and continued after a kill."""

import contextlib
import dataclasses
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._base.canonical_json import sealed
from loaderkit.offline.array_file import open_array
from loaderkit.offline.measuring import BATCH, SAVED_EVERY

RECORDS = 3 * BATCH + 7


class Named:
    """Numbers with names; some raise."""

    def __init__(self, records=RECORDS, bad=()):
        self.records, self.bad = records, bad
        self.reads = []

    def __len__(self):
        return self.records

    def __getitem__(self, key):
        self.reads.append(key)
        if key in self.bad:
            raise OSError("truncated")
        return key

    def name(self, record_key):
        return f"file-{record_key}"

    def fingerprint(self):
        return {"records": self.records}


def double(record):
    return 2 * record


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "values.npy")


def test_it_is_a_file_that_numpy_reads(path):
    values = lk.offline.measure(Named(), double, path)
    assert values.tolist() == np.load(path).tolist() == np.load(path, mmap_mode="r").tolist()
    assert values.tolist() == [2 * key for key in range(RECORDS)]
    assert values.dtype == np.int64
    assert not values.flags.writeable
    assert os.listdir(os.path.dirname(path)) == ["values.npy"]


@pytest.mark.parametrize(
    ("fn", "dtype"),
    [
        (lambda key: key % 2 == 0, np.bool_),
        (lambda key: key / 3, np.float64),
        (np.float32, np.float32),
        (np.uint16, np.uint16),
        (lambda key: np.array(key, np.int8), np.int8),
    ],
)
def test_numbers_keep_their_dtype(path, fn, dtype):
    values = lk.offline.measure(Named(100), fn, path)
    assert values.dtype == dtype
    assert values.tolist() == [fn(key).item() if hasattr(fn(key), "item") else fn(key) for key in range(100)]


def test_labels_are_numbered_by_first_use(path):
    codes = lk.offline.measure(Named(), lambda key: "cba"[key * 3 // RECORDS], path)
    assert codes.dtype == np.int32
    assert lk.offline.read_labels(path) == ["c", "b", "a"]
    assert codes.tolist() == [key * 3 // RECORDS for key in range(RECORDS)]


def test_labels_of_numbers_is_an_error(path):
    lk.offline.measure(Named(3), double, path)
    with pytest.raises(
        ValueError, match=r"values.npy: expected values of a function that gives labels, got numbers"
    ):
        lk.offline.read_labels(path)


def test_workers_give_the_same_bytes(path, tmp_path):
    lk.offline.measure(Named(), lambda key: "cba"[key % 3], path)
    lk.offline.measure(Named(), lambda key: "cba"[key % 3], str(tmp_path / "other"), worker_count=2)
    assert (tmp_path / "other").read_bytes() == Path(path).read_bytes()


def test_a_second_call_reads_a_few_records_only(path):
    lk.offline.measure(Named(), double, path)
    source = Named()
    assert lk.offline.measure(source, double, path)[-1] == 2 * (RECORDS - 1)
    assert len(source.reads) <= 3


def test_another_source_is_an_error_that_names_both(path):
    lk.offline.measure(Named(), double, path)
    for ask in (
        lambda: lk.offline.measure(Named(5), double, path),
        lambda: lk.offline.read_array(path, source=Named(5)),
    ):
        with pytest.raises(
            ValueError, match=rf"values.npy: expected values of .*Named.*another source with {RECORDS}"
        ):
            ask()
    assert lk.offline.read_array(path, source=Named()).tolist() == lk.offline.read_array(path).tolist()


def test_another_function_is_an_error(path):
    lk.offline.measure(Named(), double, path)
    with pytest.raises(ValueError, match=r"expected values of <lambda>, got those of double"):
        lk.offline.measure(Named(), lambda key: key, path)


def test_a_function_that_changed_is_an_error(path):
    lk.offline.measure(Named(), lambda key: key, path)
    with pytest.raises(
        ValueError,
        match=r"another function of this name: it gives 1161 for record_key 387 \(file-387\), where",
    ):
        lk.offline.measure(Named(), lambda key: 3 * key, path)


@dataclass(frozen=True)
class Times:
    factor: int

    def __call__(self, key):
        return self.factor * key


def test_a_functions_parameters_are_compared(path):
    lk.offline.measure(Named(), Times(2), path)
    with pytest.raises(
        ValueError, match=r'expected values of Times \{"factor":3\}, got those of Times \{"factor":2\}'
    ):
        lk.offline.measure(Named(), Times(3), path)


def test_a_bad_record_is_named_and_what_was_measured_is_kept(path):
    with pytest.raises(OSError, match="truncated") as caught:
        lk.offline.measure(Named(bad={2 * BATCH + 1}), double, path)
    assert f"record_key {2 * BATCH + 1}" in "".join(caught.value.__notes__)
    mended = Named()
    lk.offline.measure(mended, double, path)
    assert min(set(mended.reads) - {0, BATCH - 1, BATCH, 2 * BATCH - 1}) == 2 * BATCH
    assert not os.path.exists(f"{path}.partial")


def test_a_value_for_a_bad_record(path):
    values = lk.offline.measure(
        Named(bad={3}), double, path, on_record_error=lambda error, record: -record.record_key
    )
    assert values[:5].tolist() == [0, 2, 4, -3, 8]


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_a_record_without_a_value_is_refused(path, policy):
    with pytest.raises(
        ValueError, match="on_record_error: expected 'raise' or a function that gives the value"
    ):
        lk.offline.measure(Named(), double, path, on_record_error=policy)


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (
            lambda key: 0.5 if key == 300 else key,
            r"expected values of int64, .*got 0.5 for record_key 300 \(file-300\)",
        ),
        (lambda key: "a" if key == 300 else key, "expected values of int64, .*got 'a' for record_key 300"),
        (lambda key: key if key == 300 else "a", "expected a label, .*got 300 for record_key 300"),
        (lambda key: 0.5 if key == 3 else key, "expected values of int64, .*got 0.5 for record_key 3"),
        (
            lambda key: float(key) if key >= 256 else key,
            "expected values of int64, .*got 256.0 for record_key 256",
        ),
        (lambda key: [key], r"expected a number, a bool or a short text, got \[0\] for record_key 0"),
        (lambda key: np.arange(2), "expected a number, a bool or a short text, got .* for record_key 0"),
        (lambda key: None, "expected a number, a bool or a short text, got None for record_key 0"),
        (lambda key: 1 << 70, "expected a number, a bool or a short text, got 1180591620717411303424 for"),
    ],
)
def test_a_value_that_does_not_fit_names_its_record(path, fn, text):
    with pytest.raises(TypeError, match=text):
        lk.offline.measure(Named(), fn, path)
    assert not os.path.exists(path)


def test_too_many_labels(path, monkeypatch):
    monkeypatch.setattr("loaderkit.offline.measured_values.MOST_LABELS", 10)
    with pytest.raises(ValueError, match="at most 10 different labels, got another, '10', for record_key 10"):
        lk.offline.measure(Named(), str, path)


def test_arguments(path):
    with pytest.raises(TypeError, match="fn: expected a function of a record, got 3"):
        lk.offline.measure([1], 3, path)
    with pytest.raises(TypeError, match="source: expected an object"):
        lk.offline.measure(iter([1]), abs, path)


SCRIPT = """
    import os, signal, sys
    import loaderkit as lk
    import loaderkit.offline.measuring as measuring
    import loaderkit.offline.partial_array as partial

    measuring.SAVED_EVERY = 0
    path, stop, where = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    calls = 0

    def dying(module, name, when):
        real = getattr(module, name)
        def wrapper(*arguments):
            global calls
            calls += 1
            if calls == stop and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments)
            if calls == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        setattr(module, name, wrapper)

    module = os if where in ("replace", "fsync", "unlink") else partial.PartialArray
    dying(module, where, sys.argv[4])

    class Squares:
        def __len__(self):
            return 1000
        def __getitem__(self, key):
            with open(path + ".reads", "a") as log:
                log.write(f"{key} ")
            return key * key
        def fingerprint(self):
            return {"records": 1000}

    lk.offline.measure(Squares(), abs, path)
"""


@pytest.mark.parametrize(
    "kills",
    [
        [("append", 3, "before"), ("replace", 3, "after")],
        *(
            pytest.param(kills, marks=pytest.mark.slow)
            for kills in (
                [("append", 1, "before"), ("append", 2, "after"), ("append", 3, "after")],
                [("save", 1, "before"), ("save", 1, "after"), ("save", 2, "before")],
                [("replace", 5, "before"), ("replace", 1, "before"), ("replace", 1, "after")],
                [("fsync", 3, "after"), ("fsync", 5, "before")],
            )
        ),
    ],
)
def test_killed_anywhere_it_goes_on(path, kills):
    """Each kill leaves files from which the next call goes on: it measures what wasn't saved, a batch or two."""

    def measured(where, stop, when):
        command = [sys.executable, "-c", textwrap.dedent(SCRIPT), path, str(stop), where, when]
        return subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": "."}).returncode

    for where, stop, when in kills:
        assert measured(where, stop, when) == -signal.SIGKILL
    assert measured("append", 0, "") == 0
    assert np.load(path).tolist() == [key * key for key in range(1000)]
    assert not os.path.exists(f"{path}.partial")
    reads = Path(f"{path}.reads").read_text().split()
    assert len(reads) <= 1000 + (len(kills) + 1) * 3 * BATCH


def test_what_is_left_is_measured_only(path):
    """A partial file of three batches: the records of the others are read."""

    class StopError(Exception):
        pass

    def stopping(key):
        if key == 3 * BATCH + 1:
            raise StopError
        return key

    with pytest.raises(StopError):
        lk.offline.measure(Named(), stopping, path, version=1)
    with open(f"{path}.partial/progress.json") as file:
        assert json.load(file)["done"] == 3 * BATCH

    def stopping(key):  # of the same name
        return key

    source = Named()
    assert lk.offline.measure(source, stopping, path, version=1).tolist() == list(range(RECORDS))
    assert len(source.reads) <= 7 + 3


def test_a_function_that_changed_since_a_kill(path):
    """Its values aren't mixed with those of the function before."""

    def stopping(key):
        if key > 2 * BATCH:
            raise ValueError("stop")
        return key

    with pytest.raises(ValueError, match="stop"):
        lk.offline.measure(Named(), stopping, path)

    def stopping(key):
        return key + (
            key > BATCH + 5 and key < 2 * BATCH - 5
        )  # the same for each record that is looked at again

    with pytest.raises(
        lk.errors.ResumeMismatchError,
        match=r"partial: .*function: .* '    if key > 512:' there and '    return key \+ .*; allow|delete it to begin",
    ):
        lk.offline.measure(Named(), stopping, path)
    with pytest.raises(
        ValueError, match=r"^allow: expected a set of 'source', 'function', 'tokenizer', 'libraries', got"
    ):
        lk.offline.measure(Named(), stopping, path, allow="function")
    assert lk.offline.measure(Named(), stopping, path, allow={"function"})[-1] == RECORDS - 1


def test_a_function_that_changed_since_the_file_was_made(path):
    lk.offline.measure(Named(), lambda key: key, path)
    changed = lambda key: key + (key == 5)  # noqa: E731 - of the name <lambda>
    with pytest.raises(
        lk.errors.ResumeMismatchError,
        match=r"values\.npy: .*function: code: function: 'lambda key: key' there",
    ):
        lk.offline.measure(Named(), changed, path)
    assert lk.offline.measure(Named(), changed, path, allow={"function"}).tolist() == [*range(RECORDS)]


@pytest.mark.parametrize("bad", [{2 * BATCH}, set()])
def test_a_function_that_was_renamed(path, bad):
    """It goes on with `allow`, and gives the values that are there, where they are its own."""

    def twice(key):
        return 2 * key

    with contextlib.suppress(OSError):
        lk.offline.measure(Named(bad=bad), double, path)
    with pytest.raises(ValueError, match="double"):
        lk.offline.measure(Named(), twice, path)
    with pytest.raises(ValueError, match="another function of this name"):
        lk.offline.measure(Named(), lambda key: 3 * key, path, allow={"function"})
    assert lk.offline.measure(Named(), twice, path, allow={"function"})[-1] == 2 * (RECORDS - 1)


def test_a_partial_file_of_another_source_is_an_error(path):
    with pytest.raises(OSError, match="truncated"):
        lk.offline.measure(Named(bad={2 * BATCH}), double, path)
    with pytest.raises(
        lk.errors.ResumeMismatchError,
        match=r"values.npy.partial: expected files of this run.* source: records: 775 there and 5 here",
    ):
        lk.offline.measure(Named(5), double, path)


def test_a_state_of_another_version_begins_again(path, caplog):
    with pytest.raises(OSError, match="truncated"):
        lk.offline.measure(Named(bad={2 * BATCH}), double, path)
    progress = f"{path}.partial/progress.json"
    with open(progress) as file:
        document = json.load(file)
    with open(progress, "w") as file:
        json.dump(sealed({**document, "state": "{}"}), file)
    assert lk.offline.measure(Named(), double, path).tolist() == [2 * key for key in range(RECORDS)]
    assert "measuring from the beginning" in caplog.text


@pytest.mark.parametrize("spoil", ["cut", "other end", "no trailer", "text", "two axes"])
def test_other_files_are_refused(path, spoil):
    lk.offline.measure(Named(5), double, path)
    whole = Path(path).read_bytes()
    if spoil == "cut":
        content = whole[:-3]
    elif spoil == "other end":
        content = whole[:-30] + b"x" * 30
    elif spoil == "text":
        content = b"no array"
    else:
        np.save(path, np.zeros((3, 2) if spoil == "two axes" else 3))
        content = Path(path).read_bytes()
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(
        lk.errors.DataFormatError, match=r"values.npy: expected an array file of lk.offline.measure, got .*"
    ):
        lk.offline.read_array(path)


def test_a_missing_file(path):
    with pytest.raises(FileNotFoundError):
        lk.offline.read_array(path)


def test_saves_are_seldom():
    """Each waits for the disk."""
    assert SAVED_EVERY >= 1


@pytest.mark.parametrize("content", [b"", b"[]", b'{"done": 1}'])
def test_a_damaged_progress_is_an_error_that_says_what_to_delete(tmp_path, content):
    def failing(record):
        raise OSError("stop")

    folder = tmp_path / "lengths.npy.partial"
    with pytest.raises(OSError, match="stop"):
        lk.offline.measure(["a"], failing, tmp_path / "lengths.npy", version=1)
    (folder / "progress.json").write_bytes(content)
    with pytest.raises(
        lk.errors.DataFormatError,
        match=r"progress.json: expected the progress of lk.offline.measure, got .*; delete",
    ):
        lk.offline.measure(["a"], len, tmp_path / "lengths.npy", version=1)


@pytest.mark.parametrize("version", ["0.1", "now"])
def test_a_damaged_array_file_gives_no_other_value(path, version):
    """A flipped bit of a value, of a label or of what the values are of; labels are read without the values."""
    lk.offline.measure(["a", "b"] * 40_000, str, path)
    if version == "0.1":
        array, trailer = open_array(path)
        document = dataclasses.asdict(trailer)
        del document["checksums"]
        data = json.dumps(document).encode()
        head = Path(path).read_bytes()[: array.offset + array.nbytes]
        Path(path).write_bytes(head + data + struct.pack("<Q8s", len(data), b"LKARRAY1"))
    whole = Path(path).read_bytes()
    labels = whole.index(b'"labels"') + 12
    for place in (128, 100_003, 320_000, *((labels,) if version == "now" else ())):
        Path(path).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(lk.errors.ChecksumError, match=r"values\.npy: .*; delete it to measure again"):
            lk.offline.read_array(path)
        if place != labels:
            assert lk.offline.read_labels(path) == ["a", "b"]
    with pytest.raises(lk.errors.ChecksumError, match=r"values\.npy: .*; delete it to measure again"):
        lk.plan_packing(path, 8)
    if version == "now":
        with pytest.raises(lk.errors.ChecksumError, match=r"values\.npy: .*; delete it to measure again"):
            lk.offline.read_labels(path)


def test_damaged_progress_is_no_progress(path):
    """A flipped bit of a value that was saved, or of what says how far the file is."""
    with pytest.raises(OSError, match="truncated"):
        lk.offline.measure(Named(bad={2 * BATCH}), double, path)
    for name, place in (("values.npy", 200), ("progress.json", None)):
        file = Path(f"{path}.partial/{name}")
        whole = file.read_bytes()
        place = place or whole.index(b'"done": ') + 8
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(
            lk.errors.ChecksumError, match=rf"{name}: .*; delete .* to measure from the beginning"
        ):
            lk.offline.measure(Named(), double, path)
        file.write_bytes(whole)
    assert len(lk.offline.measure(Named(), double, path)) == RECORDS


def test_a_full_disk_is_named(path, tmp_path):
    """The file of the values, and that of an index."""
    lk.write([{"x": "y" * 99}] * 2000, tmp_path / "a.tar")
    for index in tmp_path.glob("*.lkx"):
        index.unlink()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*values\.npy'"):
            lk.offline.measure(Named(), double, path)
        with pytest.raises(OSError, match=r"File too large: '.*(\.lkx|\.part)'"):
            lk.TarDataSource(tmp_path / "a.tar")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
