"""The former place of `mix`, `interleave` and `balance`, which are names of `loaderkit`. It goes with 0.3.0."""

from typing import Any

from loaderkit._base.former import former_name


def __getattr__(name: str) -> Any:
    return former_name(__name__, name)
