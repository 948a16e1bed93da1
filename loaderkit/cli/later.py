"""Commands that this version doesn't have: what to use meanwhile.

Other programs have commands with these names.
"""

MEANWHILE = {
    "cache": "give a source cache=lk.Cache(folder) in Python",
}


def refusal(name: str) -> str:
    """What the command says in place of the command `name`.

    >>> refusal("cache")
    "'cache' is not in this version; meanwhile give a source cache=lk.Cache(folder) in Python"
    """
    return f"{name!r} is not in this version; meanwhile {MEANWHILE[name]}"
