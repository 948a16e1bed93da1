"""The pages, and the site that is made of them: `python -m docs build`."""
