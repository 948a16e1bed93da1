"""The order of a stream: which record an index reads, its generator, and the small values that all rooms share.

Pure arithmetic and frozen values: no I/O, no clock, no process, and nothing of the rooms above.
"""
