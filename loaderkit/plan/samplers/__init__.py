"""Samplers: which record each index of the stream reads."""

from .epochs import IndexSampler as IndexSampler
from .epochs import SequentialSampler as SequentialSampler
from .sampler import Sampler as Sampler
from .sampler import fingerprint_of as fingerprint_of
from .sampler import length_of as length_of
from .sampler import num_records_of as num_records_of
from .sampler import record_keys_of as record_keys_of
from .sampler import seed_of as seed_of
