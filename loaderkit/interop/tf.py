"""TensorFlow: a loader as a tf.data.Dataset."""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from loaderkit._loader.loader import DataLoader
from loaderkit.transforms.element_spec import ArraySpec

__all__ = ["dataset"]


def dataset(
    loader: DataLoader[Any],
    *,
    output_signature: Any = None,
    state: bytes | None = None,
    with_state: bool = False,
) -> Any:
    """A `tf.data.Dataset` of a loader's elements, in their order; each iteration of it iterates the loader.

    Args:
        loader: any loader. Its elements are trees of dicts, tuples and lists (which become tuples) of arrays, numbers,
            strings and bytes; the last two become tf.string. It has the workers: the data set needs no map or batch.
        output_signature: `tf.TensorSpec`s as `tf.data.Dataset.from_generator` takes them, where shapes differ from
            element to element in more than the first axis, or all are to be known; None for those of the first
            element, whose first axes may change.
        state: where each iteration begins: a state of this loader's iterators, or one that the elements came with.
        with_state: whether elements are pairs `(element, state)` with the position after the element, a tf.string.
            tf.data takes elements ahead, so the state of the element that was trained on last is the one to save:
            `state.numpy()`.

    Raises TypeError for leaves that TensorFlow doesn't have, and the errors of `set_state` of a loader's iterator.

    >>> import loaderkit as lk
    >>> [batch.numpy().tolist() for batch in dataset(lk.load([1, 2, 3], batch_size=2, num_epochs=1))]
    [[1, 2], [3]]
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(f"loader: expected a loaderkit DataLoader, got {type(loader).__name__}")
    # The first iterator, made here: a state of another stream is an error now, and not within TensorFlow.
    waiting = [_started(loader, state)]
    steps = waiting[0].remaining
    if output_signature is None:
        output_signature = _signature(loader.element_spec)
    if with_state:
        output_signature = (output_signature, tf.TensorSpec((), tf.string))

    def elements() -> Iterator[Any]:
        it = waiting.pop() if waiting else _started(loader, state)
        for element in it:
            element = _without_lists(element)
            yield (element, it.get_state()) if with_state else element

    made = tf.data.Dataset.from_generator(elements, output_signature=output_signature)
    if steps is None and loader._plan().row_changing:
        return made
    cardinality = tf.data.INFINITE_CARDINALITY if steps is None else steps
    return made.apply(tf.data.experimental.assert_cardinality(cardinality))


def _started(loader: DataLoader[Any], state: bytes | None) -> Any:
    it = iter(loader)
    if state is not None:
        it.set_state(state)
    return it


def _signature(spec: Any) -> Any:
    """The TensorSpecs of an element_spec; first axes may change, as in a last batch with fewer rows."""
    if isinstance(spec, dict):
        return {name: _signature(child) for name, child in spec.items()}
    if isinstance(spec, list | tuple):
        children = map(_signature, spec)
        return type(spec)(*children) if hasattr(spec, "_fields") else tuple(children)
    if spec in (str, bytes):
        return tf.TensorSpec((), tf.string)
    if not isinstance(spec, ArraySpec):
        got = spec.__name__ if isinstance(spec, type) else repr(spec)
        raise TypeError(
            f"element: expected dicts, tuples and lists of arrays, numbers, strings and bytes, got {got}; lk.Map can "
            "turn it into one of them"
        )
    try:
        dtype = tf.string if spec.dtype.kind in "SUO" else tf.as_dtype(spec.dtype)
    except TypeError:
        raise TypeError(
            f"element: expected dtypes of TensorFlow, got {spec.dtype}; lk.Map can convert it"
        ) from None
    return tf.TensorSpec((None, *spec.shape[1:]) if spec.shape else (), dtype)


def _without_lists(tree: Any) -> Any:
    """The tree with tuples for lists, which tf.data would take for arrays.

    >>> _without_lists({"x": [1, (2, [3])]})
    {'x': (1, (2, (3,)))}
    """
    if isinstance(tree, dict):
        return {name: _without_lists(child) for name, child in tree.items()}
    if isinstance(tree, list) or type(tree) is tuple:
        return tuple(map(_without_lists, tree))
    return tree
