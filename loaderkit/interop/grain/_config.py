"""Grain's settings under its names, `config.update(name, value)`, so that a script that sets them runs.

None of them changes anything here. Grain defines them as flags of the command line, too; here there are no flags.

    py_debug_mode                        Grain counts and logs how long each stage takes. Attach any profiler at
                                         worker_count=0 instead
    py_traceback_filtering               Grain cuts its own frames out of tracebacks. Here they stay, and a note names
                                         the record and the operation
    py_relay_sigterm_to_main             for Grain's workers. Ours leave signals to the main process, which gets its own
    py_dataset_visualization_output_dir  a drawing of the Dataset side, which isn't here
    tf_...                               of a loader for TensorFlow that the package doesn't ship
"""

from typing import TYPE_CHECKING, Any

_DEFAULTS: dict[str, Any] = {
    "py_dataset_visualization_output_dir": None,
    "py_debug_mode": False,
    "py_relay_sigterm_to_main": False,
    "py_traceback_filtering": "auto",
    "tf_interleaved_shuffle": False,
    "tf_interleaved_shuffle_block_size": 10,
    "tf_interleaved_shuffle_parallel_blocks": 10,
    "tf_lookup_batch_size": 100,
    "tf_lookup_fast_warmup": False,
    "tf_lookup_num_parallel_calls": -1,
    "tf_optimized_sequential_read": False,
    "tf_prefetch_buffer_size": -1,
}


class Config:
    """The settings; a name that Grain doesn't know is a ValueError, any value is taken, as in Grain.

    >>> config = Config()
    >>> config.update("py_debug_mode", True)
    >>> config.py_debug_mode, config.get_or_default("py_traceback_filtering")
    (True, 'auto')
    >>> config.update("debug_mode", True)
    Traceback (most recent call last):
    ValueError: config has no 'debug_mode'; did you mean 'py_debug_mode'?
    """

    _values: dict[str, Any]

    if TYPE_CHECKING:
        py_dataset_visualization_output_dir: str | None
        py_debug_mode: bool
        py_relay_sigterm_to_main: bool
        py_traceback_filtering: str
        tf_interleaved_shuffle: bool
        tf_interleaved_shuffle_block_size: int
        tf_interleaved_shuffle_parallel_blocks: int
        tf_lookup_batch_size: int
        tf_lookup_fast_warmup: bool
        tf_lookup_num_parallel_calls: int
        tf_optimized_sequential_read: bool
        tf_prefetch_buffer_size: int
    else:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # Python itself asks: what copies and pickles it
                raise AttributeError(name)
            return self.get_or_default(name)

    def __init__(self) -> None:
        object.__setattr__(self, "_values", dict(_DEFAULTS))

    def update(self, name: str, value: Any) -> None:
        """Sets one."""
        self._known(name)
        self._values[name] = value

    def get_or_default(self, name: str) -> Any:
        """The value of one: its default where it wasn't set."""
        return self._values[self._known(name)]

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueError(f"write config.update({name!r}, {value!r})")

    def _known(self, name: str) -> str:
        if name in _DEFAULTS:
            return name
        near = f"py_{name.removeprefix('grain_').removeprefix('py_')}"
        advice = f"did you mean {near!r}?" if near in _DEFAULTS else f"there are {', '.join(_DEFAULTS)}"
        raise ValueError(f"config has no {name!r}; {advice}")


config = Config()
