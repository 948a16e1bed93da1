"""Checks that users run on what they write: `check_pipeline` on a whole loader, the others on one part of it.

`check_source`, `check_sampler` and `check_operation` say whether a user's own part keeps what loaderkit relies on.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loaderkit.errors import ConformanceError as ConformanceError
    from loaderkit.errors import PurityError as PurityError

    from .conformance import ConformanceReport as ConformanceReport
    from .operation_checks import check_operation as check_operation
    from .pipeline import check_pipeline as check_pipeline
    from .report import PipelineReport as PipelineReport
    from .sampler_checks import check_sampler as check_sampler
    from .source_checks import check_source as check_source
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "ConformanceError": "loaderkit.errors",
        "ConformanceReport": "loaderkit.testing.conformance",
        "PipelineReport": "loaderkit.testing.report",
        "PurityError": "loaderkit.errors",
        "check_operation": "loaderkit.testing.operation_checks",
        "check_pipeline": "loaderkit.testing.pipeline",
        "check_sampler": "loaderkit.testing.sampler_checks",
        "check_source": "loaderkit.testing.source_checks",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
