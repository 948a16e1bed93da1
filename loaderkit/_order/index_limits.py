"""How far a run may go, so that each number behind it is an int64 too: with what a step adds, and keys planned ahead.

No run comes to these limits by handing out batches: at a thousand million records a second it would take a century.
What takes it there is a number that was given: of a state, a seek, a sampler's length, or a batch size.
"""

MOST_INDEX = 2**62  # where a run may be taken, and where its stream may end; of steps and counts too
MOST_STRIDE = 2**60  # G, the consecutive indices of one step
