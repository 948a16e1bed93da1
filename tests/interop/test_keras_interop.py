"""Against the real Keras on JAX: fit sees the loader's stream, and resumes it in mid-epoch bit for bit."""

import os

import numpy as np
import pytest

import loaderkit as lk

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
bridge = pytest.importorskip("loaderkit.interop.keras")

ROWS = [(np.float32([k, 1]) / 10, np.float32([k]) / 5) for k in range(10)]


def train_loader(**options):
    """An endless, shuffled stream of batches of 2: 5 steps an epoch."""
    return lk.load(ROWS, batch_size=2, shuffle=True, seed=0, num_epochs=None, **options)


class Steps(keras.callbacks.Callback):
    """Notes the weights after each step; stops as a process that is killed, after `last` of them."""

    def __init__(self, last=None):
        super().__init__()
        self.weights, self.last = [], last

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append([w.copy() for w in self.model.get_weights()])
        if len(self.weights) == self.last:
            raise KeyboardInterrupt


def model_of(built=True):
    """One dense layer, with an optimizer that has a state, and always the same start."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(1)])
    if built:
        model.build((None, 2))
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    return model


def seen_by(dataset, monkeypatch):
    """The list of all batches that the data set gives from now on, within epochs."""
    seen = []
    element = bridge.LoaderPyDataset._element
    monkeypatch.setattr(
        bridge.LoaderPyDataset,
        "_element",
        lambda self, step: (element(self, step), seen.append(self._it.step - 1))[0],
    )
    return seen


@pytest.mark.parametrize("built", [True, False])
def test_fit_sees_the_stream_in_order(built, monkeypatch):
    """Keras' own shuffle, the default, changes nothing; nor does the batch that it builds the model from."""
    dataset = bridge.LoaderPyDataset(train_loader())
    seen = seen_by(dataset, monkeypatch)
    model_of(built).fit(dataset, epochs=3, verbose=0)
    assert seen == [0, *range(15)]
    expected = [batch for _, batch in zip(range(15), train_loader())]
    assert all(np.array_equal(dataset[k][0], expected[k][0]) for k in (14, 3, 4, 0))


def test_evaluate_predict_and_validation_see_all_of_one_epoch(monkeypatch):
    """Each pass begins at the first step, also where the one before was cut short."""
    one = bridge.LoaderPyDataset(lk.load(ROWS, batch_size=4, num_epochs=1))
    assert len(one) == one.num_batches == 3
    model = model_of()
    model.evaluate(one, steps=2, verbose=0)
    x = np.stack([x for x, _ in ROWS])
    assert np.allclose(model.predict(one, verbose=0), model(x), atol=1e-6)
    model.fit(bridge.LoaderPyDataset(train_loader()), validation_data=one, epochs=2, verbose=0)
    seen = seen_by(one, monkeypatch)
    loss = model.evaluate(one, verbose=0)
    assert seen == [0, 1, 2]
    assert np.isclose(
        loss, float(np.mean((np.asarray(model(x)) - np.stack([y for _, y in ROWS])) ** 2)), atol=1e-6
    )


@pytest.mark.parametrize(
    ("last", "save_freq"),
    [
        (8, 3),
        (7, "epoch"),
        pytest.param(8, 1, marks=pytest.mark.slow),
        pytest.param(5, 5, marks=pytest.mark.slow),
    ],
)
def test_training_that_was_killed_goes_on_with_equal_weights(tmp_path, last, save_freq, recwarn):
    """In mid-epoch, at its end, and some steps after a save: as if it had never ended."""
    whole = Steps()
    model = model_of()
    model.fit(bridge.LoaderPyDataset(train_loader()), epochs=3, verbose=0, callbacks=[whole])
    dataset, killed = bridge.LoaderPyDataset(train_loader()), Steps(last)
    with pytest.raises(KeyboardInterrupt):
        model_of().fit(
            dataset,
            epochs=3,
            verbose=0,
            callbacks=[bridge.LoaderCheckpoint(dataset, tmp_path, save_freq=save_freq), killed],
        )
    assert len([*tmp_path.iterdir()]) == 1
    saved = int(next(tmp_path.iterdir()).name.removeprefix("step-"))
    assert saved == {1: last, 3: 6, "epoch": 5, 5: 5}[save_freq]
    dataset, rest = bridge.LoaderPyDataset(train_loader()), Steps()
    again = model_of()
    recwarn.clear()
    again.fit(dataset, epochs=3, verbose=0, callbacks=[rest, bridge.LoaderCheckpoint(dataset, tmp_path)])
    assert not [w for w in recwarn if "ran out of data" in str(w.message)]
    assert len(rest.weights) == 15 - saved
    for ours, theirs in zip(rest.weights, whole.weights[saved:]):
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs))


def test_an_epoch_that_was_stopped_is_saved_as_far_as_it_went(tmp_path):
    """And a run that has had all its epochs does nothing when it is started again."""

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 2

    dataset = bridge.LoaderPyDataset(train_loader())
    callbacks = [bridge.LoaderCheckpoint(dataset, tmp_path), Stop()]
    model = model_of()
    model.fit(dataset, verbose=0, callbacks=callbacks)
    assert [file.name for file in tmp_path.iterdir()] == ["step-000000000003"]
    steps = Steps()
    dataset = bridge.LoaderPyDataset(train_loader())
    for expected in (2, 2):
        model.fit(dataset, verbose=0, callbacks=[bridge.LoaderCheckpoint(dataset, tmp_path), steps])
        assert len(steps.weights) == expected
    assert [file.name for file in tmp_path.iterdir()] == ["step-000000000005"]


def test_rows_in_number_unknown_are_trained_on_and_resumed(tmp_path, monkeypatch):
    """The batch that builds the model is given again from a saved position, for such a stream can't be sought."""
    filtered = lambda: train_loader(operations=[lk.Filter(lambda row: row[0][0] > 0.2)])  # noqa: E731
    expected = [x.tolist() for _, (x, _) in zip(range(8), filtered())]
    dataset = bridge.LoaderPyDataset(filtered(), steps_per_epoch=4)
    got = []
    element = bridge.LoaderPyDataset._element
    monkeypatch.setattr(
        bridge.LoaderPyDataset, "_element", lambda self, step: (got.append(element(self, step)), got[-1])[1]
    )
    callbacks = [bridge.LoaderCheckpoint(dataset, tmp_path, save_freq=2), Steps(6)]
    with pytest.raises(KeyboardInterrupt):
        model_of().fit(dataset, epochs=2, verbose=0, callbacks=callbacks)
    dataset = bridge.LoaderPyDataset(filtered(), steps_per_epoch=4)
    model_of().fit(dataset, epochs=2, verbose=0, callbacks=[bridge.LoaderCheckpoint(dataset, tmp_path)])
    # The first of each fit is that which the model is built from.
    assert [x.tolist() for x, _ in got] == [expected[0], *expected[:6], expected[0], *expected[6:]]


def test_wrong_use_is_an_error_that_says_what_to_write(tmp_path):
    """Workers of Keras, a loader without a length, an unbuilt model."""
    with pytest.raises(TypeError, match="loader: expected a loaderkit DataLoader, got list"):
        bridge.LoaderPyDataset([1])
    filtered = train_loader(operations=[lk.Filter(lambda row: True)])
    with pytest.raises(ValueError, match="steps_per_epoch: expected a number where operations change"):
        bridge.LoaderPyDataset(filtered)
    with pytest.raises(ValueError, match="steps_per_epoch"):
        bridge.LoaderPyDataset(train_loader(), steps_per_epoch=2)
    dataset = bridge.LoaderPyDataset(train_loader())
    with pytest.raises(ValueError, match="steps_per_epoch: expected epochs of 5 steps, got one of 4"):
        model_of().fit(dataset, steps_per_epoch=4, verbose=0)
    with pytest.raises(ValueError, match="steps_per_epoch: expected 5 of the data set, got 4"):
        model_of().fit(dataset, steps_per_epoch=4, callbacks=[bridge.LoaderCheckpoint(dataset, tmp_path)])
    (tmp_path / "step-000000000001").mkdir()
    callback = bridge.LoaderCheckpoint(dataset, tmp_path)
    callback.set_params({"steps": 5})
    callback.set_model(keras.Sequential([keras.layers.Dense(1)]))
    with pytest.raises(ValueError, match="model: expected a built one"):
        callback.on_train_begin()
    dataset = bridge.LoaderPyDataset(train_loader())
    dataset.use_multiprocessing = True
    with pytest.raises(ValueError, match="workers: expected 1 without multiprocessing"):
        dataset[0]
    with pytest.raises(ValueError, match="save_freq: expected"):
        bridge.LoaderCheckpoint(dataset, tmp_path, save_freq=0)
