"""Trains a small classifier of handwritten digits. Killed at any time and started again, it resumes exactly.

    python train.py DATA_DIRECTORY RUN_DIRECTORY --workers 2 --kind process

Number and kind of workers may change from start to start: the stream of batches doesn't depend on them.
Each step prints a line of JSON with its loss and the sha256 of its batch.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

import loaderkit as lk

Tree = Any  # a dict of arrays, by name


class Decode(lk.Map):
    """A record is 64 pixels of 0 to 16, then the digit."""

    def map(self, record: bytes) -> Tree:
        values = np.frombuffer(record, np.uint8)
        return {"image": values[:64].reshape(8, 8) / np.float32(16), "label": values[64]}


class Augment(lk.RandomMap):
    """Shifts the picture by up to a pixel each way and adds noise, different in every epoch."""

    def random_map(self, element: Tree, rng: np.random.Generator) -> Tree:
        y, x = rng.integers(0, 3, size=2)
        image = np.pad(element["image"], 1)[y : y + 8, x : x + 8]
        return {**element, "image": image + rng.normal(0, 0.1, (8, 8)).astype(np.float32)}


def init_params(seed: int) -> Tree:
    first, second = jax.random.split(jax.random.key(seed))
    return {
        "w1": jax.random.normal(first, (64, 256)) * 0.15,
        "b1": jnp.zeros(256),
        "w2": jax.random.normal(second, (256, 10)) * 0.1,
        "b2": jnp.zeros(10),
    }


def predict(params: Tree, images: jax.Array) -> Any:
    hidden = jax.nn.relu(images.reshape(-1, 64) @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss_of(params: Tree, batch: Tree) -> jax.Array:
    chances = jax.nn.log_softmax(predict(params, batch["image"]))
    return -jnp.mean(jnp.take_along_axis(chances, batch["label"][:, None].astype(jnp.int32), axis=1))


@jax.jit
def train_step(state: Tree, batch: Tree) -> tuple[Tree, jax.Array]:
    loss, gradient = jax.value_and_grad(loss_of)(state["params"], batch)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradient)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], momentum)
    return {"params": params, "momentum": momentum}, loss


def train(data: Path, run: Path, *, epochs: int, workers: int, kind: str) -> Tree:
    source = lk.ArrayRecordDataSource(f"{data}/train-*.array_record")
    loader = lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=epochs),
        operations=[Decode(), Augment(), lk.Batch(global_batch_size=64)],
        worker_count=workers,
        worker_kind=kind,
    )
    params = init_params(seed=0)
    state = {"params": params, "momentum": jax.tree.map(jnp.zeros_like, params)}
    with ocp.CheckpointManager(run.absolute()) as manager, iter(loader) as it:
        if (last := manager.latest_step()) is not None:
            restore = {"model": ocp.args.StandardRestore(state), "dataset": lk.CheckpointRestore(it)}
            state = manager.restore(last, args=ocp.args.Composite(**restore)).model
        print(json.dumps({"start": it.step, "steps": len(loader)}), flush=True)
        for batch in it:
            state, loss = train_step(state, batch)
            line = {"step": it.step, "loss": float(loss), "batch": sha256(batch)}
            print(json.dumps(line), flush=True)
            if it.step % 100 == 0:
                save = {"model": ocp.args.StandardSave(state), "dataset": lk.CheckpointSave(it)}
                manager.save(it.step, args=ocp.args.Composite(**save))
    return state["params"]


def accuracy(params: Tree, data: Path) -> float:
    source = lk.ArrayRecordDataSource(f"{data}/test-*.array_record")
    loader = lk.load(source, num_epochs=1, operations=[Decode()], batch_size=100)
    right = [np.argmax(predict(params, batch["image"]), axis=1) == batch["label"] for batch in loader]
    return float(np.concatenate(right).mean())


def sha256(tree: Tree) -> str:
    digest = hashlib.sha256()
    for name, leaf in sorted(tree.items()):
        digest.update(f"{name} {leaf.dtype} {leaf.shape} ".encode() + np.asarray(leaf).tobytes())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a classifier of handwritten digits.")
    parser.add_argument("data", type=Path, help="directory with the ArrayRecord files")
    parser.add_argument("run", type=Path, help="directory for the checkpoints; a run found in it is resumed")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kind", choices=["process", "thread"], default="process")
    args = parser.parse_args()
    params = train(args.data, args.run, epochs=args.epochs, workers=args.workers, kind=args.kind)
    print(json.dumps({"params": sha256(params), "accuracy": accuracy(params, args.data)}), flush=True)


if __name__ == "__main__":
    main()
