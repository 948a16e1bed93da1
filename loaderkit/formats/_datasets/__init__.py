"""Data sets with a name, a version and splits: a card beside the files says what they hold.

It finds, opens and writes them; it decides no order of records and runs no loader of its own.
"""
