"""The base class of sources that may have the members of a `TokenDataSource`, by those that they are made of."""

from operator import attrgetter
from typing import Any

import numpy as np

from loaderkit._source.optional import only_where

where_of_tokens = only_where(attrgetter("_first_of_tokens"))


class OfTokens:
    """A base class of sources: what their tokens are; only where they are of tokens, else an AttributeError."""

    _first_of_tokens: Any  # a source of tokens that this one is made of; AttributeError without

    @property
    def feature(self) -> str:
        """The tokens' name."""
        found: str = self._first_of_tokens.feature
        return found

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the tokens."""
        found: np.dtype[Any] = self._first_of_tokens.dtype
        return found

    @property
    def columns(self) -> Any:
        """The columns beside the tokens, as a `TokenDataSource` says them."""
        return self._first_of_tokens.columns
