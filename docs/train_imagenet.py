"""Train a ResNet-18 on ImageNet by torchvision's reference recipe, in Flax NNX. Kill it at any time and start it again.

    python train_imagenet.py imagenet/train RUN_DIRECTORY --validation imagenet/val --steps 450_000

DATA is a folder with a folder for each class, or tar shards with fields "jpg" and "cls", also on a server:

    python train_imagenet.py 'https://server/train-{000000..001281}.tar' RUN_DIRECTORY --cache /scratch/shards

Shards that were written in the folder's order give the same batches. It needs JAX, Orbax, Flax, Optax and OpenCV:
pip install '.[train,image]' in a clone of loaderkit. For several hosts see train_many_hosts.py: the lines are the same.
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
from loaderkit.transforms import image

MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


@dataclasses.dataclass(frozen=True)
class Settings:
    data: str
    run: Path
    steps: int = 450_000
    save_every: int = 1000
    global_batch_size: int = 256
    worker_count: int | str = "auto"
    classes: int = 1000
    train_size: int = 176  # torchvision's recipe trains on smaller pictures than it is evaluated on
    eval_size: int = 224
    learning_rate: float = 0.125  # torchvision's 0.5 is for 1024 rows
    ema_decay: float = 0.9999
    cache: str | None = None


# --- the data -----------------------------------------------------------------------------------------------------


def from_shard(record):
    return {"image": record["jpg"], "label": int(record["cls"])}


def pictures(data: str, cache: str | None = None):
    """Records {"image": bytes, "label": int} of a folder of classes or of tar shards."""
    if not data.endswith(".tar"):
        return lk.FolderDataSource(data)
    kept = lk.Cache(cache, limit="200GB") if cache else None
    return lk.MapDataSource(lk.TarDataSource(data, fields=["jpg", "cls"], cache=kept), from_shard)


def training_data(settings: Settings, split: NamedSharding) -> lk.DataLoader:
    source = pictures(settings.data, settings.cache)
    return lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=None),
        operations=[
            image.DecodeRandomResizedCrop(settings.train_size, key="image"),
            image.RandomFlip(key="image"),
            image.TrivialAugment(key="image"),
            image.RandomErasing(0.1, value=tuple(int(each * 255) for each in MEAN), key="image"),
            lk.Batch(global_batch_size=settings.global_batch_size),
            image.MixUp("image", "label", settings.classes, alpha=0.2),
            image.CutMix("image", "label", alpha=1.0),
        ],
        shard_options=lk.ShardBySharding(split),
        worker_count=settings.worker_count,
    )


def validation_data(data: str, settings: Settings, split: NamedSharding) -> lk.DataLoader:
    source = pictures(data)
    return lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(len(source), shuffle=False, seed=0, num_epochs=1),
        operations=[
            image.DecodeCenterCrop(settings.eval_size, fraction=224 / 232, key="image"),
            lk.Batch(global_batch_size=settings.global_batch_size, remainder="pad"),
        ],
        shard_options=lk.ShardBySharding(split),
        worker_count=settings.worker_count,
    )


# --- the model ----------------------------------------------------------------------------------------------------


def convolution(inside, outside, size, stride, rngs):
    scaled = nnx.initializers.variance_scaling(2.0, "fan_out", "normal")
    return nnx.Conv(
        inside,
        outside,
        (size, size),
        stride,
        padding=size // 2,
        use_bias=False,
        kernel_init=scaled,
        rngs=rngs,
    )


class Block(nnx.Module):
    def __init__(self, inside, outside, stride, rngs):
        self.first = convolution(inside, outside, 3, stride, rngs)
        self.first_norm = nnx.BatchNorm(outside, momentum=0.9, rngs=rngs)
        self.second = convolution(outside, outside, 3, 1, rngs)
        self.second_norm = nnx.BatchNorm(outside, momentum=0.9, rngs=rngs)
        self.changes = inside != outside
        if self.changes:
            self.beside = convolution(inside, outside, 1, stride, rngs)
            self.beside_norm = nnx.BatchNorm(outside, momentum=0.9, rngs=rngs)

    def __call__(self, x):
        inner = self.second_norm(self.second(nnx.relu(self.first_norm(self.first(x)))))
        return nnx.relu(inner + (self.beside_norm(self.beside(x)) if self.changes else x))


class ResNet18(nnx.Module):
    def __init__(self, classes, rngs):
        self.stem = convolution(3, 64, 7, 2, rngs)
        self.norm = nnx.BatchNorm(64, momentum=0.9, rngs=rngs)
        sides = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))
        sides += ((256, 512, 2), (512, 512, 1))
        self.blocks = nnx.List([Block(*each, rngs) for each in sides])
        self.out = nnx.Linear(512, classes, rngs=rngs)

    def __call__(self, pictures):
        """Logits (rows, classes) of uint8 (rows, height, width, 3)."""
        x = (pictures / 255.0 - MEAN) / STD  # a batch of uint8 is a quarter of the bytes to move here
        x = nnx.relu(self.norm(self.stem(x)))
        x = nnx.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean((1, 2)))


def new_state(settings: Settings):
    """The graph, and (model and optimizer, exponential moving average of the model)."""
    model = ResNet18(settings.classes, nnx.Rngs(0))
    warmup = settings.steps // 120  # 5 of 600 epochs
    rate = optax.warmup_cosine_decay_schedule(
        settings.learning_rate / 100, settings.learning_rate, warmup, settings.steps
    )
    decay = optax.add_decayed_weights(2e-5, mask=lambda tree: jax.tree.map(lambda leaf: leaf.ndim > 1, tree))
    optimizer = nnx.Optimizer(model, optax.chain(decay, optax.sgd(rate, 0.9)), wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))
    return graph, (state, jax.tree.map(jnp.copy, nnx.state(model)))


@functools.partial(jax.jit, static_argnums=(0, 3), donate_argnums=1)
def train_step(graph, state, batch, ema_decay):
    model, optimizer = nnx.merge(graph, state[0])

    def loss_of(model):
        labels = optax.smooth_labels(batch["label"], 0.1)
        return optax.softmax_cross_entropy(model(batch["image"]), labels).mean()

    loss, gradient = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradient)
    average = jax.tree.map(
        lambda old, new: ema_decay * old + (1 - ema_decay) * new, state[1], nnx.state(model)
    )
    return (nnx.state((model, optimizer)), average), loss


@functools.partial(jax.jit, static_argnums=0)
def right_of(graph, state, batch):
    model, _ = nnx.merge(graph, state[0])
    nnx.update(model, state[1])
    model.eval()
    return ((model(batch["image"]).argmax(1) == batch["label"]) & batch["valid"]).sum()


# --- the training -------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    if jax.process_index() == 0:
        print(text, flush=True)


def train(settings: Settings, on_step: Callable[[int, float, dict], None] | None = None):
    # The batch is split over all devices, the model is replicated on each of them.
    mesh = Mesh(jax.devices(), "data")
    split, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    graph, shapes = nnx.eval_shape(lambda: new_state(settings))
    state = jax.jit(lambda: new_state(settings)[1], out_shardings=everywhere)()
    with (
        training_data(settings, split) as loader,
        lk.device_iterator(iter(loader), split) as batches,
        ocp.CheckpointManager(settings.run.absolute()) as manager,
    ):
        if (last := manager.latest_step()) is not None:
            target = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere), shapes
            )
            restore = {"model": ocp.args.StandardRestore(target), "dataset": lk.CheckpointRestore(batches)}
            state = manager.restore(last, args=ocp.args.Composite(**restore)).model
            say(f"continues after step {batches.step}")
        first = batches.step + 1
        while batches.step < settings.steps:
            batch = next(batches)
            state, loss = train_step(graph, state, batch, settings.ema_decay)
            batches.watch(loss)
            if on_step is not None:
                on_step(batches.step, loss, batch)
            if batches.step == first or batches.step % 100 == 0:
                say(f"step {batches.step}: loss {float(loss):.4f}")
            if batches.step % settings.save_every == 0 or batches.step == settings.steps:
                save = {"model": ocp.args.StandardSave(state), "dataset": lk.CheckpointSave(batches)}
                manager.save(batches.step, args=ocp.args.Composite(**save))
                say(f"saves step {batches.step}")
        print(batches.explain(), flush=True)
    return graph, state, split


def evaluate(data: str, settings: Settings, graph, state, split) -> float:
    """The share of the pictures whose class the averaged model names."""
    right = rows = 0
    with validation_data(data, settings, split) as loader, lk.device_iterator(iter(loader), split) as batches:
        for batch in batches:
            right += int(right_of(graph, state, batch))
            rows += int(batch["valid"].sum())
    return right / rows


def main():
    parser = argparse.ArgumentParser(
        description="Train a ResNet-18 on pictures in folders of classes or tar shards."
    )
    parser.add_argument("data", help="folder of classes, or tar shards: a pattern, also of https:// or s3://")
    parser.add_argument(
        "run", type=Path, help="directory for the checkpoints; continues the run that is there"
    )
    parser.add_argument("--validation", help="folder or shards that the trained model is evaluated on")
    parser.add_argument("--cache", help="directory for chunks of shards that were read from a server")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=450_000)
    parser.add_argument("--batch", type=int, default=256, help="rows of the global batch")
    parser.add_argument("--save-every", type=int, default=1000)
    given = parser.parse_args()
    settings = Settings(
        given.data,
        given.run,
        steps=given.steps,
        save_every=given.save_every,
        global_batch_size=given.batch,
        classes=given.classes,
        cache=given.cache,
    )
    graph, state, split = train(settings)
    if given.validation:
        print(f"accuracy {evaluate(given.validation, settings, graph, state, split):.4f}")


if __name__ == "__main__":
    main()
