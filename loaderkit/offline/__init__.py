"""What is computed once of a whole data set, before a run: array files of lengths, labels and flags.

It runs loaders; no loader and no worker imports it.
"""
