"""Checks that users run on what they write: `check_pipeline` is the first thing to run on a new loader."""

from loaderkit._base.lazy_package import public_names as _public_names
from loaderkit.errors import PurityError as PurityError
from loaderkit.testing.pipeline import check_pipeline as check_pipeline
from loaderkit.testing.report import PipelineReport as PipelineReport


def __dir__() -> list[str]:
    return _public_names(globals())
