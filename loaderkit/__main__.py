"""Runs the command `loaderkit` for `python -m loaderkit`."""

from loaderkit.cli import main

raise SystemExit(main())
