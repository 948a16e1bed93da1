"""NetCDF, HDF5 and Zarr as sources, opened once a process."""

import contextlib
import os
import pickle
import signal
import threading
from functools import partial

import h5py
import numpy as np
import pytest
import xarray
import zarr

import loaderkit as lk
from loaderkit.formats.array_files import _identified

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX may be loaded by another test

X = np.random.default_rng(0).random((40, 3, 2)).astype(np.float32)
Y = np.arange(40)
# zarr's thread, which lives as long as the process, starts here and not within a test.
zarr.open_group(zarr.storage.MemoryStore(), mode="w")


def written(folder, kind):
    path = str(folder / f"a.{kind}")
    data = xarray.Dataset({"x": (("n", "a", "b"), X), "y": (("n",), Y), "t": (("b", "n"), X[:, 0].T)})
    if kind == "nc":
        data.to_netcdf(path, engine="h5netcdf", encoding={"x": {"chunksizes": (8, 3, 2)}})
    elif kind == "zarr":
        data.to_zarr(path, encoding={"x": {"chunks": (8, 3, 2)}}, consolidated=False)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=X, chunks=(8, 3, 2)).dims[0].label = "n"
            file.create_dataset("y", data=Y).dims[0].label = "n"
            file.create_dataset("t", data=X[:, 0].T).dims[1].label = "n"
    return path


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_variables_within_groups(tmp_path, kind):
    """They are named by their path; one that isn't there is an error."""
    path = written(tmp_path, kind)
    with h5py.File(path, "a") if kind == "h5" else contextlib.nullcontext(zarr.open_group(path)) as group:
        group.create_group("inner").create_array("z", data=2 * Y) if kind == "zarr" else group.update(
            {"inner/z": 2 * Y}
        )
    with lk.formats.ArrayFileDataSource(path, 0, names=["y", "inner/z"]) as source:
        assert source[7] == {"y": 7, "inner/z": 14}
    with pytest.raises(ValueError, match=r"names: expected some of .*'inner'.*, got \['inner/y'\]"):
        lk.formats.ArrayFileDataSource(path, 0, names=["inner/y"])


@pytest.mark.parametrize("kind", ["nc", "h5", "zarr"])
def test_xarray_netcdf_hdf5_zarr(tmp_path, kind):
    """The rows along a dimension, wherever it stands; the same in workers; chunks give the advice."""
    path = written(tmp_path, kind)
    with lk.formats.ArrayFileDataSource(path, "n", names=["x", "y", "t"]) as source:
        assert len(source) == 40 and source.chunk_records == 8 and source.chunk_bytes == 8 * (24 + 8 + 8)
        keys = [3, 39, 4, 5, 3, 0]
        columns = source.take(keys)
        for name, rows in {"x": X, "y": Y, "t": X[:, 0]}.items():
            assert np.array_equal(columns[name], rows[keys]) and columns[name].dtype == rows.dtype
            assert np.array_equal(source[7][name], rows[7])
        copy = pickle.loads(pickle.dumps(source))
        assert copy.fingerprint() == source.fingerprint()
        loader = lk.load(source, batch_size=8, num_epochs=1, shuffle=True, seed=0, worker_count=2)
        got = np.concatenate([batch["y"] for batch in loader])
        assert sorted(got) == [*range(40)]
        loader.close(), copy.close()
    assert np.array_equal(source[1]["x"], X[1])  # opened again
    assert {*lk.formats.ArrayFileDataSource(path, "n")[0]} == {"x", "y", "t"}


def opened(path, counter):
    with open(counter, "a") as file:
        file.write(f"{os.getpid()}\n")
    return xarray.open_dataset(path, engine="h5netcdf")


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_opened_once_a_process(tmp_path, kind):
    """Whether workers are processes or threads; fork included."""
    path, counter = written(tmp_path, "nc"), tmp_path / "opened"
    source = lk.formats.ArrayFileDataSource(partial(opened, path, counter), "n", names=["y"])
    loader = lk.load(source, batch_size=2, num_epochs=2, worker_count=2, worker_kind=kind)
    assert sum(int(batch["y"].sum()) for batch in loader) == 2 * Y.sum()
    loader.close()
    processes = counter.read_text().split()
    assert len(processes) == len({*processes}) <= (3 if kind == "process" else 1)
    child = os.fork()
    if not child:
        os._exit(int(source[5]["y"]) != 5)
    assert os.waitpid(child, 0)[1] == 0 and source[6]["y"] == 6
    assert len(counter.read_text().split()) == len(processes) + 1


def test_arrays_of_many_threads(tmp_path):
    """h5py reads one at a time."""
    source = lk.formats.ArrayFileDataSource(written(tmp_path, "h5"), 0, names=["x", "y"])
    wrong = []

    def read(seed):
        keys = np.random.default_rng(seed).integers(40, size=100).tolist()
        wrong.extend(key for key in keys if source[key]["y"] != key)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("kind", ["nc", "h5", "zarr"])
def test_a_child_forked_while_a_thread_reads(tmp_path, kind):
    """It has no lock that the thread held, neither the source's nor one of its library."""
    source = lk.formats.ArrayFileDataSource(written(tmp_path, kind), "n", names=["x", "y"])
    ends = threading.Event()

    def read():
        while not ends.is_set():
            source.take([*range(0, 40, 2)])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for key in range(6):
            child = os.fork()
            if not child:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(10)  # ends a child that waits for ever
                os._exit(int(source[key]["y"]) != key)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ends.set()
        thread.join()


def test_arrays_that_are_wrong(tmp_path):
    """Names, dimensions, lengths, files; a file that was written again."""
    path = written(tmp_path, "h5")
    (tmp_path / "text.nc").write_text("no NetCDF")
    (tmp_path / "a.bin").write_text("")
    objects = xarray.Dataset({"s": (("n",), np.array(["a", None], object))})
    for (*arguments, options), error, text in [
        ((str(tmp_path / "no.h5"), "n", {}), FileNotFoundError, "which is missing"),
        (
            (str(tmp_path / "text.nc"), "n", {}),
            lk.errors.DataFormatError,
            r"text.nc: expected a data set .*\.nc",
        ),
        ((str(tmp_path / "a.bin"), "n", {}), ValueError, "a path that ends in .nc"),
        ((3, "n", {}), TypeError, "open: expected a path or a function"),
        ((path, 1.5, {}), TypeError, "dim: expected a dimension's name"),
        (
            (path, "m", {}),
            ValueError,
            r"dim: expected a dimension of a variable of \['t', 'x', 'y'\], got 'm'",
        ),
        ((path, "n", {"names": ["z"]}), ValueError, r"names: expected some of .*, got \['z'\]"),
        ((path, "n", {"names": "x"}), TypeError, "names: expected a list"),
        ((path, 1, {"names": ["y"]}), ValueError, r"variables with the dimension 1, got y"),
        ((path, 0, {}), ValueError, "of one length along 0, got .*'t': 2"),
        ((lambda: objects, "n", {}), TypeError, r"got s of object; leave it out"),
        ((lambda: 3, "n", {}), TypeError, "data set of arrays .* got a int"),
    ]:
        with pytest.raises(error, match=text):
            lk.formats.ArrayFileDataSource(*arguments, **options)
    source = lk.formats.ArrayFileDataSource(path, "n", names=["y"])
    source.close()
    with h5py.File(path, "a") as file:
        file["y"][0] = 9
    with pytest.raises(lk.errors.FileChangedError, match=r"a\.h5"):
        source[0]


def test_plain_zarr_without_names_of_dimensions(tmp_path):
    """The dimension is its place; without chunks of its own the source has no advice where it isn't known."""
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("x", data=X, chunks=(5, 3, 2))
    assert lk.formats.ArrayFileDataSource(tmp_path / "a.zarr", 0).chunk_records == 5
    plain = lk.formats.ArrayFileDataSource(lambda: {"x": X}, 0)
    assert not hasattr(plain, "chunk_records") and np.array_equal(plain.take([2, 1])["x"], X[[2, 1]])


@pytest.mark.parametrize("name", ["zarr.json", ".zmetadata", ".zgroup"])
def test_the_version_of_a_zarr_folder_is_that_of_its_metadata(tmp_path, name):
    """A folder's own time says nothing of a file that is written again in it."""
    assert _identified(str(tmp_path)) == str(tmp_path)
    (tmp_path / "x").touch()
    (tmp_path / name).touch()
    assert _identified(str(tmp_path)) == str(tmp_path / name)
    assert _identified(str(tmp_path / "x")) == str(tmp_path / "x")
