"""The pages of formats: what the registry says of each."""

import re

from loaderkit.formats.built_in import FORMATS
from loaderkit.formats.format import Format

from .names import public_names
from .pages import ROOT

_EXTRA = re.compile(r"^# (For .+)\n(\w+) = \[", re.MULTILINE)
_COMPRESSED = ("zst", "zstd", "gz")


def pages() -> dict[str, str]:
    """The text of each format's page, by its place."""
    shown = {each.defined: each.shown for each in public_names()}
    return {f"formats/{each.name.replace('.', '-')}.md": _page(each, shown) for each in FORMATS}


def _page(each: Format, shown: dict[str, str]) -> str:
    defined = str(each.source).replace(":", ".")
    source = shown.get(defined) or "loaderkit.TokenDataSource"  # open_megatron gives one
    rows = {
        "name": f"`{each.name}`, as `format=` takes it",
        "extensions": " ".join(f"`.{extension}`" for extension in each.extensions) or "none: give `format=`",
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


def _known_by(each: Format) -> str:
    if each.folder:
        return "by what its folder holds"
    return "by its first bytes" if each.begins else "no"


def _extras(each: Format) -> list[str]:
    """How to install the extras whose comment in pyproject.toml names the source; for compressed files theirs."""
    said = dict(reversed(found) for found in _EXTRA.findall((ROOT / "pyproject.toml").read_text()))
    named = {
        extra: why.partition(": ")[2]
        for extra, why in said.items()
        if each.source_name in re.findall(r"\w+", why)
    }
    if any(extension.endswith(_COMPRESSED) for extension in each.extensions):
        named["compressed"] = "compressed files."
    return [
        f"`pip install '.[{extra}]'`" + (f", for {what[:-1]}" if what else "")
        for extra, what in named.items()
    ]
