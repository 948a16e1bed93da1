"""Checks that users run on what they write: `check_pipeline` is the first thing to run on a new loader."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loaderkit.errors import PurityError as PurityError

    from .pipeline import check_pipeline as check_pipeline
    from .report import PipelineReport as PipelineReport
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "PipelineReport": "loaderkit.testing.report",
        "PurityError": "loaderkit.errors",
        "check_pipeline": "loaderkit.testing.pipeline",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
