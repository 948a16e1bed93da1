"""The arena, anonymous shared memory for batches, and the layout of a batch in it."""
