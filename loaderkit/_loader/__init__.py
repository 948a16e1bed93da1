"""The DataLoader: what a user says of a stream, checked and joined with the workers that its iterators share.

The only room that knows all parts.
"""
