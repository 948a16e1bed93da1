"""What a saved state says of the data and their order, taken once for a loader and its variants."""

from functools import cached_property
from typing import Any

from loaderkit._source.fingerprint import fingerprint_of as source_fingerprint_of
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import fingerprint_of as sampler_fingerprint_of


class Fingerprints:
    """The fingerprints of a sampler and a source; each is taken when first asked for, because it may read records.

    Args:
        sampler, source: what is fingerprinted.

    >>> from loaderkit.samplers import SequentialSampler
    >>> fingerprints = Fingerprints(SequentialSampler(3), [5, 6, 7])
    >>> fingerprints.sampler["kind"], fingerprints.source["records"]
    ('SequentialSampler', 3)
    """

    def __init__(self, sampler: Sampler, source: Any) -> None:
        self._sampler, self._source = sampler, source

    @cached_property
    def sampler(self) -> dict[str, Any]:
        """The sampler's, in JSON values."""
        return sampler_fingerprint_of(self._sampler)

    @cached_property
    def source(self) -> dict[str, Any]:
        """The source's, in JSON values."""
        return source_fingerprint_of(self._source)
