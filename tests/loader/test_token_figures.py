"""Tokens and places of packed rows, and what was read of each corpus, as `it.stats()` and those who read it say."""

import io
import json
import random

import numpy as np
import pytest

import loaderkit as lk

RNG = random.Random(0)
CORPORA = {
    name: [np.full(RNG.randint(1, 90), number, np.uint16) for _ in range(300)]
    for number, name in enumerate(("web", "code"))
}
PLANS = {name: lk.plan_packing([*map(len, corpus)], 64) for name, corpus in CORPORA.items()}
TOKENS = {name: sum(map(len, corpus)) for name, corpus in CORPORA.items()}
WAYS = {
    "here": {},
    "threads": {"worker_count": 2, "worker_kind": "thread"},
    "processes": {"worker_count": 2},
    "reading threads": {"worker_count": 1, "read_options": lk.ReadOptions(num_threads=2)},
}


def packed(**options):
    rows = {name: lk.PackedDataSource(CORPORA[name], plan, max_read_factor=9) for name, plan in PLANS.items()}
    source, sampler = lk.mix(
        rows,
        weights={name: len(each) for name, each in rows.items()},
        num_epochs=1,
        when_exhausted="drop",
        seed=0,
    )
    return lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(8)], **options)


@pytest.mark.parametrize("way", WAYS)
def test_all_tokens_of_an_epoch_are_counted_once(way):
    """Whichever thread or process reads the rows; and of each corpus its rows."""
    with packed(**WAYS[way]) as loader, iter(loader) as it:
        half = None
        for batch in it:
            half = half or it.stats()
            assert batch["tokens"].shape[1] == 64
        stats = it.stats()
    rows = {name: len(plan) for name, plan in PLANS.items()}
    work = stats.pool.all
    assert (work.tokens, work.places) == (sum(TOKENS.values()), 64 * sum(rows.values()))
    assert stats.fill == work.tokens / work.places
    assert {name: (each.records, each.epochs) for name, each in stats.corpora.items()} == {
        name: (count, 1.0) for name, count in rows.items()
    }
    assert sum(map(stats.tokens_of, rows)) == pytest.approx(work.tokens)
    rest = stats - half
    assert {name: each.records for name, each in rest.corpora.items()} == {
        name: rows[name] - half.corpora[name].records for name in rows
    }


def test_rows_of_a_pack_are_counted():
    documents = [*CORPORA["web"]]
    with iter(lk.load(documents, operations=[lk.Pack(128, window=50), lk.Batch(4)], num_epochs=1)) as it:
        rows = sum(len(batch["tokens"]) for batch in it)
        work = it.stats().pool.all
    assert (work.tokens, work.places) == (TOKENS["web"], 128 * rows)


def test_what_shows_them():
    """The text, scalars, JSON, a bar's postfix and Prometheus; of other loaders nothing."""
    core = pytest.importorskip("prometheus_client")
    registry = core.CollectorRegistry()
    with iter(packed()) as it, iter(lk.load(range(64), num_epochs=1, batch_size=8)) as plain:
        registry.register(lk.interop.prometheus.PrometheusCollector(train=it, plain=plain))
        out = io.StringIO()
        assert list(lk.interop.tqdm.progress(it, file=out, mininterval=0)) and list(plain)
        stats, others = it.stats(), plain.stats()
        sample = registry.get_sample_value
        labels = {"loader": "train", "worker": "0"}
        assert sample("loaderkit_worker_tokens_total", labels) == stats.pool.all.tokens
        assert sample("loaderkit_worker_places_total", labels) == stats.pool.all.places
        of_web = {"loader": "train", "corpus": "web"}
        assert sample("loaderkit_corpus_records_total", of_web) == len(PLANS["web"])
        assert sample("loaderkit_corpus_epochs", of_web) == 1
    assert " tokens/s, blocked " in out.getvalue()
    assert " tokens/s, rows 9" in str(
        stats
    ) and f"web {len(PLANS['web'])} records, 1.00 epochs, about" in str(stats)
    scalars = stats.scalars()
    assert scalars["loader/fill"] == stats.fill and scalars["corpus/code/epochs"] == 1
    assert scalars["loader/tokens_per_second"] > 0
    assert json.loads(json.dumps(stats.to_json()))["corpora"]["web"] == {
        "records": len(PLANS["web"]),
        "epochs": 1.0,
    }
    assert others.tokens_per_second is others.fill is None and others.corpora == {}
    assert "token" not in str(others) and not [name for name in others.scalars() if "token" in name]
