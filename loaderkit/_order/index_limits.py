"""The largest index and stride of a run. Sums of them, such as the end of keys planned ahead, still fit in an int64.

Handing out batches never reaches these limits: at a thousand million records a second it would take a century. Only a
number from outside can: in a state, a seek, a sampler's length or a batch size.
"""

MOST_INDEX = 2**62  # for indices, steps and counts, and for the end of a stream
MOST_STRIDE = 2**60  # for G, the consecutive indices of one step
