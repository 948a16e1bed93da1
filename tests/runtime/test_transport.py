"""What travels between trainer and workers arrives as it was: elements, batches, tasks, results."""

import datetime
import pickle
import re
import shutil
import subprocess
import sys
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from runtime_loaders import all_same, numbers, same

import loaderkit as lk
from loaderkit._base.system.resources import available_memory
from loaderkit._base.tree import structure_of
from loaderkit._engine.task import (
    BatchMade,
    Discarded,
    MakeBatch,
    ReadRows,
    ReadStream,
    RowsPart,
    RowsRead,
    Slot,
    Span,
    StreamRead,
    Target,
    Task,
    TaskResult,
    inputs_of,
)
from loaderkit._order.facts import Failure, Loss
from loaderkit._runtime.memory import arena
from loaderkit._runtime.memory.batch_layout import ALIGNMENT, BatchLayout
from loaderkit._runtime.transport import wire
from loaderkit._runtime.transport.out_of_band import OutOfBandPickle, unpack
from loaderkit._runtime.transport.pickling import Packer
from loaderkit.errors import ChecksumError
from loaderkit.transforms.stack import RowSpec

Point = namedtuple("Point", "x y")
STRUCTURED = np.dtype([("a", ">i4"), ("b", "S3"), ("c", np.float16, (2,))])


def leaves_of(x: int) -> dict[str, Any]:
    """One leaf of every sort."""
    grid = np.arange(24, dtype=np.float64).reshape(4, 6) + x
    structured = np.zeros(3, STRUCTURED)
    structured["a"], structured["b"] = x, b"ab\0"
    return {
        "0 bytes": np.zeros((0, 3), np.int16),
        "scalar array": np.array(x, np.int8),
        "bool": x % 2 == 0,
        "int": x,
        "float": x / 3,
        "complex": complex(x, -1),
        "numpy scalar": np.float16(x),
        "float16": np.full(5, x, np.float16),
        "complex64": np.full(5, x * 1j, np.complex64),
        "longdouble": np.full(2, x, np.longdouble),
        "datetime64": np.array(["2020-01-01", "NaT"], "datetime64[s]") + np.timedelta64(x, "s"),
        "timedelta64": np.array([x, 2 * x], "timedelta64[ms]"),
        "big-endian": np.full(5, x, ">f8"),
        "big-endian views": np.full((4, 6), x, ">i4")[::2, ::-1],
        "big-endian dates": np.array(["2020-01-01", "NaT"], ">M8[s]") + np.timedelta64(x, "s"),
        "big-endian text": np.array(["ä", "text"], ">U4"),
        "big-endian complex": np.full((3, 2), x * 1j, ">c8").T,
        "structured": structured,
        "S": np.array([b"a", b"bcd"]),
        "U": np.array(["ä", "text"]),
        "object": np.array([x, None, "text"], object),
        "Fortran": np.asfortranarray(grid),
        "negative strides": grid[::-1, ::-2],
        "every other": grid[::2, 1::3],
        "broadcast": np.broadcast_to(np.float32(x), (3, 4)),
        "transposed": grid.T,
        "read-only": np.frombuffer(bytes([x % 256] * 8), np.uint8),
        "nan": np.array([np.nan, -0.0, np.inf]),
    }


def others_of(x: int) -> dict[str, Any]:
    """What is no array: unlike values in every row, and containers of every sort."""
    return {
        "str": "ä" * (x % 5) + "s",
        "bytes": b"ends in zeros\0\0",
        "none": None,
        "tuple": (x, [x, {"deep": Point(x, "y")}]),
        "ordered": OrderedDict(b=1, a=x),
        "big int": 2**80 + x,
        "date": datetime.date(2020, 1, 1),
        "set": frozenset({x}),
    }


def bfloat16_of(x: int) -> Any:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    return {"b": np.full(4, x, ml_dtypes.bfloat16), "f": np.full(2, x, ml_dtypes.float8_e4m3fn)}


def stackable(x: int) -> dict[str, Any]:
    return {name: leaf for name, leaf in leaves_of(x).items() if name not in ("object", "structured")}


def many(x: int) -> list[Any]:
    return [np.full(2, x + k, np.int32) for k in range(10_000)]


def large(x: int) -> dict[str, Any]:
    return {"x": np.full(100 << 20, x, np.uint8)}


CASES: dict[str, tuple[int, tuple[Any, ...]]] = {
    "leaves": (12, (leaves_of,)),
    "leaves in batches": (12, (leaves_of, lk.Batch(3))),
    "leaves in place": (60, (stackable, lk.Batch(3))),
    "others": (12, (others_of,)),
    "others in batches": (12, (others_of, lk.Batch(5))),
    "batch_fn": (12, (others_of, lk.Batch(5, batch_fn=tuple))),
    "bfloat16": (12, (bfloat16_of,)),
    "bfloat16 in place": (60, (bfloat16_of, lk.Batch(3))),
    "many leaves": (2, (many, lk.Batch(1))),
    "large": (2, (large,)),
    "large batch": (2, (large, lk.Batch(1))),
    "behind a batch": (12, (leaves_of, lk.Batch(3), lambda batch: {**batch, "more": [1, "two"]})),
    "empty": (12, (lambda x: {}, lk.Batch(4))),
    "0 bytes": (60, (lambda x: np.zeros((0, 3), np.float32), lk.Batch(4))),
    "0 bytes by element": (12, (lambda x: np.zeros((0, 3), np.float32),)),
    "numbers of many types": (12, (lambda x: [x, float(x), np.uint8(x)][x % 3], lk.Batch(4))),
    "shapes that change": (40, (lambda x: np.zeros((x // 8, 2)), lk.Batch(4))),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("case", CASES)
def test_what_workers_make_is_what_the_trainer_would_make(case, kind):
    """Structure, types, dtypes with byte order, shapes and values, for every kind of leaf."""
    count, operations = CASES[case]
    expected = list(numbers(count, *operations))
    with numbers(count, *operations, worker_count=1, worker_kind=kind) as loader:
        assert all_same(list(loader), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_hundred_thousand_leaves(kind, nightly):
    """As many as a tree of words or of tiny parameters may have; the test command does a fifth of it."""
    count = 100_000 if nightly else 20_000

    def leaves(x: int) -> list[Any]:
        return [np.full(2, x + k, np.int32) for k in range(count)]

    with numbers(2, leaves, worker_count=1, worker_kind=kind) as loader:
        assert all_same(list(loader), [leaves(0), leaves(1)])


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_batch_of_three_gigabytes(kind, nightly):
    """Stacked by a worker first, written in place the second time; sizes past 2**31 are nothing special."""
    if not nightly:
        pytest.skip("it takes a minute: the nightly run does it")
    left = available_memory()
    if left is None or left < 16 << 30:
        pytest.skip("it needs 16 GB of free memory")

    def gigabyte(x: int) -> Any:
        return np.full(1 << 30, x, np.uint8)

    with numbers(6, gigabyte, lk.Batch(3), worker_count=1, worker_kind=kind, prefetch_batches=1) as loader:
        for step, batch in enumerate(loader):
            assert batch.shape == (3, 1 << 30) and batch.nbytes == 3 << 30
            assert [(int(r.min()), int(r.max())) for r in batch] == [(3 * step + k,) * 2 for k in range(3)]
            del batch


SMALL_SHM = """
import os, numpy as np, loaderkit as lk
assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == 64 << 20
loader = lk.DataLoader(
    data_source=range(40), sampler=lk.SequentialSampler(40), worker_count=1,
    operations=[lambda x: np.full(5 << 20, x, np.uint8), lk.Batch(4)],
)
with loader:
    kept = list(loader)
    assert [batch[:, -1].tolist() for batch in kept] == [[4 * k + j for j in range(4)] for k in range(10)]
    assert os.listdir("/dev/shm") == []
"""


@pytest.mark.slow
def test_a_small_dev_shm_is_no_limit():
    """With the 64 MB that a container gets, 200 MB of batches are held: their memory has no name and lies elsewhere."""
    mounted = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"',
        "sh",
    ]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*mounted, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("this user can't mount another /dev/shm")
    command = [*mounted, sys.executable, "-c", SMALL_SHM]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_memory_that_runs_out_is_an_error_before_it_does(monkeypatch):
    """It says what was asked, what is left and what to lower; with more memory the stream goes on from there."""

    def rows(x: int) -> Any:
        return np.full(1 << 20, x, np.uint8)

    with numbers(16, rows, lk.Batch(4), worker_count=1) as loader, iter(loader) as it:
        monkeypatch.setattr(arena, "available_memory", lambda: 3 << 20)
        with pytest.raises(lk.errors.ArenaMemoryError) as error:
            next(it)
        text = str(error.value)
        asked, left = (int(n.replace(",", "")) for n in re.findall(r"[\d,]+\d", text)[:2])
        assert asked >= 4 << 20 and left == 3 << 20
        for setting in ("prefetch_batches", "worker_count", "batch size"):
            assert setting in text
        monkeypatch.undo()
        it.set_state(it.get_state())
        assert all_same(list(it), list(numbers(16, rows, lk.Batch(4))))


@given(
    hnp.arrays(hnp.array_dtypes() | hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)),
    st.booleans(),
)
def test_a_parcel_gives_back_what_was_put_in(array, large_enough_to_lie_beside):
    """Any dtype and shape, inside the pickle or beside it, in C and in Fortran order."""
    if large_enough_to_lie_beside and array.size:
        array = np.resize(array, (1 + 3000 // max(1, array.nbytes), *array.shape))
    for content in (array, np.asfortranarray(array), array[..., ::-1] if array.ndim else array):
        parcel = OutOfBandPickle({"x": content, "again": [content]}, Packer())
        room = bytearray(parcel.nbytes)
        parcel.write(memoryview(room))
        back = unpack(memoryview(room))
        assert same(back["x"], content)
        assert same(back["again"][0], content)


@pytest.mark.parametrize("by_value", [False, True])
def test_bytes_of_any_size_come_back(by_value):
    """Those that the pickler writes on their own, those in its frames, and both between; a changed one is noticed."""
    sizes = [0, 1, 65_535, 65_536, 200_000]
    content = [kind(b"\xc3\xa9" * (size // 2)) for size in sizes for kind in (bytes, bytearray, bytes.decode)]
    content += [content[-3], np.arange(5_000), {"small": 1, "large": content[-2]}]
    packed = OutOfBandPickle([content, (lambda: 7) if by_value else None], Packer(), verify=True)
    room = bytearray(packed.nbytes)
    packed.write(memoryview(room))
    back, function = unpack(memoryview(room))
    assert all(type(one) is type(other) for one, other in zip(back, content, strict=True))
    assert all(np.array_equal(one, other) for one, other in zip(back, content))
    assert (function is not None and function() == 7) == by_value
    room[-300_000] ^= 1
    with pytest.raises(ChecksumError):
        unpack(memoryview(room))


FOREIGN = {
    "memmap": np.memmap,
    "matrix": np.matrix,
    "masked": np.ma.MaskedArray,
    "of a script": type("Local", (np.ndarray,), {"__module__": "__main__"}),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_subclasses_of_arrays_keep_their_byte_order(name):
    """By the C pickler and by the one that sends classes by value, contiguous or not."""
    kind = FOREIGN[name]
    for dtype in (">f8", ">M8[s]", ">U3"):
        whole = np.zeros((4, 6), dtype).view(kind)
        for array in (whole, whole[::2, ::-1], whole.T):
            parcel = OutOfBandPickle([array, lambda: 0], Packer())
            room = bytearray(parcel.nbytes)
            parcel.write(memoryview(room))
            (back, _) = unpack(memoryview(room))
            assert (type(back), back.dtype, back.shape) == (type(array), array.dtype, array.shape)
            assert np.asarray(back).tobytes() == np.asarray(array).tobytes()


@pytest.mark.parametrize("source", [list, lk.InMemoryDataSource], ids=["list", "InMemoryDataSource"])
def test_records_keep_their_byte_order(source):
    """A source that travels to workers gives what it gives here."""
    records = [np.full((4, 6), x, dtype)[:, ::-2] for x in range(4) for dtype in (">f8", ">m8[s]", ">U3")]
    with numbers(len(records), worker_count=1, data_source=source(records)) as loader:
        assert all_same(list(loader), records)


small = st.integers(0, 2**40)
slots = st.none() | st.builds(Slot, small, small, small, small)
int64s = hnp.arrays(np.int64, st.integers(0, 9), elements=st.integers(-(2**63), 2**63 - 1))
LAYOUT = BatchLayout(RowSpec(structure_of(0), ()))
cursors = st.lists(small, max_size=3).map(tuple)
fills = st.lists(st.tuples(small, small), max_size=3).map(tuple)


PLACE = {"slot": slots, "layout": st.sampled_from([None, LAYOUT])}
targets = st.builds(Target, small, small, small, whole=st.booleans(), fill=fills, shape=small, **PLACE)
spans = st.builds(Span, small, small, small, small, batch=small, **PLACE)


@st.composite
def tasks(draw: Any) -> Task:
    indices = draw(int64s)
    read = {"id": draw(small), "indices": indices, "reserve": draw(slots)}
    keys = indices[::-1].copy()
    kind = draw(st.sampled_from([ReadRows, ReadStream, MakeBatch]))
    if kind is ReadRows:
        return ReadRows(**read, keys=keys, targets=tuple(draw(st.lists(targets, max_size=3))))
    if kind is ReadStream:
        return ReadStream(**read, keys=keys, start=draw(cursors))
    return MakeBatch(
        **read,
        level=draw(st.integers(1, 5)),
        inputs=tuple(draw(st.lists(spans, max_size=3))),
        begin=draw(cursors),
        end=draw(st.none() | cursors),
        start=draw(cursors),
        fill=draw(fills),
    )


def assert_same_fields(back: Any, sent: Any) -> None:
    assert type(back) is type(sent)
    for mine, other in zip(back, sent, strict=True):
        assert np.array_equal(mine, other) if isinstance(other, np.ndarray) else mine == other


@given(tasks(), small, st.booleans(), st.data())
def test_a_task_arrives_as_it_was_sent(task, attempt, suspect, data):
    """Every field of each kind, its attempt, whether it is suspect, and where its inputs lie."""
    outputs = {span.task: data.draw(st.builds(Slot, small, small, small, small)) for span in inputs_of(task)}
    body = wire.pack_task(task, attempt, suspect, {LAYOUT: 7}, outputs)
    back, *rest = wire.unpack_task(body, {7: LAYOUT})
    assert rest == [attempt, suspect, outputs]
    assert_same_fields(back, task)


failures = st.sampled_from([None, Failure(b"packed", "label", (1, 2))])
layouts = st.sampled_from([None, LAYOUT])
losses = st.sampled_from([(), (Loss(0, 1, 2, 3, "label", "why", None),)])
seconds = st.sampled_from([0.0, 0.25, 7.5])
sums = {"nbytes": small, "seconds": seconds}
read = {**sums, "losses": losses, "waited": seconds}


@st.composite
def results(draw: Any) -> TaskResult | Discarded:
    kind = draw(st.sampled_from([RowsRead, StreamRead, BatchMade, Discarded]))
    if kind is Discarded:
        return Discarded()
    if kind is RowsRead:
        parts = st.lists(st.builds(RowsPart, st.integers(0, 4), st.booleans()), max_size=4).map(tuple)
        target = st.integers(0, 4)
        made = st.builds(RowsRead, parts, failures, target, layout=layouts, **read)
        result = draw(made)
        # Without a failure there is no failed target.
        return result if result.failure is not None else result._replace(failed_target=0)
    size, width = draw(st.integers(0, 4)), draw(st.sampled_from([None, 1, 2]))
    begins = None if width is None else np.arange(size * width).reshape(size, width)
    ends = None if begins is None or draw(st.booleans()) else begins + 1
    last = read if kind is StreamRead else {"layout": layouts, **sums}
    return draw(st.builds(kind, st.just(size), st.just(begins), st.just(ends), failures, **last))


@given(results())
def test_a_result_arrives_as_it_was_sent(result):
    """Parts, elements with and without cursors, a failure, losses, and what the rows look like."""
    task, attempt, back = wire.unpack_result(wire.pack_result(3, 4, result, Packer()))
    assert (task, attempt) == (3, 4)
    assert_same_fields(back, result)


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40))), st.lists(st.integers(1, 30)))
def test_messages_are_whole_however_the_channel_cuts_them(messages, cuts):
    """Each comes once, in order, when its last byte is there."""
    stream = b"".join(wire.frame(kind, body) for kind, body in messages)
    received, got = bytearray(), []
    for cut in [*cuts, len(stream)]:
        received += stream[:cut]
        stream = stream[cut:]
        got += wire.split(received)
    assert got == messages and not received


@given(
    st.lists(
        st.tuples(hnp.array_shapes(min_dims=0, min_side=0), hnp.scalar_dtypes()), min_size=1, max_size=5
    ),
    st.integers(1, 9),
)
def test_leaves_of_a_slot_are_aligned_and_do_not_touch(leaves, rows):
    """Each starts at a multiple of 64 bytes behind the end of the one before, and all fit in the slot."""
    from loaderkit.transforms.stack import LeafSpec

    spec = RowSpec(structure_of([0] * len(leaves)), tuple(LeafSpec(shape, dtype) for shape, dtype in leaves))
    layout = BatchLayout(spec)
    nbytes = layout.nbytes(rows)
    room = np.zeros(nbytes + ALIGNMENT, np.uint8)
    base = room.__array_interface__["data"][0]
    end = 0
    for array, (shape, dtype) in zip(layout.leaves(memoryview(room), rows), leaves, strict=True):
        begin = array.__array_interface__["data"][0] - base
        assert array.shape == (rows, *shape) and array.dtype == dtype and array.flags.c_contiguous
        assert not array.nbytes or (begin >= end and begin % ALIGNMENT == 0)
        end = max(end, begin + array.nbytes) if array.nbytes else end
    assert end <= nbytes


def test_classes_that_both_sides_know_travel_by_number():
    """The class arrives as itself, and nothing that was changed on it since is undone."""

    class Local:
        count = 0

    packer = Packer()
    pickle.loads(packer.teach(Local))
    Local.count = 5
    packed = packer.dumps([Local, Local()])
    Local.count = 6
    kind, instance = pickle.loads(packed)
    assert kind is Local and type(instance) is Local and Local.count == 6
