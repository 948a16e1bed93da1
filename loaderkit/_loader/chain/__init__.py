"""A data set written as steps, and the source, sampler and operations that each of its lines means."""
