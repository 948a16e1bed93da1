"""Commands that this version doesn't have: what to use meanwhile.

Other programs have commands with these names.
"""

MEANWHILE = {
    "stats": "use `loaderkit inspect SRC` for the sizes of records and fields",
    "cache": "give a source cache=lk.Cache(folder) in Python",
}


def refusal(name: str) -> str:
    """What the command says in place of the command `name`.

    >>> refusal("stats")
    "'stats' is not in this version; meanwhile use `loaderkit inspect SRC` for the sizes of records and fields"
    """
    return f"{name!r} is not in this version; meanwhile {MEANWHILE[name]}"
