"""Small tokenizers of each library, trained on texts that Python ships with."""

import functools
import io
from pydoc_data import topics
from typing import Any

import pytest

TEXTS = [paragraph for text in topics.topics.values() for paragraph in text.split("\n\n")][:400]
TEMPLATE = (
    "{% for m in messages %}{{ '<' + m['role'] + '>' }}{% if m['role'] == 'assistant' %}{% generation %}"
    "{{ m['content'] + '<eos>' }}{% endgeneration %}{% else %}{{ m['content'] }}{% endif %}{% endfor %}"
)


@functools.cache
def json_of(size: int) -> str:
    """A byte-level BPE's tokenizer.json, with a token `<eos>` of id 0."""
    tk = pytest.importorskip("tokenizers")
    made = tk.Tokenizer(tk.models.BPE())
    made.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tk.decoders.ByteLevel()
    trainer = tk.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<eos>", "<user>", "<assistant>"],
        initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # One text a call: threads of a training would be there when a later test forks.
    made.train_from_iterator(["\n".join(TEXTS[:100])], trainer)
    return made.to_str()


def of_tokenizers(size: int = 400) -> Any:
    """A new one, which a test may change."""
    json = json_of(size)
    return pytest.importorskip("tokenizers").Tokenizer.from_str(json)


def of_transformers(template: str = TEMPLATE) -> Any:
    """A fast tokenizer with a chat template."""
    transformers = pytest.importorskip("transformers", reason="transformers isn't installed")
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=of_tokenizers(), eos_token="<eos>")
    made.chat_template = template
    return made


def of_tiktoken(ranks: int = 256) -> Any:
    """Bytes, and one token `<eos>`."""
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken isn't installed")
    merges = {bytes([byte]): byte for byte in range(256)} | {b"th": 256, b"the": 257}
    kept = {token: rank for token, rank in merges.items() if rank < ranks}
    return tiktoken.Encoding("small", pat_str=r"\w+|\W+", mergeable_ranks=kept, special_tokens={"<eos>": 300})


@functools.cache
def proto_of(size: int) -> bytes:
    """A SentencePiece model."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece isn't installed")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[:200]), model_writer=model, vocab_size=size, minloglevel=2, num_threads=1
    )
    return model.getvalue()


def of_sentencepiece(size: int = 300) -> Any:
    """A processor."""
    proto = proto_of(size)
    return pytest.importorskip("sentencepiece").SentencePieceProcessor(model_proto=proto)
