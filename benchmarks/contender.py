"""One way to run a pipeline, as plain data: its process imports the library, this module never does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

# The peers, and the distribution and modules that each of them needs; a peer without them is always installed.
LIBRARIES: dict[str, tuple[str, ...] | None] = {
    "bare": None,
    "loaderkit": None,
    "grain": ("grain", "grain"),
    "torch": ("torch", "torch"),
    "torchvision": ("torchvision", "torch", "torchvision"),
    "albumentations": ("albumentations", "albumentations"),
    "keras": ("keras", "keras"),
    "tfdata": ("tensorflow", "tensorflow"),
    "hf": ("datasets", "datasets"),
    "webdataset": ("webdataset", "webdataset"),
    "obstore": ("obstore", "obstore"),
    "litdata": ("litdata", "litdata"),
    "ray": ("ray", "ray"),
    "streaming": ("mosaicml-streaming with all it imports", "streaming", "transformers", "torchvision"),
}


@dataclass(frozen=True, slots=True)
class Contender:
    """A name for the tables, the peer, and its settings.

    Args:
        name: says how many workers there are, so that a table shows a comparison of 0 with 2.
        peer: a key of LIBRARIES.
        workers: 0 for the calling thread alone.
        kind: "process" or "thread".
        options: further settings, read by the peer's module.
    """

    name: str
    peer: str
    workers: int = 0
    kind: str = "process"
    options: Mapping[str, Any] = field(default_factory=dict)


def installed(peer: str) -> bool:
    """Whether the peer's library can be imported."""
    library = LIBRARIES[peer]
    return library is None or all(find_spec(module) is not None for module in library[1:])


def bare(name: str = "bare loop", **options: Any) -> Contender:
    """The loop that a user would write without a loader."""
    return Contender(name, "bare", options=options)


def bare_parallel(workers: int, kind: str, *, buffers: int = 0) -> Contender:
    """The same loop, independently in several processes or threads; each drops the rows that it makes.

    Args:
        buffers: in each, which its batches are written to in turn; 0: each batch is a new array.
    """
    plural = {"process": "processes", "thread": "threads"}[kind]
    each = f", {buffers} buffer{'s' * (buffers > 1)} each" if buffers else ""
    return Contender(f"bare loop, {workers} {plural}{each}", "bare", workers, kind, {"buffers": buffers})


def ours(workers: int = 0, kind: str = "process", *, label: str = "", **options: Any) -> Contender:
    """loaderkit; `label` tells apart two that differ in `options`."""
    name = f"loaderkit{' ' if label else ''}{label}, {workers_in_words(workers, kind)}"
    return Contender(name, "loaderkit", workers, kind, options)


def grain_tuned(workers: int, api: str = "DataLoader") -> tuple[Contender, ...]:
    """Grain with each of the read options that are the fastest somewhere, and two batches ahead a worker."""
    return tuple(
        Contender(
            f"grain {api} ({threads},{buffer}), {workers_in_words(workers)}",
            "grain",
            workers,
            options={"api": api, "read": (threads, buffer), "worker_buffer_size": 2},
        )
        for threads, buffer in ((0, 0), (2, 16), (16, 16))
    )


def grain_default(workers: int, api: str = "DataLoader") -> Contender:
    """Grain with its default options."""
    name = f"grain {api} default, {workers_in_words(workers)}"
    return Contender(name, "grain", workers, options={"api": api})


def grain(*worker_counts: int) -> tuple[Contender, ...]:
    """Both of Grain's interfaces, with default options and tuned, with each of these worker counts."""
    return tuple(
        contender
        for workers in worker_counts
        for api in ("DataLoader", "MapDataset")
        for contender in (grain_default(workers, api), *grain_tuned(workers, api))
    )


def torch(*worker_counts: int) -> tuple[Contender, ...]:
    """PyTorch's DataLoader with its default options."""
    return tuple(Contender(f"torch, {workers_in_words(n)}", "torch", n) for n in worker_counts)


TFDATA = Contender("tf.data AUTOTUNE, its own threads", "tfdata")
HF = Contender("HF datasets, 0 workers", "hf")


def workers_in_words(workers: int, kind: str = "process") -> str:
    """ "2 workers" for processes, "2 threads" for threads."""
    noun = "worker" if kind == "process" else "thread"
    return f"{workers} {noun}{'' if workers == 1 else 's'}"


def named(contenders: tuple[Contender, ...], *words: str) -> tuple[Contender, ...]:
    """The contenders whose names have all these words."""
    return tuple(contender for contender in contenders if all(word in contender.name for word in words))
