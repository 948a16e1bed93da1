"""What every room uses: trees of leaves, notes on errors, checked integers, names that are imported when asked for.

Pure, and imports no other room but `errors.py`.
"""
