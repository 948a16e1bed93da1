"""check_source: every check finds a source that breaks its rule alone, and the sources of loaderkit keep all rules."""

import io
import operator
import os
import struct
import tarfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cloudpickle
import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tfds_squares import prepared_squares

import loaderkit as lk
from loaderkit.errors import ConformanceError
from loaderkit.interop.grain import sources as grain
from loaderkit.sources.id_column import IdColumnDataSource
from loaderkit.testing import check_source, source_checks
from loaderkit.testing.source_method_checks import METHOD_CHECKS
from loaderkit.testing.source_samples import SourceSamples

LENGTH = 40
NAMES = [check.name for check in (*source_checks._READ_CHECKS, *METHOD_CHECKS, *source_checks._COPY_CHECKS)]


class Good:
    """A source with all that one may have; the broken ones below differ in one thing."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, record_key: Any) -> Any:
        return self.record(self.checked(record_key))

    def checked(self, record_key: Any) -> int:
        key = operator.index(record_key)
        if not 0 <= key < LENGTH:
            raise IndexError(f"no record {key}")
        return key

    def record(self, key: int) -> Any:
        return {"key": key, "x": np.full(3, key, np.int64)}

    read_ahead = 0

    def __getitems__(self, record_keys: Any) -> list[Any]:
        return [self[key] for key in record_keys]

    def take(self, record_keys: Any, out: Any = None) -> Any:
        keys = np.array([self.checked(key) for key in record_keys], np.int64)
        out = out or [np.empty(len(keys), np.int64), np.empty((len(keys), 3), np.int64)]
        out[0][:] = keys
        out[1][:] = keys[:, None]
        return {"key": out[0], "x": out[1]}

    def name(self, record_key: int) -> str:
        return f"file {record_key}"

    def fingerprint(self) -> dict[str, Any]:
        return {"records": LENGTH}

    def close(self) -> None:
        pass

    def __enter__(self) -> "Good":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


KEYS = SourceSamples(Good(), 16).keys


class Alternates(Good):
    def __init__(self) -> None:
        self.asked = 0

    def __len__(self) -> int:
        self.asked += 1
        return LENGTH + self.asked % 2


class LastIsMissing(Good):
    def record(self, key: int) -> Any:
        if key == LENGTH - 1:
            raise OSError("truncated")
        return super().record(key)


class Counts(Good):
    def __init__(self) -> None:
        self.reads = 0

    def record(self, key: int) -> Any:
        self.reads += 1
        return {**super().record(key), "key": self.reads}


class LooksBack(Good):
    """Wrong where the record before was the one that follows in the usual order."""

    last = -1

    def record(self, key: int) -> Any:
        wrong = (key, self.last) in pairwise(KEYS)
        self.last = key
        return super().record(key + wrong)


class Buffered(Good):
    def __init__(self) -> None:
        self.buffer = np.zeros(3, np.int64)

    def record(self, key: int) -> Any:
        self.buffer[:] = key
        return {"key": key, "x": self.buffer}


class Owner(Good):
    def __init__(self) -> None:
        self.table = np.arange(LENGTH)[:, None].repeat(3, 1)

    def record(self, key: int) -> Any:
        return {"key": key, "x": self.table[key]}


class Wraps(Good):
    def checked(self, record_key: Any) -> int:
        key: int = operator.index(record_key) % LENGTH
        return key


class Absolute(Good):
    def checked(self, record_key: Any) -> int:
        return super().checked(abs(record_key))


class FirstForNumpy(Good):
    def __getitem__(self, record_key: Any) -> Any:
        return self.record(self.checked(record_key) if isinstance(record_key, int) else 0)


class SharedPlace(Good):
    place = 0

    def record(self, key: int) -> Any:
        self.place = key
        time.sleep(0.0005)
        return super().record(self.place)


class SortsKeys(Good):
    def __getitems__(self, record_keys: Any) -> list[Any]:
        return super().__getitems__(sorted(record_keys))


class LeavesOut(Good):
    def __getitems__(self, record_keys: Any) -> list[Any]:
        return super().__getitems__([*dict.fromkeys(record_keys)])


class SortsNumpyKeys(Good):
    def __getitems__(self, record_keys: Any) -> list[Any]:
        return super().__getitems__(
            np.sort(record_keys) if isinstance(record_keys, np.ndarray) else record_keys
        )


class ClipsManyKeys(Good):
    def __getitems__(self, record_keys: Any) -> list[Any]:
        return super().__getitems__([min(key, LENGTH - 1) for key in record_keys])


class Float(Good):
    def take(self, record_keys: Any, out: Any = None) -> Any:
        return {name: column.astype(np.float64) for name, column in super().take(record_keys, out).items()}


class IgnoresOut(Good):
    def take(self, record_keys: Any, out: Any = None) -> Any:
        return super().take(record_keys)


class ClipsColumns(Good):
    def take(self, record_keys: Any, out: Any = None) -> Any:
        return super().take(np.minimum(record_keys, LENGTH - 1), out)


class FarAhead(Good):
    read_ahead = 4.0


class NoChunk(Good):
    chunk_records = 0


class NumberName(Good):
    def name(self, record_key: int) -> Any:
        return record_key


class Dated(Good):
    def fingerprint(self) -> dict[str, Any]:
        return {"now": time.perf_counter_ns()}


class NoJson(Good):
    def fingerprint(self) -> dict[str, Any]:
        return {"dtype": np.dtype(int)}


class TooLarge(Good):
    def fingerprint(self) -> dict[str, Any]:
        return {"hash": 2**70}


class ClosesOnce(Good):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise ValueError("closed already")
        self.closed = True

    def __exit__(self, *exc: object) -> None:
        pass


class ClosesAll(Good):
    closed: list[bool] = []  # noqa: RUF012 - of all copies

    def record(self, key: int) -> Any:
        return super().record(key + len(self.closed))

    def close(self) -> None:
        self.closed.append(True)


class Locked(Good):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class Forgets(Good):
    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def record(self, key: int) -> Any:
        return super().record(key + self.offset)

    def take(self, record_keys: Any, out: Any = None) -> Any:
        return super().take(np.asarray(record_keys) + self.offset, out)

    def __reduce__(self) -> Any:
        return Forgets, (1,)


# Local classes, which travel by value: a worker that gets one of this module imports the module, and pytest with it.


def of_the_process() -> Any:
    trainer = os.getpid()

    class OfTheProcess:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, record_key: int) -> Any:
            return [1, 2, 3, 4, 5, 6, 7, 8][record_key] + (os.getpid() != trainer)

    return OfTheProcess()


def of_the_environment() -> Any:
    class OfTheEnvironment(list[int]):
        def fingerprint(self) -> dict[str, Any]:
            return {"worker": "LOADERKIT_WORKER" in os.environ}

    return OfTheEnvironment([1, 2, 3])


def made_in_another_order() -> Any:
    def make() -> list[int]:
        return [2, 1, 0] if "LOADERKIT_WORKER" in os.environ else [0, 1, 2]

    return make


class Grows(Good):
    more = 0

    def __len__(self) -> int:
        return LENGTH + self.more

    def fingerprint(self) -> dict[str, Any]:
        self.more = 1
        return super().fingerprint()

    def __reduce__(self) -> Any:
        return Good, ()


# For each check sources that break its rule and no earlier one, with a part of the message.
BROKEN: list[tuple[str, Callable[[], Any], str]] = [
    ("length", Alternates, "expected len(source) to be 41 again, got 40. Count the records once"),
    ("records", LastIsMissing, "can be read, got OSError: truncated. A source reads every record"),
    ("read again", Counts, "leaf ['key'] of record_key 0 to be 1 when it is read again, got "),
    ("another order", LooksBack, "when the keys are read in another order, got "),
    (
        "kept records",
        Buffered,
        "leaf ['x'] of record_key 0 to be array([0, 0, 0]) after other records were read",
    ),
    ("shared arrays", Owner, "an array of its own at ['x'] of record_key 0, or one that can't be written to"),
    ("beyond the end", Wraps, "expected an error for record_key 40, got {'key': 0"),
    ("negative keys", Absolute, "leaf ['key'] of record_key 39 to be 39 with the key -1, got 1"),
    ("numpy keys", FirstForNumpy, "of record_key 39 to be 39 with the key np.int64(39), got 0"),
    ("threads", SharedPlace, "when several threads read at once, got "),
    ("__getitems__", SortsKeys, "from __getitems__(["),
    ("__getitems__", LeavesOut, "records for the keys "),
    ("__getitems__ of numpy keys", SortsNumpyKeys, "makes one of either"),
    ("__getitems__ beyond the end", ClipsManyKeys, "expected an error for record_key 40, got "),
    ("take", Float, "as the records stacked, got float64 of shape (16,)"),
    ("take into out", IgnoresOut, "a loader looks there"),
    ("take beyond the end", ClipsColumns, "expected an error for record_key 40, got {'key': array([ 0, 39])"),
    ("name", NumberName, "expected name(0) to be a str or None, got 0"),
    ("reading advice", FarAhead, "expected read_ahead to be a whole number, got 4.0"),
    ("reading advice", NoChunk, "expected chunk_records to be a whole number, got 0"),
    ("fingerprint", Dated, "when it is asked for again, got "),
    ("fingerprint", NoJson, "got TypeError: NoJson.fingerprint(): expected JSON values"),
    ("fingerprint", TooLarge, "fingerprint.hash: expected an integer of at most 64 bits"),
    (
        "pickled copy",
        Locked,
        "got TypeError: cannot pickle '_thread.lock' object. Worker processes get a pickled copy",
    ),
    ("pickled copy", Forgets, "leaf ['key'] of record_key 0 to be 0 from a pickled copy, got 1"),
    ("close", ClosesOnce, "got ValueError: closed already. Let close() do nothing the second time"),
    ("close", ClosesAll, "after a pickled copy was closed, got "),
    ("another process", of_the_process, "in a worker process, got "),
    (
        "another process",
        of_the_environment,
        "{'kind': 'declared', 'worker': False} in a worker process, got ",
    ),
    ("another process", made_in_another_order, "of a source that another process made, got "),
    ("unchanged by reading", Grows, "expected 40 records after all these reads, got 41"),
]


@pytest.mark.parametrize(
    ("name", "broken", "said"), [pytest.param(*row, id=f"{row[0]}-{row[1].__name__}") for row in BROKEN]
)
def test_each_check_finds_what_breaks_its_rule(name, broken, said):
    """By its own name, with what was expected, what came and what to do."""
    with pytest.raises(ConformanceError) as found:
        check_source(broken(), skip=["another process"] if name == "unchanged by reading" else ())
    assert found.value.check == name
    text = str(found.value)
    assert text.startswith("check_source: ") and f"check {name!r}: expected " in text
    assert said in text


def test_every_check_has_a_source_that_breaks_it():
    """A new check comes with one."""
    assert list(dict.fromkeys(name for name, _, _ in BROKEN)) == NAMES


def test_what_was_checked_and_what_was_not_is_reported():
    """All of it, in order, with the size of the pickle."""
    report = check_source(Good(), skip=["another process"])
    assert [name for name, _ in report.passed] == [name for name in NAMES if name != "another process"]
    assert report.skipped == (("another process", "left out by skip="),)
    assert report.pickled_bytes == len(cloudpickle.dumps(Good()))
    first, second, *_ = str(report).splitlines()
    assert (
        first
        == f"a Good of 40 records: {len(NAMES) - 1} passed, 1 skipped, {report.pickled_bytes} bytes pickled"
    )
    assert second == "  passed   length: len(source) is the same int again"


def test_what_a_source_lacks_is_skipped_and_said():
    """Each check with its reason, and those that the caller left out."""
    report = check_source(range(5), skip=["threads", "another process"])
    reasons = dict(report.skipped)
    assert reasons["threads"] == reasons["another process"] == "left out by skip="
    assert reasons["take"] == "the source has no take(record_keys, out=None)"
    assert reasons["name"] == "the source has no name(record_key)"
    assert reasons["close"] == "the source has no close() and is no context manager"
    assert {name for name, _ in report.passed} | {*reasons} == {*NAMES}
    assert "skipped  take: the source has no take" in str(report)
    array = check_source(np.zeros((4, 2)), skip=["another process"])
    assert "isn't used" in dict(array.skipped)["take"]


def test_an_empty_source_is_a_source():
    """There is nothing to read of it."""
    reasons = dict(check_source([]).skipped)
    assert reasons["records"] == reasons["another process"] == "the source has no records"
    one = check_source([7], skip=["another process"])
    assert dict(one.skipped)["kept records"] == "the source has only one record"


def test_a_function_may_make_the_source():
    """It makes the source here, too, and what it makes keeps all rules."""
    made = []

    def make() -> Good:
        made.append(1)
        return Good()

    assert "another process" in [name for name, _ in check_source(make).passed]
    assert made == [1]  # the other process has a list of its own


class Unsendable:
    """A record that can't be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_records_that_cannot_be_sent_back_are_not_compared():
    """They needn't: operations get them in the worker."""

    class Locks:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, record_key: int) -> Any:
            return [Unsendable(), Unsendable()][record_key]

    report = check_source(Locks())
    assert "can't be sent back to be compared" in dict(report.skipped)["another process"]


@pytest.mark.parametrize("source", ["a.array_record", lambda: "a.array_record", {"x": [1]}, iter([1]), list])
def test_what_is_no_source_is_refused(source):
    """As a loader refuses it."""
    with pytest.raises(TypeError):
        check_source(source)


def test_arguments_are_checked():
    """With what is expected."""
    with pytest.raises(ValueError, match=r"skip: expected names among .*'threads'.*, got 'thread'"):
        check_source([1], skip=["thread"])
    with pytest.raises(TypeError, match=r"skip: expected a list of names .*write \['threads'\]"):
        check_source([1], skip="threads")
    with pytest.raises(TypeError, match="progress: expected True, False or None"):
        check_source([1], progress=1)
    with pytest.raises(ValueError, match="records: expected 2 or more"):
        check_source([1], records=1)


def test_progress_is_a_line_for_each_check(capsys):
    """Where it is asked for."""
    check_source([1, 2], progress=True, skip=["another process"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"check_source 1/{len(NAMES)}: length" and len(lines) == len(NAMES)


def tfrecord(record: bytes) -> bytes:
    def masked(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def own_sources(folder: Any) -> dict[str, Any]:
    from array_record.python.array_record_module import ArrayRecordWriter

    for part in range(2):
        writer = ArrayRecordWriter(str(folder / f"{part}.array_record"), "group_size:1")
        for key in range(30):
            writer.write(bytes([part, key]) * 5)
        writer.close()
    np.save(folder / "x.npy", np.arange(60.0).reshape(20, 3))
    columns = {"x": np.arange(60.0).reshape(20, 3), "y": np.arange(20, dtype=np.uint8)}
    with tarfile.open(folder / "a.tar", "w") as archive:
        for key in range(20):
            for field, value in {"txt": f"text {key}".encode(), "cls": b"3"}.items():
                member = tarfile.TarInfo(f"{key:03}.{field}")
                member.size = len(value)
                archive.addfile(member, io.BytesIO(value))
    (folder / "a.tfrecord").write_bytes(b"".join(map(tfrecord, [b"one", b"", b"three"])))
    (folder / "a.txt").write_text("one\n\nthree\n")
    (folder / "a.jsonl").write_text('{"x": [1, 2]}\n{"x": []}\n')
    (folder / "a.csv").write_text('x,y\n1,"a\nb"\n2,c\n')
    (folder / "class").mkdir()
    for name in ("1.png", "2.png"):
        (folder / "class" / name).write_bytes(name.encode())
    import lmdb

    with (
        lmdb.open(str(folder / "lmdb"), map_size=1 << 20) as environment,
        environment.begin(write=True) as values,
    ):
        values.put(b"a", b"one")
        values.put(b"b", b"two")
    table = pa.table({"x": np.arange(20.0), "n": np.arange(20, dtype=np.uint8)})
    with pa.ipc.new_file(str(folder / "a.arrow"), table.schema) as file:
        file.write_table(table, max_chunksize=7)
    pq.write_table(table, folder / "a.parquet", row_group_size=7)
    return {
        "CachedDataSource": lk.CachedDataSource(lk.ArrayDataSource(columns)),
        "a cache in a folder": lk.CachedDataSource(lk.TarDataSource(folder / "a.tar"), folder / "cache"),
        "LmdbDataSource": lk.formats.LmdbDataSource(folder / "lmdb"),
        "ArrowDataSource": lk.formats.ArrowDataSource(folder / "a.arrow"),
        "ParquetDataSource": lk.ParquetDataSource(folder / "a.parquet[3:18]"),
        "TableDataSource": lk.formats.TableDataSource(
            table.append_column("text", [[*"abcdefghijklmnopqrst"]])
        ),
        "FilesDataSource": lk.formats.FilesDataSource(folder / "a.*"),
        "FolderDataSource": lk.FolderDataSource(folder, classes=["class"]),
        "JoinedFilesDataSource": lk.formats.JoinedFilesDataSource(
            {"path": ["a.txt", "a.csv", "a.txt"], "k": np.arange(3)}, "path", folder
        ),
        "GroupedRowsDataSource": lk.formats.GroupedRowsDataSource(
            {"k": [2, 1, 2], "x": np.arange(3), "t": ["a", "b", "c"]}, "k"
        ),
        "ArrayFileDataSource": lk.formats.ArrayFileDataSource(lambda: columns, 0),
        "TarDataSource": lk.TarDataSource(folder / "a.tar"),
        "some fields of a tar": lk.TarDataSource(folder / "a.tar", fields="cls"),
        "TFRecordDataSource": lk.TFRecordDataSource(folder / "a.tfrecord"),
        "LinesDataSource": lk.formats.LinesDataSource(folder / "a.txt[0:2]"),
        "JsonLinesDataSource": lk.JsonLinesDataSource(folder / "a.jsonl"),
        "CsvDataSource": lk.formats.CsvDataSource(folder / "a.csv", types={"x": int}),
        "numbers of a CSV file": lk.formats.CsvDataSource(folder / "a.csv", columns=["x"], types="infer"),
        "ArrayRecordDataSource": lk.ArrayRecordDataSource(str(folder / "*.array_record")),
        "ArrayDataSource": lk.ArrayDataSource(columns),
        "of a memmap": lk.ArrayDataSource(np.load(folder / "x.npy", mmap_mode="r")),
        "InMemoryDataSource": lk.InMemoryDataSource([{"x": np.arange(k), "n": str(k)} for k in range(20)]),
        "RangeDataSource": lk.RangeDataSource(5, 500, 3),
        "SubsetDataSource": lk.SubsetDataSource(lk.ArrayDataSource(columns), [3, 1, 1, 19]),
        "a part": lk.SubsetDataSource(range(100), 0.5),
        "ConcatDataSource": lk.ConcatDataSource([range(3), lk.ArrayDataSource(np.zeros((4, 2)))]),
        "ConcatDataSource by name": lk.ConcatDataSource({"a": range(3), "b": [b"x", b"y"]}),
        "with an id": IdColumnDataSource(
            {"a": [{"x": 1}], "b": lk.JsonLinesDataSource(folder / "a.jsonl")}, "of"
        ),
        "columns with an id": IdColumnDataSource({n: lk.ArrayDataSource(columns) for n in "ab"}, "of"),
        "ZipDataSource": lk.ZipDataSource([range(20), lk.ArrayDataSource(columns)]),
        "ZipDataSource by name": lk.ZipDataSource({n: lk.ArrayDataSource(columns) for n in "ab"}),
        "TokenDataSource": lk.TokenDataSource(np.arange(9), [0, 4, 4, 9]),
        "PackedDataSource": lk.PackedDataSource(
            [np.arange(4), np.arange(5)], lk.plan_packing([4, 5], 6), targets=True, mask="mask"
        ),
        "packed rows of tokens": lk.PackedDataSource(
            lk.TokenDataSource(np.arange(9), [0, 4, 4, 9]), lk.plan_packing([4, 0, 5], 6)
        ),
        "WindowDataSource": lk.sources.WindowDataSource(lk.ArrayDataSource(columns), size=4, shift=3),
        "TfdsDataSource": lk.formats.TfdsDataSource(prepared_squares(folder / "tfds"), "train[2:]+test"),
        "MapDataSource": lk.MapDataSource(lk.TarDataSource(folder / "a.tar"), lambda record: record["txt"]),
        "Grain's ArrayRecordDataSource": grain.ArrayRecordDataSource(str(folder / "0.array_record")),
        "Grain's RangeDataSource": grain.RangeDataSource(0, 10, 3),
        "a list": [{"x": np.arange(3)}, "text", None, b"bytes"],
        "a tuple": (1.5, 2.5),
        "an array": np.arange(12).reshape(4, 3),
        "a range": range(7),
    }


def test_the_sources_of_loaderkit_keep_all_rules(tmp_path):
    """Each by itself, and all of them in one worker process."""
    sources = own_sources(tmp_path)
    for name, source in sources.items():
        try:
            check_source(source, skip=["another process"])
        except ConformanceError as error:
            raise AssertionError(name) from error
    together = check_source(lk.ConcatDataSource([*sources.values()]), records=100)
    assert "another process" in dict(together.passed)


def test_every_public_source_is_among_them(tmp_path):
    """A new one joins them, and has a card."""
    public = {name for name in dir(lk) if name.endswith("DataSource")}
    public -= {"RandomAccessDataSource", "ArrayFileDataSource"}  # the contract, and a former name
    sources = own_sources(tmp_path)
    assert public <= {*sources}
    for name in public:
        card = sources[name].card()
        assert card.records == len(sources[name]) and len(str(card).splitlines()) > 2


def test_the_source_goes_on():
    """It is neither closed nor changed."""
    source = Good()
    check_source(source, skip=["another process"])
    assert vars(source) == {} and source[3]["key"] == 3


def test_bulk_records_that_hold_their_numpy_key():
    """A record that holds its key has the type of the key."""

    class Keyed(Good):
        def __getitem__(self, record_key: Any) -> Any:
            self.checked(record_key)
            return {"key": record_key}

        def __getitems__(self, record_keys: Any) -> Any:
            return [self[key] for key in record_keys]

    check_source(Keyed(), skip=[name for name in NAMES if name != "__getitems__ of numpy keys"])


def test_a_source_of_a_class_within_a_function():
    """The pickle of its class has not the function's name."""

    @dataclass(frozen=True)
    class Local:
        step: int = 2

        def __len__(self) -> int:
            return 5

        def __getitem__(self, record_key: int) -> Any:
            if not 0 <= record_key < 5:
                raise IndexError(record_key)
            return record_key * self.step

    check_source(Local())


def test_a_memory_map_is_a_source(tmp_path):
    """Its pickled copy is an array."""
    np.save(tmp_path / "x.npy", np.arange(40.0).reshape(20, 2))
    check_source(np.load(tmp_path / "x.npy", mmap_mode="r"))
