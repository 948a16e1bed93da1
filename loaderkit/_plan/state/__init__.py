"""Saved positions: the document, its JSON, the identity of its stream, and how two states are compared.

Pure: versions are arguments, and files are written elsewhere.
"""
