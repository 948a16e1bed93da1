"""One module a peer: `open_loader(pipeline, contender)` gives its loader, as a context manager."""
