"""Steps of a chain that take their elements in order: each is an iterator over the iterator before it, as in Grain."""
