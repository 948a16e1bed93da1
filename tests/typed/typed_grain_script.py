"""The same of a script written for Grain: lines that end with `# wrong` have to be errors, all others none."""

import loaderkit.interop.grain as grain


def grains_names() -> None:
    loader = grain.load([1], batch_size=1)
    grain.load([1], batch_sise=1)  # wrong
    grain.DataLoder  # wrong  # noqa: B018
    grain.python.DataLoder  # wrong  # noqa: B018
    grain.experimental.index_shufle  # wrong  # noqa: B018
    grain.PyGrainCheckpointSave(iter(loader))
    grain.checkpoint.CheckpointRestore(iter(loader))
    grain.config.update("py_debug_mode", grain.config.py_debug_mode)
    grain.config.debug_mode  # wrong  # noqa: B018
    next(iter(loader)).anything()
