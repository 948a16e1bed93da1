"""The pages of formats: what the registry says of each."""

from loaderkit.formats.built_in import FORMATS
from loaderkit.formats.format import Format

from .names import public_names

_COMPRESSED = ("zst", "zstd", "gz")


def pages() -> dict[str, str]:
    """The text of each format's page, by its place."""
    shown = {each.defined: each.shown for each in public_names()}
    return {f"formats/{each.name.replace('.', '-')}.md": _page(each, shown) for each in FORMATS}


def table() -> str:
    """The formats and what loaderkit does with each, as docs/data.md has them."""
    head = ["format", "extensions", "known without its name", "written", "on servers", "an index of ours"]
    rows = [
        [
            *(f"`{each.name}`", _extensions(each), _known_by(each)),
            *("yes" if has else "no" for has in (each.writer, each.remote, each.scanner)),
        ]
        for each in FORMATS
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _page(each: Format, shown: dict[str, str]) -> str:
    defined = str(each.source).replace(":", ".")
    source = shown.get(defined) or "loaderkit.TokenDataSource"  # open_megatron gives one
    rows = {
        "name": f"`{each.name}`, as `format=` takes it",
        "extensions": _extensions(each),
        "known without its name": _known_by(each),
        "extra": "; ".join(_extras(each)) or "none",
        "read by": f"{{py:obj}}`{source}`, {{py:obj}}`loaderkit.open`",
        "written by": "{py:obj}`loaderkit.write`" if each.writer else "nothing: it is read only",
        "on servers": "yes" if each.remote else "no: copy the files",
        "index": "made at the first use, or by `loaderkit index`"
        if each.scanner
        else "none of ours: the format has its own",
    }
    if each.beside:
        rows["files"] = f"each with another one beside it, `.{each.beside}`"
    table = "\n".join(["| | |", "|---|---|", *(f"| {what} | {said} |" for what, said in rows.items())])
    name = f"data.{each.extensions[0]}" if each.extensions else "data.tar"
    given = "" if each.extensions else f', format="{each.name}"'
    write = f'lk.write(records, "{name}"{given})\n' if each.writer else ""
    example = f'```python\nimport loaderkit as lk\n\n{write}source = lk.open("{name}"{given})\n```'
    return f"# {each.name}\n\n{table}\n\n{example}\n\nExamples and options: [](../data.md).\n"


def _extensions(each: Format) -> str:
    return " ".join(f"`.{extension}`" for extension in each.extensions) or "none: give `format=`"


def _known_by(each: Format) -> str:
    if each.folder:
        return "by what its folder holds"
    return "by its first bytes" if each.begins else "no"


def _extras(each: Format) -> list[str]:
    """How to install what its files may need."""
    named = [f"`pip install '.[{each.extra}]'`"] if each.extra else []
    if any(extension.endswith(_COMPRESSED) for extension in each.extensions):
        named.append("`pip install '.[compressed]'`, for compressed files")
    return named
