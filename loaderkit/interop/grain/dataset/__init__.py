"""Grain's Dataset API: trees of steps as data sources of the engine, and what comes after them in order."""

# Each file of nodes says which methods make them.
from . import selecting as selecting
from . import transforming as transforming
