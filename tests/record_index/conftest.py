"""Indexes that the tests make lie in a folder of theirs, not in the user's cache."""

import importlib.util
import sys
import types

import pytest


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory, monkeypatch):
    """The user's cache folder."""
    home = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


if importlib.util.find_spec("loaderkit._storage.open_ranges") is None:
    stub = types.ModuleType("loaderkit._storage.open_ranges")

    def open_ranges(paths, *, storage_options, refresh, expected, on_other_version):
        from index_data import LocalRanges

        return LocalRanges(paths, expected, on_other_version)

    stub.open_ranges = open_ranges
    sys.modules["loaderkit._storage.open_ranges"] = stub
