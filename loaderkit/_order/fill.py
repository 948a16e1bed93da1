"""Which rows of a batch are real: a last batch that is padded has rows of zeros as well."""

# Pairs (real rows, rows of zeros), in the order of the rows; (): all rows are real.
Fill = tuple[tuple[int, int], ...]
