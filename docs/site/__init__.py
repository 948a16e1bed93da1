"""How the site is made. The pages themselves are the Markdown files of `docs/`, which can be read without it.

`pages.py` says which pages there are and in which order; `reference.py`, `format_pages.py` and `command_pages.py` write
those that are made from the code; `build.py` puts all in one folder and runs Sphinx there, with `conf.py`, which takes
the search's index and the list of pages from `search_index.py` and `navigation.py`. `browser.py` shows the pages that
were built, to tests and to `screenshots.py`.
"""
