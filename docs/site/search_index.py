"""The index of the site's search: how much each word says of each page and section, by BM25.

All is computed here but the sum over the words of a query, which `static/searchtools.js` takes.
"""

import functools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import snowballstemmer
from docutils import nodes
from sphinx import addnodes

_stem = functools.cache(snowballstemmer.stemmer("english").stemWord)  # a word stands on many pages
_IN_TITLE = 8  # so many words of the text is a word of the title worth
# Guides come before what is looked up by a name, and that before what is read in order.
_WORTH = {
    "reference/": 0.7,
    "commands": 0.8,
    "moving-from": 0.85,
    "which-loader": 0.85,
    "notebooks/": 0.7,
    "changelog": 0.4,
    "contributing": 0.4,
    "security": 0.6,
    "versions": 0.6,
    "benchmarks": 0.6,
}
_SATURATION, _BY_LENGTH = 1.2, 0.75  # k1 and b of BM25, at their usual values
Section = tuple[str, str, str]  # anchor, heading, text


def words(text: str) -> list[str]:
    """The stems of a text's words; an identifier is found whole and by its parts.

    >>> words("drop_last of DataLoaders")
    ['drop_last', 'drop', 'last', 'of', 'dataload', 'data', 'loader']
    """
    found = []
    for name in re.findall(r"\w+", text, re.ASCII):
        parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
        found += [word.lower() for word in dict.fromkeys([name, *parts])]
    return list(map(_stem, found))


def index(pages: Iterable[tuple[str, Iterable[Section]]]) -> str:
    """The file that the search page loads.

    Args:
        pages: address and sections of each.
    """
    addresses, sections = [], []
    of_pages: list[Counter[str]] = []
    of_sections: list[Counter[str]] = []
    for address, its_sections in pages:
        whole: Counter[str] = Counter()
        title = ""
        for anchor, heading, text in its_sections:
            title = title or heading
            counts = Counter(words(text))
            whole += counts
            for word in words(heading):
                counts[word] += _IN_TITLE
                whole[word] += _IN_TITLE if heading == title else 2
            sections.append([len(addresses), "" if heading == title else anchor, heading])
            of_sections.append(counts)
        addresses.append([address, title])
        of_pages.append(whole)
    terms: defaultdict[str, tuple[list[list[int]], list[list[int]]]] = defaultdict(lambda: ([], []))
    for kind, counts_of in enumerate((of_pages, of_sections)):
        for word, place, score in _scores(counts_of):
            page = place if kind == 0 else sections[place][0]
            if score := round(score * _worth(addresses[page][0])):
                terms[word][kind].append([place, score])
    made = {"pages": addresses, "sections": sections, "terms": terms}
    return f"Search.setIndex({json.dumps(made, separators=(',', ':'), ensure_ascii=False)})"


def sections_of(document: nodes.document) -> Iterator[Section]:
    """Anchor, heading and own text of each section, and of each name of the reference."""
    kinds = nodes.section, addnodes.desc
    for each in document.findall(lambda node: isinstance(node, kinds)):
        head = each.children[0]  # a title, or a signature
        names = isinstance(each, addnodes.desc)
        anchor = (head if names else each)["ids"][0]
        yield anchor, head["fullname"] if names else head.astext(), " ".join(_text(each, kinds))


def _text(node: nodes.Node, kinds: tuple[type, ...]) -> Iterator[str]:
    for child in node.children:
        if isinstance(child, nodes.Text):
            yield child.astext()
        elif not isinstance(child, kinds):
            yield from _text(child, kinds)


def _scores(counts_of: list[Counter[str]]) -> Iterator[tuple[str, int, float]]:
    found_in = Counter(word for counts in counts_of for word in counts)
    lengths = [sum(counts.values()) for counts in counts_of]
    mean = sum(lengths) / len(lengths)
    for place, counts in enumerate(counts_of):
        slack = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * lengths[place] / mean)
        for word, count in counts.items():
            rare = math.log(1 + (len(counts_of) - found_in[word] + 0.5) / (found_in[word] + 0.5))
            yield word, place, 100 * rare * count * (_SATURATION + 1) / (count + slack)


def _worth(address: str) -> float:
    return next((worth for start, worth in _WORTH.items() if address.startswith(start)), 1.0)
