"""Which indices make which step, from any position on, for any shard: arithmetic on numbers.

Pure: no records, no workers, no operations but their shape.
"""
