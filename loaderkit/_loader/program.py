"""The program that settings mean: all that a worker has to know of a loader."""

from loaderkit._base.system.file_identity import Files
from loaderkit._plan.stream_shape import changes_rows, reads_windows
from loaderkit._runtime.worker.program import Program
from loaderkit.samplers.protocol import seed_of
from loaderkit.transforms.shape import shape_of

from .settings import LoaderSettings


def program_of(settings: LoaderSettings, files: Files) -> Program:
    """The program of a loader, with its operations as they are now.

    Args:
        settings: the loader's.
        files: that the source opens by name in a worker process.

    >>> from loaderkit.samplers import SequentialSampler
    >>> settings = LoaderSettings(source=[5, 6], sampler=SequentialSampler(2), operations=(), verify=True)
    >>> program = program_of(settings, files={})
    >>> program.source, program.row_changing, program.verify
    ([5, 6], False, True)
    """
    shape = shape_of(settings.operations)
    return Program(
        source=settings.source,
        operations=settings.operations,
        seed=seed_of(settings.sampler),
        read_options=settings.read_options,
        row_changing=changes_rows(shape, settings.tolerance),
        on_record_error=settings.on_record_error,
        reads_windows=reads_windows(shape, settings.tolerance, settings.num_steps),
        verify=settings.verify,
        files=files,
    )
