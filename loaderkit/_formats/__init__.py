"""How the formats of data files are read: pure functions of bytes.

A file of this room takes bytes and gives records, or where they lie. It opens no file and knows no name of one.
"""
