"""How records lie as bytes: pure functions of bytes.

A file of this room takes bytes and gives records, or says what a scan of a shard found. It opens no file and knows no
name of one.
"""
