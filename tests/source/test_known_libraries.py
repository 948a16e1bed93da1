"""Data sets of known libraries: known by their content where they say it, refused where [i] is no row."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._plan.state.data_fingerprint import same_on_all_hosts
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.known_libraries import MOST_RECORDS

ROOT = str(Path(__file__).parents[2])


def stand_in(library, name):
    """A class that calls itself a library's."""

    def named(cls):
        cls.__module__, cls.__qualname__ = library, name
        return cls

    return named


# --- stand-ins: what they promise holds where the libraries aren't installed --------------------------------


class _Rows:
    def __init__(self, rows):
        self.rows = rows

    def to_pylist(self):
        return self.rows


@stand_in("datasets.arrow_dataset", "Dataset")
class HuggingFace:
    """Rows of columns; `take` and `columns` are other things than a source's."""

    def __init__(self, values, fingerprint="0a", decoded=lambda x: x):
        self.values, self._fingerprint, self.decoded = values, fingerprint, decoded
        self.cache_files = []
        self.column_names = ["x"]

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return {"x": self.decoded(self.values[key])}

    def __getitems__(self, keys):
        return [self[key] for key in keys]

    def with_format(self, kind):
        assert kind == "arrow"
        values = self.values

        class Stored:
            def __getitem__(self, keys):
                return _Rows([{"x": values[key]} for key in keys])

        return Stored()

    def take(self, n):
        raise AssertionError("the first n records")

    def columns(self):
        raise AssertionError("something else")


@stand_in("torch.utils.data.dataset", "Subset")
class TorchSubset:
    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, key):
        return self.dataset[self.indices[key]]


@stand_in("torch.utils.data.dataset", "ConcatDataset")
class TorchConcat:
    def __init__(self, *datasets):
        self.datasets = list(datasets)

    def __len__(self):
        return sum(map(len, self.datasets))

    def __getitem__(self, key):
        return [record for part in self.datasets for record in part][key]


class _Dtype:
    def __init__(self, kind):
        self.kind = kind

    def __str__(self):
        return self.kind


class _Positions:
    def __init__(self, values):
        self.values = values

    def __getitem__(self, keys):
        return np.array([self.values[key] for key in keys], object)


@stand_in("pandas.core.series", "Series")
class Series:
    def __init__(self, values, index=None, kind="i"):
        self.values, self.dtype = values, _Dtype(kind)
        self.index = list(range(len(values))) if index is None else index
        self.iloc = _Positions(values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, label):
        return self.values[self.index.index(label)]

    def __iter__(self):
        return iter(self.values)

    def take(self, indices, axis=0, **kwargs):
        raise AssertionError("a Series")


@stand_in("pandas.core.frame", "DataFrame")
class DataFrame:
    columns = ("a", "b")

    def __init__(self, *kinds):
        self.dtypes = [*map(_Dtype, kinds)]

    def __len__(self):
        return 3

    def __getitem__(self, name):
        raise KeyError(name)

    def take(self, indices, axis=0, **kwargs):
        raise AssertionError("a DataFrame")


class _Field:
    def __init__(self, kind):
        self.type = kind


@stand_in("pyarrow.lib", "Table")
class Table:
    def __init__(self, *kinds):
        self.schema = [*map(_Field, kinds)]

    def __len__(self):
        return 3

    def __getitem__(self, name):
        return "a column"

    def take(self, indices):
        raise AssertionError("a Table")


@stand_in("tensorflow_datasets.core.data_sources.array_record", "ArrayRecordDataSource")
class Tfds:
    class dataset_info:  # noqa: N801 - an attribute of TFDS's
        full_name = "digits/1.0.0"

    split = "train"

    def __init__(self, stored):
        self.data_source = stored

    def __len__(self):
        return len(self.data_source)

    def __getitem__(self, key):
        raise AssertionError("decoded before the loader is iterated")

    __getitems__ = __getitem__


MANY = 4 * MOST_RECORDS
# Two data sets of other content, of the same type, length and repr.
PAIRS = {
    "Hugging Face": (HuggingFace([1, 2, 3]), HuggingFace([1, 5, 3])),
    "Hugging Face, between the sampled ones": (
        HuggingFace(range(MANY), "0a"),
        HuggingFace([*range(MANY - 2), 0, MANY - 1], "0b"),
    ),
    "Hugging Face, formatted": (HuggingFace([1, 2]), HuggingFace([1, 3], decoded=lambda _: 1)),
    "torch's Subset, other keys": (TorchSubset([1, 2, 3], [0, 1]), TorchSubset([1, 2, 3], [0, 2])),
    "torch's Subset, other data": (TorchSubset([1, 2, 3], [0, 1]), TorchSubset([1, 4, 3], [0, 1])),
    "torch's ConcatDataset": (TorchConcat([1, 2], [3]), TorchConcat([1, 2], [4])),
    "a Subset of a Hugging Face one": (
        TorchSubset(HuggingFace([1, 2]), [0]),
        TorchSubset(HuggingFace([1, 3]), [0]),
    ),
    "pandas' Series": (Series([1, 2, 3]), Series([1, 4, 3])),
    "TFDS": (Tfds([b"a", b"b"]), Tfds([b"a", b"c"])),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_state_of_other_content_is_refused(pair):
    """Type, length and repr are the same; the content is not."""
    one, other = pair
    state = iter(lk.load(one)).get_state()
    iter(lk.load(one)).set_state(state)
    with pytest.raises(lk.CheckpointMismatchError, match=r"source\."):
        iter(lk.load(other)).set_state(state)


def without(said, *keys):
    """A fingerprint as an earlier version wrote it."""
    if isinstance(said, dict):
        return {key: without(value, *keys) for key, value in said.items() if key not in keys}
    return said


NEW = ("content", "hf_fingerprint", "keys", "source", "sources")


@pytest.mark.filterwarnings("ignore:.*digest")
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_state_of_an_earlier_version_restores(pair):
    """It has fewer fields; the common ones are compared."""
    loader = lk.load(pair[0])
    saved = json.loads(iter(loader).get_state())
    saved["source"] = without(saved["source"], *NEW)
    del saved["digest"]
    iter(loader).set_state(json.dumps(saved).encode())
    saved["source"]["records"] += 1
    with pytest.raises(lk.CheckpointMismatchError, match=r"source\.records"):
        iter(loader).set_state(json.dumps(saved).encode())


@pytest.mark.filterwarnings("ignore:.*digest")
def test_bad_records_of_an_earlier_version_are_kept():
    """The records are the same, but the fingerprint has fewer fields."""

    def no_ones(record):
        if record == 1:
            raise ValueError("bad")
        return record

    loader = lk.load(Series([1, 2, 3]), num_epochs=1, operations=[no_ones], on_record_error="replace")
    it = iter(loader)
    next(it)
    saved = json.loads(it.get_state())
    del saved["digest"], saved["source"]["content"]
    again = iter(loader)
    again.set_state(json.dumps(saved).encode())
    assert again.bad_records == it.bad_records == 1


@pytest.mark.filterwarnings("ignore:.*digest")
def test_only_what_is_not_always_known_may_be_missing():
    """A source's own fingerprint, and a list's, are compared as they were."""
    for source in (lk.RangeDataSource(3), lk.ConcatDataSource([[1], [2]]), [1, 2], np.zeros(2)):
        saved = json.loads(iter(lk.load(source)).get_state())
        saved["source"] = without(saved["source"], "stop", "sources", "content")
        del saved["digest"]
        with pytest.raises(
            lk.CheckpointMismatchError, match=r"source\.(stop|sources|content): saved nothing"
        ):
            iter(lk.load(source)).set_state(json.dumps(saved).encode())


def test_a_small_hugging_face_set_is_known_by_all_of_its_rows():
    """All rows are compared, so the library's own fingerprint, of how the data was made, is left out."""
    assert fingerprint_of(HuggingFace([1, 2], "0a")) == fingerprint_of(HuggingFace([1, 2], "0b"))
    assert "hf_fingerprint" not in fingerprint_of(HuggingFace([1, 2]))
    assert fingerprint_of(HuggingFace(range(MANY), "0a"))["hf_fingerprint"] == "0a"


def test_sampled_rows_of_a_hugging_face_set_are_in_memory_some_at_a_time(monkeypatch):
    """Rows may be large: of 256 rows of 10 MB at most 16 are in memory at once."""
    asked = []
    monkeypatch.setattr(_Rows, "to_pylist", lambda rows: (asked.append(len(rows.rows)), rows.rows)[1])
    fingerprint_of(HuggingFace(range(MANY)))
    assert sum(asked) == min(MANY, 256)
    assert max(asked) <= 16


def test_files_that_a_row_names_are_known_without_their_folder():
    """Images that stay in files are their paths: the same data moved elsewhere is the same data."""
    rows = [[{"x": {"bytes": None, "path": f"/{folder}/1.png"}} for folder in ("here",)] for _ in range(2)]
    rows[1][0]["x"]["path"] = "/there/1.png"
    one, two = (fingerprint_of(HuggingFace([row["x"] for row in each])) for each in rows)
    assert one == two
    rows[1][0]["x"]["path"] = "/there/2.png"
    assert fingerprint_of(HuggingFace([rows[1][0]["x"]])) != one


def test_hosts_are_not_compared_by_what_may_differ_between_them():
    """A Hugging Face set's own fingerprint is of paths, caches and libraries, also inside of another source."""
    one, other = (TorchSubset(HuggingFace(range(MANY), name), [1]) for name in ("0a", "0b"))
    assert fingerprint_of(one) != fingerprint_of(other)
    assert same_on_all_hosts(fingerprint_of(one)) == same_on_all_hosts(fingerprint_of(other))


def test_documents_of_several_hosts_are_one_state():
    """Each host's own has the fingerprint that its library gave; the restoring one is compared with its own."""
    loaders = [
        lk.load(HuggingFace(range(MANY), name), shard_options=lk.ShardOptions(shard, 2))
        for shard, name in enumerate(("0a", "0b"))
    ]
    states = [iter(loader).get_state() for loader in loaders]
    iter(loaders[0]).set_state(states)
    with pytest.raises(lk.CheckpointMismatchError, match=r"source\.hf_fingerprint: saved \"0b\""):
        iter(loaders[0]).set_state(states[1])


def test_an_unfinished_subclass_is_known_by_its_type():
    """A data set without the attributes of its library is compared like any other source."""

    class Mine(HuggingFace):
        def __init__(self):
            self.values = [1, 2]

    assert fingerprint_of(Mine()) == {
        "kind": "foreign",
        "type": f"{__name__}.{Mine.__qualname__}",
        "records": 2,
    }


@pytest.mark.parametrize("worker_kind", [None, "thread"])
@pytest.mark.parametrize(
    "source", [HuggingFace([1, 2, 3]), Series([1, 2, 3])], ids=["Hugging Face", "Series"]
)
def test_other_methods_of_the_same_name_are_never_called(source, worker_kind):
    """This holds with Batch first, with and without workers, and through combined sources."""
    options = {"worker_count": 1, "worker_kind": worker_kind} if worker_kind else {}
    for each in (source, lk.SubsetDataSource(source, [0, 1, 2]), lk.ConcatDataSource([source])):
        with lk.load(each, num_epochs=1, batch_size=2, **options) as loader:
            batches = [batch["x"] if isinstance(batch, dict) else batch for batch in loader]
        assert [batch.tolist() for batch in batches] == [[1, 2], [3]]


TABLES = [
    (
        DataFrame("i", "f"),
        r"df\[i\] is a column.*write lk\.ArrayDataSource\(\{name: df\[name\]\.to_numpy\(\)",
    ),
    (DataFrame("i", "O"), r'df\[i\] is a column.*write lk\.InMemoryDataSource\(df\.to_dict\("records"\)\)'),
    (Table("int64", "double"), r"table\[i\] is a column.*write lk\.ArrayDataSource\(\{name: table\[name\]"),
    (
        Table("int64", "string"),
        r"table\[i\] is a column.*write lk\.InMemoryDataSource\(table\.to_pylist\(\)\)",
    ),
    (
        Series([1, 2], index=[1, 0]),
        r"the label i and not row i; write lk\.ArrayDataSource\(series\.to_numpy\(\)\)",
    ),
    (
        Series("ab", ["x", "y"], "O"),
        r"the label i and not row i; write lk\.InMemoryDataSource\(series\.tolist\(\)\)",
    ),
]


@pytest.mark.parametrize(("table", "says"), TABLES)
def test_a_table_is_refused_with_the_line_to_write(table, says):
    """Its [i] is a column, or the value with the label i: other data, or an error far from here."""
    with pytest.raises(TypeError, match=rf"source: expected rows, got a (pandas|pyarrow) .*{says}"):
        lk.load(table)
    with pytest.raises(TypeError, match=r"sources\[1\]: expected rows, got a "):
        lk.ConcatDataSource([[1], table])


@pytest.mark.parametrize("table", [DataFrame("i"), Table("int64")])
def test_a_table_is_no_list_of_elements(table):
    """Iterated, it gives its columns or their names; a Series gives its values, whatever their labels."""
    with pytest.raises(
        TypeError, match=r"elements: expected rows, got a p\w+ \w+, in which \w+\[i\] is a column"
    ):
        lk.InMemoryDataSource(table)
    assert list(lk.InMemoryDataSource(Series([1, 2], index=[1, 0]))) == [1, 2]


# --- the libraries themselves -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["DataFrame", "Table", "RecordBatch", "Series"])
@pytest.mark.parametrize("values", [[1, 2, 3], ["a", "b", "c"]])
def test_the_line_to_write_gives_the_rows(kind, values):
    """The line in the error, pasted, makes a source of the rows."""
    if kind in ("DataFrame", "Series"):
        pandas = pytest.importorskip("pandas")
        table = df = pandas.DataFrame({"x": values, "y": values})
        series = pandas.Series(values, index=[5, 6, 7])
        table = series if kind == "Series" else df
    else:
        pyarrow = pytest.importorskip("pyarrow")
        table = getattr(pyarrow, kind).from_pydict({"x": values, "y": values})
        df = series = None
    with pytest.raises(TypeError) as raised:
        lk.load(table)
    line = str(raised.value).partition("write ")[2]
    source = eval(line, {"lk": lk, "df": df, "table": table, "series": series})
    assert [source[key] for key in range(3)] == (
        values if kind == "Series" else [{"x": value, "y": value} for value in values]
    )


def torch_sets():
    torch = pytest.importorskip("torch")
    data = torch.utils.data

    def tensors(middle, dtype=torch.float32):
        x = torch.arange(9).to(dtype)
        x[4] = middle
        return data.TensorDataset(x, torch.arange(18).reshape(9, 2))

    return [
        tensors(4), tensors(5), tensors(4, torch.bfloat16), tensors(4, torch.int64), torch.arange(9), torch.ones(9),
        data.Subset(tensors(4), [*range(8), 8]), data.Subset(tensors(4), [8, *range(8)]),
        data.Subset(tensors(5), range(9)), data.ConcatDataset([tensors(4)]), data.ConcatDataset([tensors(5)]),
        data.StackDataset(tensors(4)), data.StackDataset(tensors(5)), data.StackDataset(a=tensors(5)),
    ]  # fmt: skip


def pandas_sets():
    pandas = pytest.importorskip("pandas")
    return [pandas.Series(values) for values in ([1, 2, 3], [1, 5, 3], [1.0, 2.0, 3.0], ["a", "b", None])]


def pyarrow_sets():
    pyarrow = pytest.importorskip("pyarrow")
    chunked = [pyarrow.chunked_array(chunks) for chunks in ([[1, 2], [3]], [[1], [5, 3]], [["a", "b", None]])]
    return [*chunked, pyarrow.array([1, 2, 3]), pyarrow.array([1, 5, 3])]


def hugging_face_sets():
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    small = [datasets.Dataset.from_dict({"x": values}) for values in ([1, 2, 3], [1, 5, 3], ["a", "b", "c"])]
    values = np.arange(MANY)
    large = datasets.Dataset.from_dict({"x": values})
    values[MANY - 2] = 0
    return [
        *small, small[0].rename_column("x", "y"), small[0].select([2, 1, 0]), small[0].shuffle(seed=1).take(2),
        large, datasets.Dataset.from_dict({"x": values}), large.shuffle(seed=1),
    ]  # fmt: skip


LIBRARIES = [pytest.param(torch_sets, marks=pytest.mark.torch), pandas_sets, pyarrow_sets, hugging_face_sets]


@pytest.mark.parametrize("make", LIBRARIES)
def test_other_content_has_another_fingerprint(make):
    """This holds for equal type, length and repr, too; the same data, made again, has the same fingerprint."""
    seen = [json.dumps(fingerprint_of(source)) for source in make()]
    assert len(set(seen)) == len(seen)
    assert seen == [json.dumps(fingerprint_of(source)) for source in make()]


def test_chunks_are_no_part_of_the_data():
    """The chunks of a column don't change its records."""
    pyarrow = pytest.importorskip("pyarrow")
    chunked = [pyarrow.chunked_array(chunks) for chunks in ([[1, 2], [3]], [[1], [2, 3]])]
    one, other = (fingerprint_of(column)["content"] for column in chunked)
    assert one == other


def test_a_random_fingerprint_of_hugging_faces_is_left_out(monkeypatch, caplog):
    """A transform that can't be hashed makes it random, and so may anything do where there is no cache."""
    datasets = pytest.importorskip("datasets")
    library = sys.modules["datasets.fingerprint"]
    monkeypatch.setattr(library, "fingerprint_warnings", {})
    datasets.disable_progress_bars()
    values = datasets.Dataset.from_dict({"x": range(MANY)})
    assert fingerprint_of(values)["hf_fingerprint"] == values._fingerprint
    monkeypatch.setattr(library, "_CACHING_ENABLED", False)
    assert "hf_fingerprint" not in fingerprint_of(values)
    monkeypatch.setattr(library, "_CACHING_ENABLED", True)
    unhashable = (number for number in range(1))

    def one_more(row):
        return {"x": row["x"] + 1 + len([*unhashable][:0])}

    one, two = (values.map(one_more) for _ in range(2))
    assert one._fingerprint != two._fingerprint
    assert fingerprint_of(one) == fingerprint_of(two)
    assert fingerprint_of(one)["content"] != fingerprint_of(values)["content"]
    iter(lk.load(two)).set_state(iter(lk.load(one)).get_state())


def test_a_hugging_face_set_that_moved_is_the_same_data(tmp_path):
    """What was saved to disk keeps its own fingerprint wherever it is loaded from."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict({"x": range(MANY)}).save_to_disk(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    one, two = (fingerprint_of(datasets.load_from_disk(tmp_path / name)) for name in ("one", "two"))
    assert one == two
    assert "hf_fingerprint" in one


def test_hugging_face_and_pandas_batch_by_rows():
    """Their own take and columns aren't called."""
    datasets = pytest.importorskip("datasets")
    pandas = pytest.importorskip("pandas")
    for source, name in (
        (datasets.Dataset.from_dict({"x": [1, 2, 3]}), "x"),
        (pandas.Series([1, 2, 3]), None),
    ):
        with lk.load(source, num_epochs=1, batch_size=2) as loader:
            batches = [batch if name is None else batch[name] for batch in loader]
        assert [batch.tolist() for batch in batches] == [[1, 2], [3]]


@pytest.mark.parametrize("make", LIBRARIES)
def test_libraries_in_workers_and_in_another_process(make, nightly):
    """Batches are the same from a worker, and fingerprints in a process that hashes strings in another way."""
    if not nightly:
        pytest.skip("nightly")
    streams = []
    for workers in (0, 1):
        with lk.load(make()[0], num_epochs=1, batch_size=2, worker_count=workers) as loader:
            streams.append([repr(batch) for batch in loader])
    assert streams[0] == streams[1]
    code = (
        f"import sys, json; sys.path[:0] = [{ROOT!r}, {str(Path(__file__).parent)!r}]\n"
        f"import test_known_libraries as tests\n"
        f"print(json.dumps([tests.fingerprint_of(source) for source in tests.{make.__name__}()]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [fingerprint_of(source) for source in make()]
