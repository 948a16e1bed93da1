"""Commands that this version doesn't have: what to use meanwhile.

Other programs have commands with these names, and texts of loaderkit's own errors name `convert` and `sort`.
"""

MEANWHILE = {
    "convert": "to unpack x.tgz use `gunzip x.tgz`, which makes x.tar; for another order of the records shuffle while "
    "reading, with lk.IndexSampler(len(source), shuffle=True, seed=0), or with lk.ChunkSampler and a larger window",
    "sort": "unpack the archive and pack it again in order, with GNU tar: `mkdir all && tar -xf x.tar -C all && "
    "tar --sort=name --transform='s,^\\./,,' -cf sorted.tar -C all .`",
    "cat": "name several sources or a pattern: they are one set, as in `loaderkit show a.tar b.tar`",
    "split": "name a part of the set in Python: lk.SubsetDataSource(source, range(1000))",
    "first": "use `loaderkit show SRC -f FIELD -n N`",
    "table": "use `loaderkit show SRC -f FIELD --json`, a line of JSON for each record",
    "create": "use `tar --sort=name -cf new.tar -C FOLDER .`",
    "map": "give the function to a loader: lk.load(source, transformations=[function])",
    "stats": "use `loaderkit inspect SRC` for the sizes of records and fields",
    "cache": "give a source cache=lk.Cache(folder) in Python",
}


def refusal(name: str) -> str:
    """What the command says in place of the command `name`.

    >>> refusal("first")
    "'first' is not in this version; meanwhile use `loaderkit show SRC -f FIELD -n N`"
    """
    return f"{name!r} is not in this version; meanwhile {MEANWHILE[name]}"
