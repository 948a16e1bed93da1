"""`lk.interop.tokenizers`: texts and chats become tokens, by a tokenizer of another library."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.optional_library import library
from loaderkit.transforms import Map
from loaderkit.transforms.known_tokenizer import KnownTokenizer, known_tokenizer

_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")  # as transformers looks for it


@dataclass(frozen=True)
class _ToTokens(Map):
    tokenizer: Any
    _: KW_ONLY
    keep: Sequence[str] | Mapping[str, str] = ()

    def _take_tokenizer(self, known: KnownTokenizer, own: set[str]) -> None:
        keep = dict(self.keep) if isinstance(self.keep, Mapping) else tuple(self.keep)
        if isinstance(self.keep, str) or own & {*self._kept(keep).values()}:
            raise ValueError(f"keep: expected a list of names other than {sorted(own)}, got {self.keep!r}")
        model = getattr(getattr(known.object, "backend_tokenizer", known.object), "model", None)
        if dropout := getattr(model, "dropout", None):
            raise ValueError(
                "tokenizer: expected one that gives a text the same tokens each time, got "
                f"dropout={dropout:.3g}; write tokenizer.model.dropout = None"
            )
        self._set(tokenizer=known, keep=keep)

    def __call__(self, element: Any) -> Any:
        return self.map(element)

    def _made(self, element: Any, ids: Sequence[int], **more: Any) -> dict[str, Any]:
        tokens = np.array(ids, np.min_scalar_type(self.tokenizer.size - 1))
        kept = {name: _value(element, field, "keep") for field, name in self._kept(self.keep).items()}
        return {"tokens": tokens, **more, **kept}

    @staticmethod
    def _kept(keep: Sequence[str] | Mapping[str, str]) -> Mapping[str, str]:
        return keep if isinstance(keep, Mapping) else dict(zip(keep, keep))


@dataclass(frozen=True)
class Encode(_ToTokens):
    """Tokens of the text of each record: a dict of `tokens`, an array (n,), and the fields to keep.

    The dtype is the smallest unsigned one for the vocabulary. A record's whole text is encoded, whatever truncation or
    padding the tokenizer has, and without what it would add around: say `prepend` and `append`. It is an operation of a
    loader, and a function for `lk.MapDataSource` and `lk.offline.map_shards`; `lk.write` and `map_shards` compare the
    tokenizer where a run goes on. It starts no thread.

    Args:
        tokenizer: the path of a tokenizer.json or of a SentencePiece .model, or a tokenizer of tokenizers, transformers
            (a fast one), tiktoken or sentencepiece. TypeError for another object.
        field: name of the text, str or UTF-8 bytes, in a record; None where a record is the text.
        append, prepend: a token behind and before each text: its name in the vocabulary, such as "</s>", or its id.
            ValueError for one that isn't there.
        keep: names of fields of the record that the new one has, too; or {field: its name there}, as {"url": "id"}.

    >>> import tokenizers as tk
    >>> words = tk.Tokenizer(tk.models.WordLevel({"a": 0, "b": 1, "<eos>": 2, "?": 3}, "?"))
    >>> words.pre_tokenizer = tk.pre_tokenizers.Whitespace()
    >>> Encode(words, append="<eos>", keep=["id"])({"text": "b a", "id": 7})
    {'tokens': array([1, 0, 2], dtype=uint8), 'id': 7}
    """

    field: str | None = "text"
    _: KW_ONLY
    append: str | int | None = None
    prepend: str | int | None = None

    def __post_init__(self) -> None:
        self._take_tokenizer(known := _opened(self.tokenizer), {"tokens"})
        self._set(**{name: _id_of(known, name, getattr(self, name)) for name in ("append", "prepend")})

    def map(self, element: Any) -> dict[str, Any]:
        """The tokens of one record."""
        return self.map_many([element])[0]

    def map_many(self, elements: Sequence[Any]) -> list[dict[str, Any]]:
        """The tokens of many records, as of each alone; batches are faster.

        Args:
            elements: records.
        """
        before, behind = ([] if one is None else [int(one)] for one in (self.prepend, self.append))
        found = self.tokenizer.encode(list(map(self._text, elements)))
        return [self._made(element, [*before, *ids, *behind]) for element, ids in zip(elements, found)]

    def _text(self, element: Any) -> str:
        text = element if self.field is None else _value(element, self.field, "field")
        if isinstance(text, bytes):
            return text.decode()
        if not isinstance(text, str):
            raise TypeError(f"field {self.field!r}: expected a text, got a {type(text).__name__}")
        return text


@dataclass(frozen=True)
class Chat(_ToTokens):
    """Tokens of a chat by its template, and which of them the assistant wrote: `tokens` and `loss_mask`, bool (n,).

    The mask belongs to the tokens themselves; `PackedDataSource(..., loss="loss_mask", targets=True)` moves it to the
    places where these tokens are the target.

    Args:
        tokenizer: of transformers, a fast one. ValueError where its chat template has no `{% generation %}`, as then no
            token would be known to be the assistant's.
        field: name of the messages in a record, a list of {"role": ..., "content": ...}.
        keep: as Encode has it.
    """

    field: str = "messages"

    def __post_init__(self) -> None:
        known = known_tokenizer(self.tokenizer)
        if known is None or known.kind != "transformers":
            raise TypeError(
                f"tokenizer: expected a fast one of transformers, got {self.tokenizer!r:.80}; write "
                "transformers.AutoTokenizer.from_pretrained(...)"
            )
        if not _GENERATION.search(known.object.get_chat_template()):
            raise ValueError(
                "tokenizer: expected a chat template with {% generation %} and {% endgeneration %} around what the "
                "assistant says, got one without; add them to tokenizer.chat_template"
            )
        self._take_tokenizer(known, {"tokens", "loss_mask"})

    def map(self, element: Any) -> dict[str, Any]:
        """The tokens and the mask of one chat."""
        found = self.tokenizer.object.apply_chat_template(
            _value(element, self.field, "field"), return_dict=True, return_assistant_tokens_mask=True
        )
        return self._made(element, found["input_ids"], loss_mask=np.array(found["assistant_masks"], bool))


def _value(record: Any, name: str, argument: str) -> Any:
    if not isinstance(record, dict) or name not in record:
        got = f"one of {[*record]}" if isinstance(record, dict) else f"a {type(record).__name__}"
        raise ValueError(
            f"{argument}: expected a record, a dict, with {name!r}, got {got}; give another name"
        )
    return record[name]


def _opened(tokenizer: Any) -> KnownTokenizer:
    if isinstance(tokenizer, KnownTokenizer):
        return tokenizer
    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = _of_file(os.fspath(tokenizer))
    if (known := known_tokenizer(tokenizer)) is not None and known.kind == "transformers":
        known = known_tokenizer(tokenizer := tokenizer.backend_tokenizer)
    if known is None:
        raise TypeError(
            "tokenizer: expected the path of a tokenizer.json or .model, or a tokenizer of tokenizers, transformers, "
            f"tiktoken or sentencepiece, got {tokenizer!r:.80}"
        )
    if known.kind == "tokenizers":
        whole = type(tokenizer).from_str(tokenizer.to_str())  # the user's keeps what it has
        whole.no_truncation()
        whole.no_padding()
        known = known_tokenizer(whole)
        assert known is not None
    return known


def _of_file(path: str) -> Any:
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"tokenizer: expected a tokenizer.json or .model, got {path!r}, which is no file"
        )
    needs = f"tokenizer {path!r} needs"
    if path.endswith(".model"):
        return library("sentencepiece", needs, "tokenizers").SentencePieceProcessor(model_file=path)
    tokenizers = library("tokenizers", needs, "tokenizers")
    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # it raises no other class
        raise ValueError(f"tokenizer: expected a tokenizer.json, got {path!r}: {error}") from error


def _id_of(tokenizer: KnownTokenizer, argument: str, token: str | int | None) -> int | None:
    if token is None:
        return None
    if not isinstance(token, str):
        return at_least(argument, token, 0, below=tokenizer.size)
    try:
        return tokenizer.id_of(token)
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None
