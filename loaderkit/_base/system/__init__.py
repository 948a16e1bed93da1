"""What the operating system and the interpreter provide: descriptors, limits, shared memory, processors, versions.

Starts no process and knows nothing of streams.
"""
