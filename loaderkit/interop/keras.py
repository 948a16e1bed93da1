"""Keras: a loader as a PyDataset for `fit`, and a callback that saves and restores training in mid-epoch."""

import contextlib
import json
import os
import warnings
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from loaderkit._base.numbers import at_least
from loaderkit._loader.loader import DataLoader

__all__ = ["LoaderCheckpoint", "LoaderPyDataset"]

_WEIGHTS, _POSITION = "model.weights.h5", "position.json"
_TAKEN_TO_BUILD = 2  # batches at most that Keras takes before the first epoch: one, and one ahead on a GPU
_SHORT_EPOCH = "Your input ran out of data"  # how Keras begins its warning of an epoch with fewer steps


class LoaderPyDataset(keras.utils.PyDataset):  # type: ignore[misc, unused-ignore]  # Any without keras' types
    """A loader for `fit`, `evaluate`, `predict` and `validation_data` of Keras 3, on JAX and PyTorch.

    Epochs of Keras follow each other in the loader's order, over several calls of `fit`, too: each has the next
    `steps_per_epoch` steps. `fit(shuffle=True)`, the default, changes nothing, for the sampler shuffles. An epoch that
    was interrupted begins again. A loader that ends starts again at its end, in the same order: give `num_epochs=None`
    for training and `num_epochs=1` for evaluation. Outside of an epoch `dataset[i]` is the element of step i.

    Args:
        loader: its elements are tuples `(x,)`, `(x, y)` or `(x, y, w)` of batches, or dicts for models that take them.
            It has the workers, by `worker_count`.
        steps_per_epoch: steps of an epoch of Keras; None for those of an epoch of the loader. `fit` doesn't get it. For
            a loader without end it is 3 or more, since Keras takes up to two batches once more, to build the model.
            Where operations change the number of rows it is needed, and so is `num_epochs=None`.

    Raises ValueError where steps_per_epoch is missing or Keras has the TensorFlow backend, and in an epoch for
    `workers` above 1, for `use_multiprocessing` and for `fit(steps_per_epoch=...)`.

    >>> import numpy as np
    >>> import loaderkit as lk
    >>> rows = [(np.float32([k]), np.float32([2 * k])) for k in range(4)]
    >>> dataset = LoaderPyDataset(lk.load(rows, batch_size=2, num_epochs=1))
    >>> len(dataset), dataset[1][1].tolist()
    (2, [[4.0], [6.0]])
    """

    def __init__(self, loader: DataLoader[Any], *, steps_per_epoch: int | None = None) -> None:
        super().__init__()
        if not isinstance(loader, DataLoader):
            raise TypeError(f"loader: expected a loaderkit DataLoader, got {type(loader).__name__}")
        if keras.backend.backend() == "tensorflow":
            raise ValueError(
                "KERAS_BACKEND: expected jax or torch, got tensorflow, which takes batches ahead; give fit a "
                "loaderkit.interop.tf.dataset(loader)"
            )
        self._loader = loader
        self._length = _length_of(loader)
        if steps_per_epoch is None:
            steps_per_epoch = self._length if self._length is not None else _length_of(loader.epoch(0))
        if steps_per_epoch is None:
            raise ValueError(
                "steps_per_epoch: expected a number where operations change the number of rows, got None"
            )
        least = _TAKEN_TO_BUILD + 1 if self._length is None else 1
        self.steps_per_epoch = at_least("steps_per_epoch", steps_per_epoch, least)
        self._seeks = not loader._plan().row_changing
        self._it = iter(loader)
        # Where the stream can't be sought: the positions before the elements given last.
        self._states: deque[tuple[int, bytes]] = deque(maxlen=2 * _TAKEN_TO_BUILD)
        self._start = 0  # the step that the present epoch goes on with
        self._resumed = 0  # steps of the present epoch that were done before a restore
        self._taken = 0
        self._within_epoch = False

    @property
    def num_batches(self) -> int:
        """Steps of the present epoch: after a restore in mid-epoch those that are left."""
        return self.steps_per_epoch - self._resumed

    def __len__(self) -> int:
        return self.num_batches

    def __getitem__(self, index: int) -> Any:
        if self.workers > 1 or self.use_multiprocessing:
            raise ValueError(
                f"workers: expected 1 without multiprocessing, got workers={self.workers} with "
                f"use_multiprocessing={self.use_multiprocessing}; give worker_count to the loader instead"
            )
        if not self._within_epoch:
            return self._element(index)
        element = self._element(self._start + self._taken)
        self._taken += 1
        return element

    def on_epoch_begin(self) -> None:
        """Keras calls it before an epoch, and before it takes batches to build the model."""
        self._taken, self._within_epoch = 0, True

    def on_epoch_end(self) -> None:
        """Keras calls it after an epoch; one that wasn't finished begins again."""
        if not self._within_epoch:
            return
        self._within_epoch = False
        if self._taken >= self.num_batches:
            self._start, self._resumed = self._start + self._taken, 0
        elif self._taken > _TAKEN_TO_BUILD and self._length is None:
            raise ValueError(
                f"steps_per_epoch: expected epochs of {self.num_batches} steps, got one of {self._taken}; give "
                "steps_per_epoch to LoaderPyDataset and not to fit"
            )

    def position_at(self, step: int) -> dict[str, Any]:
        """What `restore` takes, as JSON values, for a step that the model was trained up to.

        Args:
            step: counted from the first of all epochs. Keras may have taken later ones already.
        """
        state = dict(self._states).get(step) or self._it.get_state()
        return {"step": step, "state": state.decode()}

    def restore(self, position: Mapping[str, Any]) -> int:
        """Goes to a position that `position_at` gave, and gives the number of the epoch that it is in.

        Args:
            position: JSON values; StateError and CheckpointMismatchError as `set_state` of a loader's iterator raises.
        """
        self._it.set_state(position["state"].encode())
        self._states.clear()
        self._start, self._taken, self._within_epoch = position["step"], 0, False
        epoch, self._resumed = divmod(self._start, self.steps_per_epoch)
        return epoch

    def _element(self, step: int) -> Any:
        step = step if self._length is None else step % self._length
        if self._it.step != step:
            known = dict(self._states).get(step)
            self._it.seek(step) if known is None else self._it.set_state(known)
        if not self._seeks:
            self._states.append((step, self._it.get_state()))
        try:
            return next(self._it)
        except StopIteration:
            raise ValueError(
                f"loader: expected one without end, got its end after {step} steps; num_epochs=None of its sampler"
            ) from None


def _length_of(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader)
    except TypeError:  # no end, or operations that change the number of rows
        return None


class LoaderCheckpoint(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]  # as above
    """Saves model, optimizer and position during `fit`, and continues there in a new process, in mid-epoch too.

    `fit` is called as before, with the same `epochs`: training goes on with the step after the last save, in its epoch,
    and the weights become those of the run that was never interrupted. Metrics of that epoch are those of its rest. The
    model must be built. A save is written whole or not at all, and replaces the one before.

    Args:
        dataset: the one that `fit` gets.
        folder: where the saves are; made when needed.
        save_freq: steps between two saves; "epoch" for the ends of epochs only, where each run saves.

    Raises ValueError in `fit` for a model that isn't built and for `fit(steps_per_epoch=...)`.

    >>> import tempfile
    >>> import numpy as np
    >>> import loaderkit as lk
    >>> rows = [(np.float32([k]), np.float32([2 * k])) for k in range(8)]
    >>> dataset = LoaderPyDataset(lk.load(rows, batch_size=2, num_epochs=None))
    >>> model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     history = model.fit(dataset, epochs=1, verbose=0, callbacks=[LoaderCheckpoint(dataset, folder)])
    ...     os.listdir(folder)
    ['step-000000000004']
    """

    def __init__(
        self, dataset: LoaderPyDataset, folder: str | os.PathLike[str], *, save_freq: int | str = "epoch"
    ) -> None:
        super().__init__()
        self._save_freq: int | None = None
        if save_freq != "epoch":
            self._save_freq = at_least(
                "save_freq", save_freq, 1, advice="give 'epoch' for the ends of epochs"
            )
        self._dataset, self._folder = dataset, Path(folder)
        self._done = 0  # steps that the model was trained with, over all epochs
        self._short_epoch = contextlib.ExitStack()

    def on_train_begin(self, logs: Any = None) -> None:
        """Restores the last save, if there is one."""
        if (steps := self.params["steps"]) != self._dataset.num_batches:
            raise ValueError(
                f"steps_per_epoch: expected {self._dataset.num_batches} of the data set, got {steps}; give it to "
                "LoaderPyDataset and not to fit"
            )
        self._done = self._dataset._start
        saves = self._saves()
        if not saves:
            return
        model = self.model
        if not model.built:
            raise ValueError(
                "model: expected a built one, got one without weights; call model.build(shape) before fit"
            )
        if model.optimizer is not None and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(saves[-1] / _WEIGHTS)
        position = json.loads((saves[-1] / _POSITION).read_text())
        model._initial_epoch = self._dataset.restore(position)  # as Keras' BackupAndRestore does
        self._done = position["step"]
        if self._dataset._resumed:  # Keras counts the steps of a whole epoch, and warns at the end of this
            self._short_epoch.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message=_SHORT_EPOCH)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves after every `save_freq` steps."""
        before = self._done
        # The last execution of several steps may have fewer than Keras counts.
        self._done = self._dataset._start + min(batch + 1, self._dataset.num_batches)
        if self._save_freq is not None and self._done // self._save_freq > before // self._save_freq:
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves after an epoch."""
        self._short_epoch.close()
        self._save()

    def _saves(self) -> list[Path]:
        return sorted(self._folder.glob("step-" + "[0-9]" * 12))

    def _save(self) -> None:
        target = self._folder / f"step-{self._done:012d}"
        if target.exists():
            return
        partial = self._folder / "partial"
        _delete(partial)
        partial.mkdir(parents=True, exist_ok=True)
        self.model.save_weights(partial / _WEIGHTS)
        (partial / _POSITION).write_text(json.dumps(self._dataset.position_at(self._done)))
        for file in partial.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        partial.rename(target)
        for save in self._saves():
            if save != target:
                _delete(save)


def _delete(save: Path) -> None:
    """Deletes a save; files in its folder that aren't ours stay."""
    for name in (_WEIGHTS, _POSITION):
        (save / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        save.rmdir()
