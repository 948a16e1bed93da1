"""The built site, which several files look at."""

import pytest
from building import build


@pytest.fixture(scope="session")
def site(tmp_path_factory, nightly):
    """The folder of the built site: a minute of work, for the nightly run and for .ci/run where documents changed."""
    if not nightly:
        pytest.skip("the site is built in the nightly run")
    out = tmp_path_factory.mktemp("site") / "site"
    build(out)
    return out
