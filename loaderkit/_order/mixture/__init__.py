"""Mixtures of components by weight: which component an index reads, and which record of it; arithmetic on the index."""
