"""Ranges of bytes of local files and of objects on servers, by name."""
