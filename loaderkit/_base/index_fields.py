"""Fields of a data set's fingerprint that only some indexes know: they are compared where both sides have them."""

KNOWN_TO_SOME_INDEXES = ("checksums", "samples")
