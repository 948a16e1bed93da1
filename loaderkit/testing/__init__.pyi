from loaderkit.errors import ConformanceError as ConformanceError
from loaderkit.errors import PurityError as PurityError

from .conformance import ConformanceReport as ConformanceReport
from .format_checks import check_format as check_format
from .iter_dataset_checks import check_iter_dataset as check_iter_dataset
from .operation_checks import check_operation as check_operation
from .pipeline import PipelineReport as PipelineReport
from .pipeline import check_pipeline as check_pipeline
from .sampler_checks import check_sampler as check_sampler
from .source_checks import check_source as check_source
