"""What is counted of a loader's work, as values: of workers, of the trainer, and the figures that follow.

It is pure: it reads no clock and no page. No figure is a guess: one that isn't known is None.
"""
