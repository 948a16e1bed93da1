"""Which pieces of documents make which rows of tokens: pure functions of the documents' lengths."""
