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

from typing import TYPE_CHECKING, Any, Never


class Config:
    """The settings, with their defaults; any value is taken, as in Grain. ValueError for a name that it doesn't know.

    >>> config = Config()
    >>> config.update("py_debug_mode", True)
    >>> config.py_debug_mode, config.get_or_default("py_traceback_filtering")
    (True, 'auto')
    >>> config.update("debug_mode", True)
    Traceback (most recent call last):
    ValueError: config: expected one of py_dataset_visualization_output_dir, py_debug_mode, ..., got 'debug_mode'
    """

    py_dataset_visualization_output_dir: str | None = None
    py_debug_mode: bool = False
    py_relay_sigterm_to_main: bool = False
    py_traceback_filtering: str = "auto"
    tf_interleaved_shuffle: bool = False
    tf_interleaved_shuffle_block_size: int = 10
    tf_interleaved_shuffle_parallel_blocks: int = 10
    tf_lookup_batch_size: int = 100
    tf_lookup_fast_warmup: bool = False
    tf_lookup_num_parallel_calls: int = -1
    tf_optimized_sequential_read: bool = False
    tf_prefetch_buffer_size: int = -1

    def update(self, name: str, value: Any) -> None:
        """Sets one."""
        self.get_or_default(name)
        vars(self)[name] = value

    def get_or_default(self, name: str) -> Any:
        """The value of one: its default where it wasn't set."""
        if name not in Config.__annotations__:
            raise ValueError(f"config: expected one of {', '.join(Config.__annotations__)}, got {name!r}")
        return getattr(self, name)

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            if name.startswith("__"):  # copy and pickle look for methods
                raise AttributeError(name)
            self.get_or_default(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueError(f"config: expected config.update({name!r}, {value!r}), got an assignment")


config = Config()
