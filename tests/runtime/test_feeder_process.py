"""The feeder's process: what its threads do."""

import numpy as np
import pytest

from loaderkit._runtime.feeder import main


def test_it_goes_on_after_an_error_of_the_cache(monkeypatch):
    """Such as that of a disk that failed for a moment: each of its threads asks again."""
    monkeypatch.setattr(main, "_PAUSE_SECONDS", 0.0)
    fetched = []

    class Feed:
        chunk_bytes = 1
        asked = 0

        def room(self):
            self.asked += 1
            if self.asked == 1:
                raise OSError("it fails once")
            return 1

        def fetch(self, keys):
            fetched.append(keys.tolist())
            raise SystemExit  # ends the loop

    class Coming:
        def due(self, count, room):
            return np.array([7])

    process = main.FeederProcess(None)
    process._feed, process._coming = Feed(), Coming()
    with pytest.raises(SystemExit):
        process.fetch()
    assert fetched == [[7]]
