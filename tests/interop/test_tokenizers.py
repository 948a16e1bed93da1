"""Texts become tokens by tokenizers of other libraries: their ids, in any process, and told apart by a later run."""

import dataclasses
import pickle
import shutil

import numpy as np
import pytest
import tiny_tokenizers
from tiny_tokenizers import TEMPLATE, TEXTS, of_tokenizers, of_transformers

import loaderkit as lk
from loaderkit.errors import ResumeMismatchError
from loaderkit.formats._writing.function_text import FunctionText
from loaderkit.interop.tokenizers import Chat, Encode

MADE = {
    "tokenizers": (lambda t, text: t.encode(text, add_special_tokens=False).ids, 400, 390),
    "tiktoken": (lambda t, text: t.encode_ordinary(text), 258, 257),
    "sentencepiece": (lambda t, text: t.encode(text), 300, 290),
}
RECORDS = [{"text": text, "id": number} for number, text in enumerate([*TEXTS[:20], "", "naïve <eos> 日本"])]


def tokenizer_of(library, size=None):
    make = getattr(tiny_tokenizers, f"of_{library}")
    return make() if size is None else make(size)


@pytest.mark.parametrize("library", MADE)
def test_the_ids_are_the_library_s(library, monkeypatch):
    """One by one, in bulk with threads off and on, behind a pickle; with a token behind and before each."""
    tokenizer = tokenizer_of(library)
    ids = [MADE[library][0](tokenizer, record["text"]) for record in RECORDS]
    eos = "</s>" if library == "sentencepiece" else "<eos>"
    plain, both = Encode(tokenizer), Encode(tokenizer, append=eos, prepend=5, keep=["id"])
    number = both.append
    for encode in (plain, pickle.loads(pickle.dumps(plain))):
        assert [encode(record)["tokens"].tolist() for record in RECORDS] == ids
        for threads in ("false", "true"):
            monkeypatch.setenv("TOKENIZERS_PARALLELISM", threads)
            assert [one["tokens"].tolist() for one in encode.map_many(RECORDS)] == ids
    found = both.map_many(RECORDS)
    assert [one["tokens"].tolist() for one in found] == [[5, *each, number] for each in ids]
    assert [one["id"] for one in found] == [record["id"] for record in RECORDS]
    assert Encode(tokenizer, keep={"id": "name"})(RECORDS[1])["name"] == RECORDS[1]["id"]
    assert {one["tokens"].dtype for one in found} == {np.dtype(np.uint16)}
    assert Encode(tokenizer, None).map(TEXTS[0])["tokens"].tolist() == ids[0]
    assert Encode(tokenizer, None).map(TEXTS[0].encode())["tokens"].tolist() == ids[0]


def test_a_text_is_encoded_whole():
    """Whatever truncation and padding the tokenizer has, which it keeps."""
    tokenizer, whole = of_tokenizers(), of_tokenizers()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=500)
    assert Encode(tokenizer)(RECORDS[0])["tokens"].tolist() == whole.encode(RECORDS[0]["text"]).ids
    assert len(tokenizer.encode(RECORDS[0]["text"]).ids) == 500


def test_dropout_is_refused():
    """A text has the same tokens at each read."""
    tokenizer = of_tokenizers()
    tokenizer.model.dropout = 0.5
    with pytest.raises(ValueError, match=r"the same tokens each time, got dropout=0\.5"):
        Encode(tokenizer)


def test_files_and_fast_tokenizers_of_transformers(tmp_path):
    of_tokenizers().save(str(tmp_path / "tokenizer.json"))
    wanted = Encode(of_tokenizers())
    assert Encode(tmp_path / "tokenizer.json").tokenizer == wanted.tokenizer
    assert Encode(of_transformers())(RECORDS[3])["tokens"].tolist() == wanted(RECORDS[3])["tokens"].tolist()
    (tmp_path / "x.model").write_bytes(tiny_tokenizers.proto_of(300))
    assert Encode(tmp_path / "x.model").tokenizer == Encode(tiny_tokenizers.of_sentencepiece()).tokenizer


@pytest.mark.parametrize("library", MADE)
def test_another_tokenizer_is_told(library):
    """In what a run compares, where a function of the user's holds it too, and in a loader's state."""
    one, same, other = (tokenizer_of(library, size) for size in (*MADE[library][1:2] * 2, MADE[library][2]))

    def told(tokenizer, function):
        text = FunctionText({"function": function(tokenizer)})
        assert text.not_compared == [] and library in text.libraries
        return text.as_json(), text.tokenizers

    for function in (Encode, lambda tokenizer: lambda text: tokenizer.encode(text)[:9]):
        assert told(one, function) == told(same, function)
        assert told(one, function)[0] == told(other, function)[0]
        assert told(one, function)[1] != told(other, function)[1]
    assert FunctionText({"f": Encode(one)}).as_json() != FunctionText({"f": Encode(one, append=0)}).as_json()


def test_a_state_warns_of_another_tokenizer():
    def loader(tokenizer):
        return lk.load(RECORDS, operations=[Encode(tokenizer), lambda record: len(record["tokens"])])

    with iter(loader(of_tokenizers())) as it:
        next(it)
        state = it.get_state()
    with iter(loader(of_tokenizers(390))) as it, pytest.warns(UserWarning, match="KnownTokenizer"):
        it.set_state(state)


class Killed:
    """Texts; the file `flag` ends a run at the last quarter."""

    def __init__(self, flag):
        self.flag = flag

    def __len__(self):
        return 40

    def __getitem__(self, key):
        if key == 30 and self.flag.exists():
            raise KeyboardInterrupt
        return {"text": f"the words of {key}"}

    def fingerprint(self):
        return {"n": 40}


WAYS = {
    "write": lambda encode, source, path, **how: lk.write(
        lk.MapDataSource(source, encode), path, format="tokens", shards=4, **how
    ),
    "map_shards": lambda encode, source, path, **how: lk.offline.map_shards(
        encode, source, path, format="tokens", shards=4, **how
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_goes_on_has_one_tokenizer(tmp_path, way):
    """Another one is refused with both sides; allow= goes on, overwrite= and another version= begin again."""
    path, flag = tmp_path / "set", tmp_path / "flag"
    ones, others = Encode(of_tokenizers(), append=0), Encode(of_tokenizers(300), append=0)

    def write(encode, **how):
        WAYS[way](encode, Killed(flag), path, **how)
        made = [
            document["tokens"].tolist()
            for file in sorted(path.glob("*.tokens"))
            for document in lk.open(file)
        ]
        shutil.rmtree(path)
        return made

    whole, anew = write(ones), write(others)
    assert len(whole) == len(anew) == 40 and whole[30:] != anew[30:]
    refused = r"tokenizer: \w+\S+: 'tokenizers of 400 ids, sha256:\w+' there and 'tokenizers of 300 ids, "
    for before, after, how, expected in (
        ({}, ones, {}, whole),
        ({}, others, {}, refused),
        ({}, dataclasses.replace(ones, append=1), {}, r"function: values: \S+append: '0' there and '1' here"),
        ({}, others, {"overwrite": True}, anew),
        ({}, others, {"allow": {"tokenizer"}}, whole[:30] + anew[30:]),
        ({"version": 1}, others, {"version": 1}, whole[:30] + anew[30:]),
        ({"version": 1}, others, {"version": 2}, anew),
    ):
        flag.touch()
        with pytest.raises(KeyboardInterrupt):
            write(ones, **before)
        flag.unlink()
        if isinstance(expected, list):
            assert write(after, **how) == expected
        else:
            with pytest.raises(ResumeMismatchError, match=expected):
                write(after, **how)
            shutil.rmtree(tmp_path / "set.partial")


def test_bad_input(tmp_path):
    """Each is named where the operation is made, or with the record."""
    tokenizer = of_tokenizers()
    for arguments, error, text in [
        ((str.split,), TypeError, "tokenizer: expected the path of a tokenizer.json"),
        (("none.json",), FileNotFoundError, "none.json"),
        ((__file__,), ValueError, "expected a tokenizer.json"),
    ]:
        with pytest.raises(error, match=text):
            Encode(*arguments)
    for keywords, text in [
        ({"append": "</s>"}, "append: expected a token of the vocabulary, got '</s>'"),
        ({"prepend": 400}, "prepend: expected .* 399"),
        ({"keep": "id"}, "keep: expected a list"),
        ({"keep": ["tokens"]}, "keep: expected a list"),
    ]:
        with pytest.raises(ValueError, match=text):
            Encode(tokenizer, **keywords)
    with pytest.raises(
        ValueError, match=r"field: expected a record, a dict, with 'text', got one of \['body'\]"
    ):
        Encode(tokenizer)({"body": "x"})
    with pytest.raises(TypeError, match="expected a text, got a int"):
        Encode(tokenizer)({"text": 3})


def test_chats_have_a_mask_of_what_the_assistant_says():
    tokenizer = of_transformers()
    chat = Chat(tokenizer, keep=["id"])
    messages = [
        {"role": "user", "content": "Which one?"},
        {"role": "assistant", "content": "The second."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "It is shorter."},
    ]
    for made in (chat, pickle.loads(pickle.dumps(chat))):
        found = made({"messages": messages, "id": 3})
        said = tokenizer.decode(found["tokens"][found["loss_mask"]])
        assert said == "The second.<eos>It is shorter.<eos>" and found["id"] == 3
        assert (
            tokenizer.decode(found["tokens"][~found["loss_mask"]])
            == "<user>Which one?<assistant><user>Why?<assistant>"
        )
        assert (found["tokens"].dtype, found["loss_mask"].dtype) == (np.uint16, bool)


def test_a_chat_trains_what_the_assistant_says():
    """Packed with others: the targets that count are its tokens, but for the first of a row, and no others."""
    tokenizer = of_transformers()
    chats = [
        {
            "messages": [
                {"role": "user", "content": f"Say {k}."},
                {"role": "assistant", "content": f"It is {k}."},
            ]
        }
        for k in range(6)
    ]
    chat = Chat(tokenizer)
    pack = lk.Pack(64, window=6, feature="tokens", targets=True, loss="loss_mask", mask="counts")
    with iter(lk.load(chats, num_epochs=1, operations=[chat, pack])) as it:
        rows = list(it)
    said = [tokenizer.decode(row["targets"][row["counts"]]) for row in rows]
    assert sorted("".join(said).split("<eos>")[:-1]) == [f"It is {k}." for k in range(6)]


def test_a_template_without_a_generation_part_is_an_error():
    without = TEMPLATE.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    with pytest.raises(ValueError, match=r"expected a chat template with {% generation %}"):
        Chat(of_transformers(without))
    with pytest.raises(TypeError, match="expected a fast one of transformers"):
        Chat(of_tokenizers())
    one, other = (FunctionText({"f": Chat(of_transformers(text))}) for text in (TEMPLATE, TEMPLATE + " "))
    assert one.tokenizers != other.tokenizers and "transformers" in one.libraries
