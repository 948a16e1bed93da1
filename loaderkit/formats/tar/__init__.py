"""Tar files: their records by member and field, as WebDataset writes them."""
