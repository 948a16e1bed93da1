"""What the operating system and the interpreter give and refuse: descriptors, limits, shared memory, processors.

Starts no process and knows nothing of streams.
"""
