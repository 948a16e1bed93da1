"""Which rows of a batch are real: a last batch that is filled up has rows of zeros among them."""

Fill = tuple[tuple[int, int], ...]  # (rows that are real, rows of zeros) in turn; (): all rows are real
