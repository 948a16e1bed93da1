"""Data sets are written here: files of any format, whole or not at all, the same bytes for any number of workers.

It runs loaders over records and shards. No loader and no worker's start imports it.
"""
