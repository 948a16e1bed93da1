"""Tokenizers of other libraries: what tells one from another, and how each makes ids of texts.

No library is imported here: what is told is an object of one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from loaderkit._base.canonical_json import canonical
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._source.tables import library_names

_OFF = ("off", "false", "f", "no", "n", "0")  # as the library tokenizers reads TOKENIZERS_PARALLELISM


@dataclass(frozen=True, slots=True)
class KnownTokenizer:
    """A tokenizer of another library. It is picklable where the library's is.

    kind: the library. sha256: of its content: vocabulary, merges or ranks, rules and, where it has one, chat template.
    size: one more than the greatest id. object: the library's.
    """

    kind: str
    sha256: str
    size: int
    object: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind} of {self.size} ids, sha256:{self.sha256}"

    def encode(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The ids of each text, without any that the tokenizer would add around it. It starts no thread."""
        tokenizer = self.object
        if self.kind == "tokenizers":
            # A batch is 1.25 times as fast. Its threads, which a fork doesn't survive, are off in worker processes.
            if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in _OFF and len(texts) > 1:
                return [each.ids for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
            return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        if self.kind == "tiktoken":
            return [tokenizer.encode_ordinary(text) for text in texts]
        plain = {"out_type": int} | dict.fromkeys(("add_bos", "add_eos", "enable_sampling", "reverse"), False)
        return [tokenizer.encode(text, **plain) for text in texts]

    def id_of(self, token: str) -> int:
        """The id of one token; ValueError where the vocabulary lacks it."""
        tokenizer = self.object
        if self.kind == "tiktoken":
            found = tokenizer._special_tokens.get(token)
        elif self.kind == "sentencepiece":
            found = tokenizer.piece_to_id(token)
            found = found if tokenizer.id_to_piece(found) == token else None
        else:
            found = tokenizer.token_to_id(token)
        if found is None:
            raise ValueError(
                f"expected a token of the vocabulary, got {token!r}; give its id, an int, or another"
            )
        return int(found)


def is_tokenizer(value: Any) -> bool:
    """Whether an object is one that `known_tokenizer` knows, or what that gives."""
    return isinstance(value, KnownTokenizer) or any(name in _KINDS for name in library_names(value))


def known_tokenizer(value: Any) -> KnownTokenizer | None:
    """What is known of a tokenizer of tokenizers, tiktoken, sentencepiece, or a fast one of transformers; else None.

    Args:
        value: any object.

    >>> known_tokenizer(str.split) is None
    True
    """
    for package, name in library_names(value):
        if (told := _KINDS.get((package, name))) is not None:
            content, size = told(value)
            return KnownTokenizer(package, hashlib.sha256(content).hexdigest()[:32], size, value)
    return None


def _of_tokenizers(value: Any) -> tuple[bytes, int]:
    return value.to_str().encode(), max(value.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def _of_transformers(value: Any) -> tuple[bytes, int]:
    rules, size = _of_tokenizers(value.backend_tokenizer)
    # Its calls set these two for their own texts.
    told = {**json.loads(rules), "truncation": None, "padding": None}
    return canonical([told, value.chat_template, str(value.special_tokens_map)]).encode(), size


def _of_tiktoken(value: Any) -> tuple[bytes, int]:
    ranks = sorted(value._mergeable_ranks.items())
    return repr(
        (value._pat_str, sorted(value._special_tokens.items()), ranks)
    ).encode(), value.max_token_value + 1


def _of_sentencepiece(value: Any) -> tuple[bytes, int]:
    return value.serialized_model_proto(), value.get_piece_size()


_KINDS: dict[tuple[str, str], Callable[[Any], tuple[bytes, int]]] = {
    ("tokenizers", "Tokenizer"): _of_tokenizers,
    ("transformers", "PreTrainedTokenizerFast"): _of_transformers,
    ("transformers", "TokenizersBackend"): _of_transformers,  # its name from version 5 on
    ("tiktoken", "Encoding"): _of_tiktoken,
    ("sentencepiece", "SentencePieceProcessor"): _of_sentencepiece,
}
