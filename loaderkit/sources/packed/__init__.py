"""Rows of packed documents, as a source."""
