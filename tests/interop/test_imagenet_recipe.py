"""docs/train_imagenet.py, on shipped pictures: killed and resumed it has the losses of a run that wasn't."""

import hashlib
import json
import signal
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax_run import ROOT, run

import loaderkit as lk

sys.path.append(str(ROOT / "docs"))
import train_imagenet as script

CASE = Path(__file__).parent / "imagenet_case.py"
STEPS, KILLED_AT = 6, 3


@pytest.fixture
def folder(tmp_path):
    """JPEGs in a folder for each class: parts of scikit-learn's two photographs."""
    cv2 = pytest.importorskip("cv2")
    images = pytest.importorskip("sklearn.datasets").load_sample_images()
    for name, picture in zip(("china", "flower"), images.images, strict=True):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(10):
            part = picture[10 * number : 10 * number + 120, 20 * number : 20 * number + 150, ::-1]
            assert cv2.imwrite(str(tmp_path / "pictures" / name / f"{number:02}.jpg"), part)
    return tmp_path / "pictures"


@pytest.fixture
def shards(folder, tmp_path):
    """The same pictures in tar shards, in the same order."""
    records = [{"jpg": one["image"], "cls": one["label"]} for one in lk.FolderDataSource(folder)]
    made = tmp_path / "shards"
    made.mkdir()
    lk.write(records, made / "train-%06d.tar", format="webdataset", shard_records=7)
    assert len(list(made.glob("*.tar"))) == 3
    return made


def steps_of(data, run_folder, out, *, killed_at=0, cache=()):
    """Each step's loss and batch by its number, and what is said behind them; the process's exit status."""
    ((status, told, errors),) = run(
        lambda _: [CASE, data, run_folder, STEPS, killed_at, *cache],
        processes=1,
        devices=1,
        folder=out,
        path=ROOT / "docs",
        timeout=400,
    )
    assert status == (-signal.SIGKILL if killed_at else 0), errors
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    steps = {line["step"]: (line["loss"], line["batch"]) for line in lines if "step" in line}
    return steps, [line for line in lines if "step" not in line], told


@pytest.mark.slow
def test_a_killed_training_has_the_losses_of_one_that_was_not(
    folder, shards, tmp_path, range_server, monkeypatch, at_night
):
    """From a folder, and the same losses from tar shards on a server, killed there too and continued."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "compiled"))  # most of the time
    whole, (accuracy,), told = steps_of(folder, tmp_path / "whole", tmp_path / "out")
    assert sorted(whole) == list(range(1, STEPS + 1)) and len({batch for _, batch in whole.values()}) == STEPS
    assert np.isfinite([loss for loss, _ in whole.values()]).all() and 0 <= accuracy["accuracy"] <= 1
    assert "bottleneck" in told and "\nstep 1: loss " in told and "\nsaves step 2\n" in told
    url = range_server(shards).url("train-{000000..000002}.tar")
    for name, data, cache in (("folder", folder, ()), ("shards", url, (tmp_path / "cache",))):
        run_folder = tmp_path / name
        before, _, _ = steps_of(data, run_folder, tmp_path / "before", killed_at=KILLED_AT, cache=cache)
        after, _, told = steps_of(data, run_folder, tmp_path / "after", cache=cache)
        assert f"continues after step {KILLED_AT // 2 * 2}\n" in told
        assert sorted(before) == list(range(1, KILLED_AT + 1))
        assert sorted(after) == list(range(KILLED_AT // 2 * 2 + 1, STEPS + 1))
        for steps in (before, after):
            assert steps == {step: whole[step] for step in steps}, name


def batches_of(data, worker_count):
    """sha256 of each of the first batches of the recipe."""
    settings = script.Settings(
        str(data), Path(), global_batch_size=8, classes=2, train_size=32, worker_count=worker_count
    )
    split = NamedSharding(Mesh(jax.devices()[:1], "data"), PartitionSpec("data"))
    with script.training_data(settings, split) as loader, iter(loader) as it:
        batches = [next(it) for _ in range(STEPS)]
    assert batches[0]["image"].shape == (8, 32, 32, 3) and batches[0]["image"].dtype == np.uint8
    np.testing.assert_allclose(batches[0]["label"].sum(axis=1), 1, atol=1e-6)
    return [hashlib.sha256(one["image"].tobytes() + one["label"].tobytes()).hexdigest() for one in batches]


def test_the_recipe_is_one_stream(folder, shards):
    """For any number of workers, from the folder and from shards in its order."""
    expected = batches_of(folder, 0)
    assert len(set(expected)) == STEPS
    assert batches_of(shards / "train-*.tar", 0) == batches_of(folder, 1) == expected


def test_the_validation_has_each_picture_once(folder):
    """The last batch is filled, and says so."""
    settings = script.Settings("", Path(), global_batch_size=8, eval_size=32, worker_count=0)
    split = NamedSharding(Mesh(jax.devices()[:1], "data"), PartitionSpec("data"))
    with script.validation_data(str(folder), settings, split) as loader, iter(loader) as it:
        batches = list(it)
    assert [int(batch["valid"].sum()) for batch in batches] == [8, 8, 4]
    assert (
        np.concatenate([batch["label"][batch["valid"]] for batch in batches]).tolist() == [0] * 10 + [1] * 10
    )


def test_the_training_says_where_it_is(folder, tmp_path, monkeypatch, capsys):
    """Its first step, each save, and at a restart the step that it goes on after; with a model of one number."""
    monkeypatch.setattr(script, "new_state", lambda settings: (None, {"w": jax.numpy.zeros(2)}))
    monkeypatch.setattr(script, "train_step", lambda graph, state, batch, decay: (state, state["w"].sum()))
    told = []
    for steps in (2, 3):
        script.train(
            script.Settings(
                str(folder),
                tmp_path / "run",
                steps,
                2,
                global_batch_size=8,
                worker_count=0,
                classes=2,
                train_size=32,
            )
        )
        told.append(capsys.readouterr().out)
    assert told[0].startswith("step 1: loss 0.0000\nsaves step 2\n")
    assert told[1].startswith("continues after step 2\nstep 3: loss 0.0000\nsaves step 3\n")
