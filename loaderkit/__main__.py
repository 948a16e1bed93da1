"""`python -m loaderkit` is the command `loaderkit`."""

from loaderkit.cli import main

raise SystemExit(main())
