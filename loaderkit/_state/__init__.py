"""What a saved position says: the document, its JSON, which stream it is of, and how two of them are compared.

Pure: versions are handed in, and files are written elsewhere.
"""
