"""The DataLoader: what a user says of a stream, checked and joined with the workers that its iterators share.

Joins the parts, and decides none of them.
"""
