"""Samplers: which record each index of the stream reads."""

from .epochs import IndexSampler as IndexSampler
from .epochs import SequentialSampler as SequentialSampler
from .protocol import Sampler as Sampler
