"""Scripts written for Grain, run with Grain and, with another import line, with loaderkit: same batches, both times."""
