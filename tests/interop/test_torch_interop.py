"""Against the real torch: the memory of a batch is shared, and its loaders give the loader's stream and resume it."""

import itertools
import pickle
import re
import signal
import warnings
from collections import UserDict, defaultdict
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")
bridge = pytest.importorskip("loaderkit.interop.torch")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
]


@pytest.fixture(autouse=True)
def handler_of_child_signals():
    """Torch's DataLoader sets one for its workers, and leaves it."""
    before = signal.getsignal(signal.SIGCHLD)
    yield
    signal.signal(signal.SIGCHLD, before)


def loader_of(n=22, **options):
    """Batches of 3 of n records, with leaves of several dtypes."""
    records = [{"x": np.arange(4, dtype=np.uint16) + k, "y": k / 2, "name": f"r{k}"} for k in range(n)]
    options = {"batch_size": 3, "shuffle": True, "seed": 0, "num_epochs": 1, **options}
    return lk.load(records, **options)


def keys_of(batches):
    """The first column of x of each batch."""
    return [np.asarray(batch["x"])[:, 0].tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_tensors_share_the_memory_of_the_batch(workers):
    """Same tree and values; the slot of a batch isn't used again while its tensor lives."""
    with loader_of(worker_count=workers) as loader:
        expected = [*loader.epoch(0)]
        got = [*bridge.tensors(loader.epoch(0))]
    assert len(expected) == len(got) == 8
    for batch, same in zip(expected, got):
        assert [*batch] == [*same]
        assert same["x"].dtype == torch.uint16 and same["y"].dtype == torch.float64
        assert np.array_equal(same["x"].numpy(), batch["x"]) and np.array_equal(same["y"].numpy(), batch["y"])
        assert (same["name"] == batch["name"]).all() and isinstance(same["name"], np.ndarray)
    array = np.zeros((2, 3), np.float32)
    assert bridge._tensor_of(array).data_ptr() == array.ctypes.data


def test_what_a_tensor_cannot_share_is_copied_and_what_it_cannot_hold_stays():
    """A write into the tensor of a read-only array doesn't reach it."""
    frozen = np.arange(3)
    frozen.setflags(write=False)
    tensor = bridge._tensor_of(frozen)
    tensor[0] = 7
    assert frozen.tolist() == [0, 1, 2]
    assert bridge._tensor_of(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]
    assert bridge._tensor_of(np.arange(3)[::-1]).tolist() == [2, 1, 0]
    small = np.array([1.5, -2], pytest.importorskip("ml_dtypes").bfloat16)
    assert bridge._tensor_of(small).dtype == torch.bfloat16 and bridge._tensor_of(small).tolist() == [1.5, -2]
    for leaf in (
        np.array(["2020-01-01"], "M8[D]"),
        np.array([None]),
        b"x",
        "a",
        3,
        np.zeros(1, np.longdouble),
    ):
        assert bridge._tensor_of(leaf) is leaf
    assert bridge._tensor_of(np.float32(2)).shape == ()
    assert bridge._tensor_of(np.zeros(1, np.complex128)).dtype == torch.complex128


def test_the_state_of_the_tensors_is_the_loaders():
    """It goes from one iterator to another, and to a loader's own."""
    it = bridge.tensors(loader_of(), device="cpu")
    expected = keys_of(it)
    again = bridge.tensors(iter(loader_of()))
    next(again)
    assert (again.step, len(again)) == (1, 7)
    state = pickle.loads(pickle.dumps(again.state_dict()))
    own = iter(loader_of())
    own.set_state(again.get_state())
    other = bridge.tensors(loader_of())
    other.load_state_dict(state)
    assert keys_of(own) == keys_of(other) == keys_of(again) == expected[1:]
    other.set_state(state["loaderkit"].encode())
    other.seek(6)
    assert keys_of(other) == expected[6:]
    with pytest.raises(ValueError, match="state_dict: expected what state_dict"):
        other.load_state_dict({"epoch": 3})


def test_an_endless_one_is_no_list():
    """As a loader without end: an error with what to write, and no full memory."""
    with pytest.raises(ValueError, match="write num_epochs=1"):
        list(bridge.tensors(loader_of(num_epochs=None)))


def test_wrong_arguments_are_errors_that_say_what_is_expected():
    """Before anything is read."""
    with pytest.raises(TypeError, match="batches: expected a DataLoader or an iterator of one, got list"):
        bridge.tensors([1])
    with pytest.raises(TypeError, match="loader: expected a loaderkit DataLoader, got list"):
        bridge.LoaderDataset([1])
    if not torch.accelerator.is_available():
        with pytest.raises(ValueError, match="pin_memory: expected False where torch has no accelerator"):
            bridge.tensors(loader_of(), pin_memory=True)


@pytest.mark.parametrize("workers", [0, 1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_torchs_data_loader_gives_the_loaders_stream(workers):
    """With each number of torch's workers: every step once, in the loader's order."""
    dataset = bridge.LoaderDataset(loader_of())
    with warnings.catch_warnings():
        # Torch forks in a process with threads, and there may be fewer cores than its workers.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        got = keys_of(data.DataLoader(dataset, batch_size=None, num_workers=workers))
    assert got == keys_of(loader_of())
    assert len(dataset) == 8


def test_workers_within_workers_and_rows_that_change_are_refused(monkeypatch):
    """The error says which workers to use."""
    info = type("Info", (), {"id": 1, "num_workers": 2})
    monkeypatch.setattr(bridge, "get_worker_info", lambda: info)
    with pytest.raises(ValueError, match=r"num_workers: expected 0 of torch's DataLoader .* worker_count=1"):
        iter(bridge.LoaderDataset(loader_of(worker_count=1)))
    filtered = loader_of(operations=[lk.Filter(lambda record: record["y"] > 1)])
    with pytest.raises(ValueError, match="expected 0 or 1 where operations change the number of rows, got 2"):
        iter(bridge.LoaderDataset(filtered))
    state = bridge.LoaderDataset(loader_of()).state_dict()
    monkeypatch.undo()
    dataset = bridge.LoaderDataset(loader_of())
    dataset.load_state_dict(state)
    assert dataset.state_dict() == state
    with pytest.raises(ValueError, match="expected the state of worker 0 of 1, got that of worker 1 of 2"):
        iter(dataset)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_stateful_data_loader_resumes_exactly(workers):
    """From each of several places, the end included, into a new loader."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    make = lambda: stateful(bridge.LoaderDataset(loader_of()), batch_size=None, num_workers=workers)  # noqa: E731
    expected = keys_of(loader_of())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for taken in (3,) if workers else (1, 3, 7):
            first = make()
            it = iter(first)
            before = [next(it) for _ in range(taken)]
            state = pickle.loads(pickle.dumps(first.state_dict()))
            del it
            again = make()
            again.load_state_dict(state)
            assert keys_of(before) + keys_of(again) == expected


def test_nodes_of_torchdata_resume_exactly():
    """An IterableWrapper asks the tensors for their state."""
    nodes = pytest.importorskip("torchdata.nodes")
    make = lambda: nodes.Loader(nodes.IterableWrapper(bridge.LoaderDataset(loader_of())))  # noqa: E731
    first = make()
    it = iter(first)
    before = [next(it) for _ in range(3)]
    state = first.state_dict()
    again = make()
    again.load_state_dict(state)
    assert keys_of(before) + keys_of(again) == keys_of(loader_of())


def test_a_batch_sampler_becomes_a_sampler_and_a_batch():
    """The batches are those of torch's own DataLoader under the same sampler."""
    shuffled = data.RandomSampler(range(10), generator=torch.Generator().manual_seed(0))
    order = [*shuffled]
    for drop in (False, True):
        by_four = data.BatchSampler(order, 4, drop_last=drop)
        sampler, batch = bridge.from_batch_sampler(by_four)
        loader = lk.DataLoader(data_source=range(10), sampler=sampler, operations=[batch])
        assert [b.tolist() for b in loader] == [*by_four]
    assert bridge.from_sampler(order).keys.tolist() == order
    with pytest.raises(
        ValueError,
        match=r"expected batches of 2 keys .* got 3 in batch 1; use lk.samplers.LengthBucketSampler",
    ):
        bridge.from_batch_sampler([[0, 1], [2, 3, 4], [5]])
    with pytest.raises(ValueError, match="expected a batch of keys or more, got none"):
        bridge.from_batch_sampler([])
    with pytest.raises(TypeError, match="expected ints, got batches of them; use from_batch_sampler"):
        bridge.from_sampler([[0, 1]])


class Endless:
    """Keys without end; perhaps with the length of an epoch, as some samplers say."""

    def __iter__(self):
        return itertools.cycle(range(3))


class EndlessOfALength(Endless):
    """One that says the length of an epoch."""

    def __len__(self):
        return 3


def test_a_sampler_without_end_is_an_error(monkeypatch):
    """It would take keys until the memory ends."""
    monkeypatch.setattr(bridge, "_MOST_KEYS", 1000)
    batches = ([key] for key in Endless())
    for read, sampler in ((bridge.from_sampler, Endless()), (bridge.from_batch_sampler, batches)):
        with pytest.raises(ValueError, match=r"sampler: expected at most 1,000, got more: one without end"):
            read(sampler)
    with pytest.raises(ValueError, match=r"sampler: expected at most 3 as its length says, got more"):
        bridge.from_sampler(EndlessOfALength())


class Names(list):
    """A list of another class."""


# Rows, what torch's default_collate gives, and what lk.Batch gives, as the page for users of PyTorch says.
COLLATED = {
    "mixed numbers": ([1, 2.5], torch.tensor([1, 2.5], dtype=torch.float32), np.array([1, 2.5])),
    "a class of lists": (
        [Names([1, 2]), Names([3, 4])],
        [torch.tensor([1, 3]), torch.tensor([2, 4])],
        np.array([[1, 2], [3, 4]]),
    ),
    "ranges": ([range(2)] * 2, [torch.tensor([0, 0]), torch.tensor([1, 1])], np.array([[0, 1], [0, 1]])),
    "text": (["a", "b"], ["a", "b"], np.array(["a", "b"])),
    "a default": (
        [defaultdict(int, x=1), defaultdict(int, x=2)],
        defaultdict(int, x=torch.tensor([1, 2])),
        defaultdict(None, x=np.array([1, 2])),
    ),
    "UserDict": ([UserDict(x=1), UserDict(x=2)], {"x": torch.tensor([1, 2])}, UserDict(x=np.array([1, 2]))),
}


@pytest.mark.parametrize("name", COLLATED)
def test_a_batch_differs_from_collate_as_the_page_says(name):
    """Types of containers and dtypes included."""
    rows, theirs, ours = COLLATED[name]
    given = next(iter(lk.load([0, 1], batch_size=2, operations=[rows.__getitem__])))
    assert repr(data.default_collate(rows)).replace("Names", "") == repr(theirs)
    assert type(given) is type(ours) and repr(given) == repr(ours)


def test_the_blocks_of_the_page_for_users_of_pytorch_run():
    """Those that need torch; the others run with all documents."""
    page = (Path(__file__).parents[2] / "docs/moving-from-pytorch.md").read_text()
    records = [{"x": np.float32(k)} for k in range(1000)]
    names = {"lk": lk, "dataset": records, "loader": lk.load(records, batch_size=32)}
    found = re.findall(r"^```pytorch\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(found) == 2
    for code in found:
        exec(code, names)
