"""The pictures of the pages, drawn from real runs: `python -m docs.pictures`."""
