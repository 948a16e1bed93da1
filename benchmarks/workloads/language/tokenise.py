"""JSON Lines of 4,000 documents, pieces of 4,000 characters of Python's own sources, become files of tokens.

The tokenizer is a byte-level BPE of 8,192 tokens, trained on 2 MB of them. loaderkit: `lk.write` of a
`lk.MapDataSource` with `Encode` in 32 shards, as `loaderkit convert --tokenizer` does, with checksums and `made.json`.
*datasets*: `Dataset.map` of `encode_batch_fast` in batches of 1,000, `num_proc=2`, which writes Arrow. Documents a
second of the whole run, starts of processes included; data, tokenizer and tables of texts are made before.
"""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Metrics, Size, speedup
from benchmarks.contender import Contender, ours

DOCUMENTS, SMOKE, CHARACTERS, SHARDS = 4_000, 60, 4_000, 32
ONE, TWO = ours(1), ours(2)
DATASETS = Contender("datasets, 2 processes", "hf", 2)


def data(size: Size) -> tuple[Path, Path]:
    """The files of texts and of the tokenizer, made by the first contender that asks."""
    texts, tokenizer = size.folder / "texts.jsonl", size.folder / "tokenizer.json"
    if not texts.exists():
        import tokenizers as tk

        sources = sorted(Path(os.__file__).parent.glob("*.py")) + sorted(
            Path(os.__file__).parent.glob("*/*.py")
        )
        sources = [path for path in sources if "site-packages" not in path.parts]
        whole = "".join(path.read_text(encoding="utf-8", errors="replace") for path in sources)
        pieces = [whole[at : at + CHARACTERS] for at in range(0, len(whole), CHARACTERS)]
        made = tk.Tokenizer(tk.models.BPE())
        made.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tk.trainers.BpeTrainer(
            vocab_size=8192,
            special_tokens=["<eos>"],
            initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        made.train_from_iterator(pieces[: size.pick(500, 20)], trainer)
        made.save(str(tokenizer))
        partial = size.folder / "texts.partial"
        with open(partial, "w", encoding="utf-8") as file:
            numbers = range(size.pick(DOCUMENTS, SMOKE))
            file.writelines(json.dumps({"text": pieces[k % len(pieces)]}) + "\n" for k in numbers)
        partial.rename(texts)
    return texts, tokenizer


def measure(contender: Contender, size: Size) -> Metrics:
    """Documents a second of one run."""
    texts, tokenizer = data(size)
    run = _datasets if contender.peer == "hf" else _ours
    return {PER_SECOND: size.pick(DOCUMENTS, SMOKE) / run(contender, texts, tokenizer, size.folder)}


def _ours(contender: Contender, texts: Path, tokenizer: Path, folder: Path) -> float:
    import loaderkit as lk
    from loaderkit.interop.tokenizers import Encode

    lk.open(texts)  # its index is made
    target = folder / f"tokens-{os.getpid()}"
    begun = time.perf_counter()
    source = lk.MapDataSource(lk.open(texts), Encode(tokenizer, append="<eos>"))
    lk.write(source, target, format="tokens", shards=SHARDS, worker_count=contender.workers)
    taken = time.perf_counter() - begun
    shutil.rmtree(target)
    return taken


def _datasets(contender: Contender, texts: Path, tokenizer: Path, folder: Path) -> float:
    import tokenizers as tk
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    cache = folder / f"datasets-{os.getpid()}"
    table = Dataset.from_json(str(texts), cache_dir=str(cache))
    made = tk.Tokenizer.from_file(str(tokenizer))
    eos = made.token_to_id("<eos>")

    def encode(batch: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": [[*each.ids, eos] for each in made.encode_batch_fast(batch["text"])]}

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    begun = time.perf_counter()
    table.map(
        encode, batched=True, num_proc=contender.workers, remove_columns=["text"], load_from_cache_file=False
    )
    taken = time.perf_counter() - begun
    shutil.rmtree(cache)
    return taken


BENCHMARKS = (
    Benchmark(
        "language: tokenising ahead",
        __doc__ or "",
        (ONE, TWO, DATASETS),
        measure,
        (
            speedup(TWO, ONE, bound=Bound(">=", 1.8)),
            speedup(TWO, DATASETS, bound=Bound(">=", 2.0)),
        ),
    ),
)
