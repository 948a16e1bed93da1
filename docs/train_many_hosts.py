"""Train a classifier on any number of hosts. Kill it at any time and start it again, with any number of hosts.

On one host run

    python train_many_hosts.py 'DATA/train-*.array_record' RUN_DIRECTORY

On several hosts run the same line on each, with --distributed if JAX knows the cluster (Slurm, Open MPI, Kubernetes,
Cloud TPU). Otherwise give each host its own --process:

    --distributed --coordinator HOST:PORT --processes 4 --process 0

It needs JAX, Orbax, Flax and Optax: pip install '.[train]' in a clone of loaderkit.

A record is 64 bytes, the pixels with values of 0 to 16, then a byte for the digit. RUN_DIRECTORY has to be on storage
that all hosts share.
"""

import argparse
import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import loaderkit as lk


@dataclasses.dataclass(frozen=True)
class Settings:
    data: str
    run: Path
    steps: int = 1000
    save_every: int = 100
    global_batch_size: int = 64
    worker_count: int = 2


class Decode(lk.Map):
    """Runs in the loader's workers."""

    def map(self, record):
        values = np.frombuffer(record, np.uint8)
        return {"image": values[:64].reshape(8, 8) / np.float32(16), "label": np.int32(values[64])}


def augment(image, key):
    """Runs on the devices, jitted: shifts a picture by a pixel and changes its contrast, with its record's key."""
    shift, gain = jax.random.split(key)
    y, x = jax.random.randint(shift, (2,), 0, 3)
    image = jax.lax.dynamic_slice(jnp.pad(image, 1), (y, x), (8, 8))
    return image * jax.random.uniform(gain, minval=0.8, maxval=1.2)


class Classifier(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(64, 128, rngs=rngs)
        self.out = nnx.Linear(128, 10, rngs=rngs)

    def __call__(self, images):
        return self.out(nnx.relu(self.hidden(images.reshape(-1, 64))))


def new_state():
    model = Classifier(nnx.Rngs(0))
    return nnx.split((model, nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)))


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def train_step(graph, state, batch):
    model, optimizer = nnx.merge(graph, state)

    def loss_of(model):
        images = jax.vmap(augment)(batch["image"], batch["rng"])
        return optax.softmax_cross_entropy_with_integer_labels(model(images), batch["label"]).mean()

    loss, gradient = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradient)
    return nnx.state((model, optimizer)), loss


def train(settings: Settings, on_step: Callable[[int, float, dict], None]) -> None:
    # The batch is split over all devices, the model is replicated on each of them.
    mesh = Mesh(jax.devices(), "data")
    split, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    graph, shapes = nnx.eval_shape(new_state)
    state = jax.jit(lambda: new_state()[1], out_shardings=everywhere)()

    source = lk.ArrayRecordDataSource(settings.data)
    loader = lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=None),
        operations=[Decode(), lk.Batch(global_batch_size=settings.global_batch_size)],
        shard_options=lk.ShardBySharding(split),
        worker_count=settings.worker_count,
    )
    with (
        lk.device_iterator(iter(loader), split, keys="rng") as batches,
        ocp.CheckpointManager(settings.run.absolute()) as manager,
    ):
        if (last := manager.latest_step()) is not None:
            target = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere), shapes
            )
            restore = {"model": ocp.args.StandardRestore(target), "dataset": lk.CheckpointRestore(batches)}
            state = manager.restore(last, args=ocp.args.Composite(**restore)).model
        for batch in batches:
            state, loss = train_step(graph, state, batch)
            on_step(batches.step, loss, batch)
            if batches.step % settings.save_every == 0 or batches.step == settings.steps:
                save = {"model": ocp.args.StandardSave(state), "dataset": lk.CheckpointSave(batches)}
                manager.save(batches.step, args=ocp.args.Composite(**save))
            if batches.step == settings.steps:
                break


def say(step, loss, batch):
    if step % 10 == 0 and jax.process_index() == 0:
        print(f"step {step}: loss {float(loss):.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Train a classifier of handwritten digits on many hosts.")
    parser.add_argument("data", help="pattern of the ArrayRecord files")
    parser.add_argument(
        "run", type=Path, help="directory for the checkpoints; continues the run that is there"
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--worker-count", type=int, default=2)
    parser.add_argument("--distributed", action="store_true", help="this process is one of several")
    parser.add_argument("--coordinator", help="host:port of process 0, where JAX doesn't know the cluster")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--process", type=int)
    given = parser.parse_args()
    if given.distributed:
        jax.distributed.initialize(given.coordinator, given.processes, given.process)
    settings = Settings(given.data, given.run, given.steps, given.save_every, worker_count=given.worker_count)
    train(settings, say)


if __name__ == "__main__":
    main()
