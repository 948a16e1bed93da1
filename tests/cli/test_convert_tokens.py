"""`loaderkit convert --tokenizer`: the tokenizer's ids, the same bytes for any workers, and after any kill."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_tokenizers import TEXTS, of_tokenizers, proto_of

import loaderkit as lk

KILLED = """
import os, signal, sys
from loaderkit.cli import main

left = int(sys.argv.pop(1))


def hook(event, arguments):
    global left
    if event == "os.rename" and str(arguments[1]).endswith(".tokens"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(hook)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    of_tokenizers().save("tokenizer.json")
    of_tokenizers(300).save("other.json")
    records = [{"text": text, "id": f"d{number}"} for number, text in enumerate([*TEXTS[:150], ""])]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path


def documents(*names):
    return [document["tokens"].tolist() for name in names for document in lk.TokenDataSource(str(name))]


def lines(name="texts.jsonl"):
    return Path(name).read_text().splitlines()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.tokens")}


def test_the_ids_are_the_tokenizer_s_for_any_workers(loaderkit, texts):
    """In a file and a folder; one by one as in batches."""
    tokenizer = of_tokenizers()
    wanted = [[*tokenizer.encode(json.loads(line)["text"]).ids, 0] for line in lines()]
    how = ["--tokenizer", "tokenizer.json", "--append", "<eos>"]
    assert loaderkit("convert", "texts.jsonl", "a.tokens", *how).status == 0
    assert documents("a.tokens") == wanted
    for workers in (0, 2):
        made = loaderkit(
            "convert", "texts.jsonl", f"f{workers}", "--shards", 3, "-p", workers, *how, "--json"
        )
        assert made.documents[0]["format"] == "tokens" and made.documents[0]["files"] == 3
    assert contents(texts / "f0") == contents(texts / "f2")
    assert documents(*sorted((texts / "f0").glob("*.tokens"))) == wanted
    more = ["--append", "0", "--keep", "id", "--keep", "text=raw", "--shuffle", 3]
    assert loaderkit("convert", "texts.jsonl", "b.tokens", *how[:2], *more).status == 0
    assert documents("b.tokens") != wanted
    for document in lk.TokenDataSource("b.tokens"):  # each leads back to its record
        number = document["origin"]
        assert document["tokens"].tolist() == wanted[number] and document["id"] == f"d{number}"
        assert document["raw"] == json.loads(lines()[number])["text"]


def test_a_model_of_sentencepiece(loaderkit, texts):
    (texts / "x.model").write_bytes(proto_of(300))
    assert (
        loaderkit("convert", "texts.jsonl", "a.tokens", "--tokenizer", "x.model", "--append", "</s>").status
        == 0
    )
    assert {document[-1] for document in documents("a.tokens")} == {2}


def test_a_command_that_was_killed_goes_on_with_its_tokenizer(loaderkit, texts):
    """The bytes are those of one that wasn't; another tokenizer is refused, and --overwrite begins again with it."""
    how = ["--shards", "4", "--append", "<eos>"]
    whole = {}
    for name in ("tokenizer", "other"):
        assert loaderkit("convert", "texts.jsonl", name, *how, "--tokenizer", f"{name}.json").status == 0
        whole[name] = contents(texts / name)
    command = ["convert", "texts.jsonl", "out", *how, "--tokenizer"]
    killed = subprocess.run([sys.executable, "-c", KILLED, "2", *command, "tokenizer.json"], check=False)
    assert killed.returncode == -signal.SIGKILL and not os.path.exists("out")
    refused = loaderkit(*command, "other.json")
    assert refused.status != 0 and "'tokenizers of 400 ids, sha256:" in refused.err
    assert "there and 'tokenizers of 300 ids" in refused.err and "--overwrite" in refused.err
    assert loaderkit(*command, "tokenizer.json").status == 0
    assert contents(texts / "out") == whole["tokenizer"]
    subprocess.run(
        [sys.executable, "-c", KILLED, "2", *command[:2], "new", *command[3:], "tokenizer.json"], check=False
    )
    assert loaderkit(*command[:2], "new", *command[3:], "other.json", "--overwrite").status == 0
    assert contents(texts / "new") == whole["other"]


def test_a_command_that_is_finished_has_nothing_to_do(loaderkit, texts):
    """As a job that a cluster queues again: status 0, the files untouched. Whatever differs is an error as before."""
    how = ["--shards", "3", "--append", "<eos>", "--tokenizer"]
    command = ["convert", "texts.jsonl", "out", *how, "tokenizer.json"]
    assert loaderkit(*command).status == 0
    before = {path.name: (path.stat().st_ino, path.read_bytes()) for path in (texts / "out").iterdir()}
    again = loaderkit(*command, "-p", "2")
    assert again.status == 0 and "nothing to do, an earlier run is finished" in again.out
    (said,) = loaderkit(*command, "--json").documents
    assert said["finished"] is True and said["files"] == 3 and said["records_read"] == 151
    assert {
        path.name: (path.stat().st_ino, path.read_bytes()) for path in (texts / "out").iterdir()
    } == before
    for other in (
        ["other.json"],
        ["tokenizer.json", "--keep", "id"],
        ["tokenizer.json", "--on-error", "drop"],
    ):
        refused = loaderkit(*command[:-1], *other)
        assert refused.status == 2 and "--overwrite" in refused.err
    assert loaderkit(*command[:4], "2", *command[5:]).status == 2
    (first, *_) = sorted((texts / "out").glob("*.tokens"))
    first.write_bytes(first.read_bytes()[:-1])
    assert loaderkit(*command).status == 2
    first.unlink()
    assert loaderkit(*command).status == 2
    (texts / "texts.jsonl").write_text(json.dumps({"text": "another"}) + "\n")
    assert loaderkit(*command).status == 2


def test_a_finished_command_that_dropped_records_has_nothing_to_do(loaderkit, texts):
    """It says again how many it dropped."""
    with open("texts.jsonl", "a") as file:
        file.write('{"body": "no text"}\n')
    command = ["convert", "texts.jsonl", "out", "--tokenizer", "tokenizer.json", "--on-error", "drop"]
    assert loaderkit(*command).status == 0
    again = loaderkit(*command)
    assert again.status == 0 and "nothing to do" in again.out and "1 dropped" in again.out
    assert loaderkit(*command[:-2]).status == 2


def test_records_that_fail_are_listed(loaderkit, texts):
    with open("texts.jsonl", "a") as file:
        file.write('{"body": "no text"}\n')
    how = ["texts.jsonl", "out", "--tokenizer", "tokenizer.json"]
    failed = loaderkit("convert", *how)
    assert failed.status != 0 and "expected a record, a dict, with 'text', got one of ['body']" in failed.err
    told = loaderkit("convert", *how, "--on-error", "drop")
    assert told.status == 0 and "1 dropped: out.dropped.jsonl lists them" in told.out
    assert lk.TokenDataSource("out").document_column("origin", range(151)).tolist() == [*range(151)]
    head, dropped = map(json.loads, lines("out.dropped.jsonl"))
    assert head["records"] == 1 and dropped["record_key"] == 151 and "texts.jsonl" in dropped["name"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tokenizer", "none.json"], "none.json"),
        (["--tokenizer", "texts.jsonl"], "expected a tokenizer.json"),
        (["--tokenizer", "tokenizer.json", "--append", "</s>"], "append: expected a token of the vocabulary"),
        (["--tokenizer", "tokenizer.json", "--call", "json:dumps"], "--call: expected no --tokenizer"),
        (["--append", "<eos>"], "--append: expected with --tokenizer"),
        (["--file", "--on-error", "drop"], "--on-error: expected a folder"),
    ],
)
def test_bad_options(loaderkit, texts, options, said):
    ran = loaderkit("convert", "texts.jsonl", "out", *options)
    assert ran.status != 0 and said in ran.err
    assert not os.path.exists("out") and not os.path.exists("out.partial")
