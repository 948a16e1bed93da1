"""The seed of a component's own shuffle."""

from hashlib import sha256

from loaderkit._order.mixing import fold


def component_seed(seed: int, name: str) -> int:
    """A seed that follows from a mixture's and from the component's name: another component more or less changes none.

    >>> component_seed(0, "web") != component_seed(0, "code")
    True
    """
    return fold(seed, int.from_bytes(sha256(name.encode(errors="surrogatepass")).digest()[:8]))
