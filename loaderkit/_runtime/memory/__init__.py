"""The arena: shared memory without a name in which batches lie, and how a batch lies in it."""
