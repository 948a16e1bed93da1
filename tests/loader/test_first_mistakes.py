"""Mistakes of the first day: each is an error, or a warning, that says what to write instead."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.testing import check_source

X, Y = np.zeros((10, 3)), np.arange(10)


# As a class of the user that derives from Grain's, which need not be installed.
GrainMap = type("GrainMap", (type("Map", (), {"__module__": "grain.transforms"}),), {})


def forgets(record):
    record["x"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: lk.load({"x": X, "y": Y[:4]}),
            r"source: expected columns of one length, got .*{'x': 10, 'y': 4}",
        ),
        (lambda: lk.load(iter([3])), r"^source: expected an object with __len__"),
        (lambda: lk.Dataset(100), r"^source: expected a data source, got the int 100; write range\(100\)$"),
        (lambda: lk.offline.measure(3, len, "a.npy"), r"^source: .* got the int 3; write range\(3\)$"),
        (
            lambda: lk.Dataset(lk.load([1])),
            r"^source: .* got a DataLoader; give the source that it was made of$",
        ),
        (
            lambda: lk.Dataset([1]).map(lambda e, rng: e),
            r"^Map: .* got <lambda> of \(e, rng\); .*\.random_map takes",
        ),
        (lambda: lk.Dataset([1]).map(GrainMap()), r"^Map: .*; derive GrainMap from lk.Map$"),
        (lambda: lk.Dataset([1]) + lk.Dataset([2]), r"lk.Dataset.concat\(\[ds, other\]\)"),
        (lambda: lk.Dataset.mix([[1], [2]]), r'lk.Dataset.mix\(\{"a": \.\.\., "b": \.\.\.\}\)$'),
        (
            lambda: lk.Dataset([1]).mix([[2]]),
            r'lk.Dataset.mix\(\{"a": \.\.\., "b": \.\.\.\}\) with the chain',
        ),
        (
            lambda: lk.Dataset([1]).loader(exclude=[0]),
            r"^exclude: .*; write lk.offline.block_list\(source, folder, keys=",
        ),
        (
            lambda: lk.load([1], max_bad_records="1%", on_record_error="skip"),
            r"^max_bad_records: expected a count, or a share such as 0.01, got '1%'$",
        ),
        (
            lambda: lk.TarDataSource("https://127.0.0.1:9/a.tar", cache="x"),  # asks no server
            r'^cache: expected lk.Cache, got str; write cache=lk.Cache\(folder, limit="200GB"\)$',
        ),
        (
            lambda: lk.plan_packing(lk.TokenDataSource(np.arange(4), np.array([0, 3, 4])), 8),
            r"^lengths: .* got a TokenDataSource; give its lengths, such as source.lengths, here 2 documents$",
        ),
        (
            lambda: lk.load([1], operations=3),
            r"^operations: expected a list of operations, got int 3",
        ),
        (lambda: lk.load([1], operations=[3]), r"^operations\[0\]: expected an operation"),
        (
            lambda: lk.DataLoader(data_source=[1]),
            r"DataLoader\(\) lacks sampler: DataLoader\(data_source=source, sampler=",
        ),
        (
            lambda: lk.write("out", [{"x": 1}]),
            r"records: .* got the path 'out'; write lk.write\(records, path\)",
        ),
        (
            lambda: lk.transforms.image.Normalize(0.5, 0.5),
            r"mean, std: .* got 0.5 and 0.5; for three write \(0.5, 0.5",
        ),
        (
            lambda: lk.MapDataSource([{"x": 1}], forgets)[0],
            r"forgets\): expected a record .*, got None; does it lack",
        ),
    ],
)
def test_a_call_that_is_wrong(call, said):
    """Named by the argument as the call has it."""
    with pytest.raises(TypeError, match=said):
        call()


def test_a_list_of_features_and_labels(caplog):
    """It is two records; arrays of one form are meant so."""
    lk.load([X, X]).close()
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        lk.load([X, Y]).close()
    assert "the records are the 2 arrays of the list" in caplog.text
    assert "lk.load({'x': ..., 'y': ...})" in caplog.text


def test_a_mapped_source_whose_function_forgets_its_return():
    """Many at once, too; check_source shows the same error."""
    source = lk.MapDataSource(lk.RangeDataSource(0, 3, 1), lambda number: None)
    with pytest.raises(lk.errors.NoResultError, match="does it lack a return"):
        source.__getitems__([0, 1])
    with pytest.raises(AssertionError, match="does it lack a return"):
        check_source(source)


@pytest.mark.parametrize("name", ["state.json", Path("runs/state.json")])
def test_a_state_by_the_name_of_its_file(name):
    """The error reads it."""
    with lk.load(range(9)) as loader, iter(loader) as it:
        with pytest.raises(TypeError, match=rf"pathlib.Path\('{name}'\).read_bytes\(\)"):
            it.set_state(name)
        with pytest.raises(TypeError, match=r"give text.encode\(\)"):
            it.set_state(it.get_state().decode())


@pytest.mark.parametrize(("saved", "here", "how"), [("skip", "raise", "with"), ("raise", "skip", "without")])
def test_a_state_of_a_loader_that_skips(saved, here, how):
    """It asks for on_record_error, not for streams."""

    def loader(policy):
        return lk.load(range(20), batch_size=2, num_epochs=1, on_record_error=policy)

    with loader(saved) as there, iter(there) as it:
        next(it)
        state = it.get_state()
    said = rf'build the loader {how} on_record_error="skip"\.'
    with (
        loader(here) as now,
        iter(now) as it,
        pytest.raises(lk.CheckpointMismatchError, match=said) as raised,
    ):
        it.set_state(state)
    assert "logical_streams=" not in str(raised.value)


def test_offsets_of_a_damaged_file(tmp_path):
    """The error names it."""
    np.save(tmp_path / "offsets.npy", np.array([0, 5, 3]))
    with pytest.raises(ValueError, match=r"offsets.npy: offsets: expected ascending numbers, got 3 behind 5"):
        lk.TokenDataSource(np.arange(9), tmp_path / "offsets.npy")


def test_verify_of_tokens_and_plans(tmp_path):
    """Tokens are read and compared; of a plan the error says what compares it."""
    lk.write([{"tokens": np.arange(4, dtype=np.uint16)}], tmp_path / "a.tokens")
    lk.plan_packing([3, 4], 8, tmp_path / "a.plan")
    for name, status, text in (
        ("a.tokens", 0, ""),
        ("a.plan", 2, "a.plan: expected files of records, got a plan"),
    ):
        command = [sys.executable, "-m", "loaderkit", "check", "--full", tmp_path / name]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == status and text in run.stderr


def test_what_a_scan_and_a_file_manager_leave_in_a_set(tmp_path):
    """Parts of an index are ours, and go with the set; another file is named with what to do."""
    files = lk.write([{"x": 1}] * 4, tmp_path / "set", format="tfrecord", shards=2)
    whole = Path(files[1]).read_bytes()
    Path(files[1]).write_bytes(b"x" * len(whole))
    with pytest.raises(lk.errors.DataFormatError):
        lk.TFRecordDataSource(files)
    Path(files[1]).write_bytes(whole)
    (parts,) = (tmp_path / "set").glob("*.lkx.parts")
    assert os.listdir(parts)
    (parts / "mine").write_text("mine")
    (tmp_path / "set" / ".DS_Store").write_bytes(b"x")

    def again():
        return lk.write([{"x": 2}] * 4, tmp_path / "set", format="tfrecord", shards=2, overwrite=True)

    with pytest.raises(FileExistsError, match=r"got '.DS_Store' .*delete a .DS_Store"):
        again()
    (tmp_path / "set" / ".DS_Store").unlink()
    with pytest.raises(FileExistsError, match=r"parts/mine"):
        again()
    (parts / "mine").unlink()
    again()
    assert sorted(os.listdir(tmp_path / "set")) == [
        "00000-of-00002.tfrecord", "00001-of-00002.tfrecord", "data-2-1a48b34e.lkx", "made.json"
    ]  # fmt: skip
    assert not (tmp_path / "set.partial").exists()


def test_a_renamed_field_of_a_set_with_a_card(tmp_path):
    """Parquet has no checksum of its footer; the card has the fields."""
    made = lk.write_dataset(
        {"train": [{"label": k} for k in range(5)]}, "a:1.0.0", format="parquet", data_dir=tmp_path
    )
    (file,) = Path(made).rglob("*.parquet")
    assert lk.open(made, "train")[1] == {"label": 1}
    file.write_bytes(file.read_bytes().replace(b"label", b"lbbel"))
    with pytest.raises(lk.errors.DataFormatError, match=r"label"):
        lk.open(made, "train")
