"""Tokens of documents, in files of one long array."""
