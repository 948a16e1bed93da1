"""What every room uses: trees of leaves, notes on errors, checked integers, lazily imported names.

Pure; imports no other room but `errors.py`.
"""
