"""Which indices make which step, from any position on, for any shard: arithmetic on numbers.

Pure: no records, no workers, and of operations only their shape.
"""
