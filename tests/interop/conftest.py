"""What the tests of Grain's side share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from ray_case import started_nodes


@pytest.fixture(scope="module")
def nodes():
    """The process of ray_nodes.py, with `address` and `second`, the id of a node."""
    with started_nodes() as process:
        yield process


@pytest.fixture(scope="session")
def installed_grain():
    """The names of the installed Grain; without it the test is skipped."""
    pytest.importorskip("grain", reason="needs the grain package")
    from absl import flags, logging

    flags.FLAGS.mark_as_parsed()
    logging.set_verbosity(logging.FATAL)
    import grain.python

    return grain.python
