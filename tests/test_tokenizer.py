"""Tokenizers: the bytes and the text of every id, end of text, and every way a tokenizer cannot be used."""

import hashlib
import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from db.errors import UserError
from precompute import tokenizer as tokenizers

TEXT = "The naïve “café” costs 20 €, she said — twice.\n\nTabs\tand 日本語, and 🙂 too.  Don't!"


def byte_level(size):
    """Id 0 ends a text; with 257 ids each byte is a token: ! is 1, a is 65, newline 199, space 221."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator([TEXT, "she said that the café costs 20 €"] * 3, trainer)
    return backend


def sentencepiece(byte_fallback=True):
    pieces = ["<unk>", "</s>", "▁", "▁a", "b", *(f"<0x{byte:02X}>" for byte in range(256))]
    backend = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], unk_token="<unk>", byte_fallback=byte_fallback))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(["<unk>", "</s>"])
    return backend


def save(backend, folder, **config):
    backend.save(str(folder / "tokenizer.json"))
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder)


def sentence(name):
    with pytest.raises(UserError) as caught:
        tokenizers.load(str(name))
    return str(caught.value)


def test_ids_give_the_exact_bytes_of_the_text(tmp_path):
    found = tokenizers.load(save(byte_level(300), tmp_path))
    vocabulary = found.vocabulary()
    (ids,) = found.encode([TEXT])
    assert b"".join(vocabulary[i].bytes for i in ids) == TEXT.encode()
    assert max(len(vocabulary[i].bytes) for i in ids) > 1  # merges were learnt
    assert [entry.token_id for entry in vocabulary] == list(range(300)) and found.size == 300


def test_ids_are_those_that_transformers_gives(tmp_path):
    found = tokenizers.load(save(byte_level(300), tmp_path))
    other = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    texts = [TEXT, "", "a <|endoftext|> b", "20 20"]
    assert found.encode(texts) == [other.encode(text, add_special_tokens=False) for text in texts]


def test_every_byte_has_its_entry_and_its_text(tmp_path):
    vocabulary = tokenizers.load(save(byte_level(257), tmp_path)).vocabulary()
    assert sorted(entry.bytes for entry in vocabulary[1:]) == [bytes([byte]) for byte in range(256)]
    assert vocabulary[65].token == "a" and vocabulary[221].token == " " and vocabulary[199].token == "\n"
    assert {entry.token for entry in vocabulary if entry.bytes == b"\xe2"} == {"⟨E2⟩"}
    assert vocabulary[0] == tokenizers.Entry(0, "<|endoftext|>", b"<|endoftext|>", True)
    assert not any(entry.is_special for entry in vocabulary[1:])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xe2\x80", "⟨E2 80⟩"),
        (b"\xe2\x80\x94", "—"),
        (b" a\xe2\x80", " a⟨E2 80⟩"),
        (b"\x9c\xc3\xa9!\xff", "⟨9C⟩é!⟨FF⟩"),
        (b"\xed\xa0\x80", "⟨ED A0 80⟩"),  # a surrogate is no valid UTF-8
        (b"", ""),
    ],
)
def test_bytes_that_are_not_utf8_are_shown_and_the_rest_stays_text(raw, text):
    assert tokenizers.readable(raw) == text


def test_pieces_of_sentencepiece_become_text(tmp_path):
    found = tokenizers.load(save(sentencepiece(), tmp_path, eos_token="</s>"))
    vocabulary = found.vocabulary()
    assert [(entry.token, entry.bytes) for entry in vocabulary[2:5]] == [(" ", b" "), (" a", b" a"), ("b", b"b")]
    assert (vocabulary[5 + 0xE2].token, vocabulary[5 + 0xE2].bytes) == ("⟨E2⟩", b"\xe2")
    assert [entry.is_special for entry in vocabulary[:3]] == [True, True, False]
    assert found.encode(["b é"]) == [[4, 2, 5 + 0xC3, 5 + 0xA9]]


def test_hexadecimal_pieces_are_text_where_the_model_has_no_byte_fallback(tmp_path):
    vocabulary = tokenizers.load(save(sentencepiece(byte_fallback=False), tmp_path, eos_token="</s>")).vocabulary()
    assert vocabulary[5].bytes == b"<0x00>"


def test_an_added_token_stands_for_its_own_text_and_only_a_special_one_is_special(tmp_path):
    backend = byte_level(257)
    backend.add_tokens(["Ġé"])  # as an entry of the byte alphabet it would be other bytes
    backend.add_special_tokens([AddedToken("<pad>")])
    vocabulary = tokenizers.load(save(backend, tmp_path)).vocabulary()
    assert (vocabulary[257].bytes, vocabulary[257].is_special) == ("Ġé".encode(), False)
    assert (vocabulary[258].bytes, vocabulary[258].is_special) == (b"<pad>", True)


def test_nothing_is_added_cut_or_filled(tmp_path):
    backend = byte_level(257)
    backend.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    backend.enable_truncation(2)
    backend.enable_padding(length=8)
    assert tokenizers.load(save(backend, tmp_path)).encode(["abc", "a"]) == [[65, 66, 67], [65]]


def test_the_text_of_a_special_token_in_a_document_becomes_that_token(tmp_path):
    assert tokenizers.load(save(byte_level(257), tmp_path)).encode(["a<|endoftext|>b"]) == [[65, 0, 66]]


def test_the_hash_is_of_ids_and_strings_in_order(tmp_path):
    found = tokenizers.load(save(byte_level(258), tmp_path))
    strings = {i: s for s, i in json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"].items()}
    pairs = "[" + ",".join(f"[{i},{json.dumps(strings[i])}]" for i in range(258)) + "]"
    assert found.sha256 == hashlib.sha256(pairs.encode()).hexdigest()
    (tmp_path / "other").mkdir()
    assert tokenizers.load(save(byte_level(257), tmp_path / "other")).sha256 != found.sha256


def test_the_size_counts_to_the_highest_id(tmp_path):
    backend = Tokenizer(models.BPE(vocab={"a": 0, "<|endoftext|>": 5}, merges=[]))
    found = tokenizers.load(save(backend, tmp_path))
    assert found.size == 6 and [entry.token_id for entry in found.vocabulary()] == [0, 5]


@pytest.mark.parametrize("eos", ["<|im_end|>", {"content": "<|im_end|>", "lstrip": False, "__type": "AddedToken"}])
def test_end_of_text_is_the_configured_token(tmp_path, eos):
    backend = byte_level(257)
    backend.add_tokens(["<|im_end|>"])
    found = tokenizers.load(save(backend, tmp_path, eos_token=eos))
    assert found.end_of_text == 257
    assert found.vocabulary()[257].is_special


def test_end_of_text_is_found_in_the_vocabulary_where_nothing_is_configured(tmp_path):
    assert tokenizers.load(save(byte_level(257), tmp_path, eos_token=None)).end_of_text == 0


def test_a_file_means_the_same_as_its_folder(tmp_path):
    folder = save(sentencepiece(), tmp_path, eos_token="</s>")
    file = tokenizers.load(str(tmp_path / "tokenizer.json"))
    assert (file.end_of_text, file.sha256) == (1, tokenizers.load(folder).sha256)


def test_code_beside_the_tokenizer_is_never_run(tmp_path):
    ran = tmp_path / "ran"
    (tmp_path / "code.py").write_text(f"open({str(ran)!r}, 'w')")
    found = tokenizers.load(save(byte_level(257), tmp_path, auto_map={"AutoTokenizer": ["code.Mine", None]}, tokenizer_class="Mine"))
    assert found.encode(["a"]) == [[65]] and not ran.exists()


def test_a_tokenizer_without_end_of_text_is_refused(tmp_path):
    assert sentence(save(sentencepiece(), tmp_path)) == (
        f"Tokenizer {tmp_path} has no token <|endoftext|> to end a document; name one of its tokens as eos_token in tokenizer_config.json beside it."
    )
    assert "has no token <end> to end a document" in sentence(save(sentencepiece(), tmp_path, eos_token="<end>"))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    assert sentence(tmp_path) == f"Tokenizer {tmp_path} holds no tokenizer.json; save one with the tokenizer's save_pretrained."


def test_files_that_are_no_tokenizer_are_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"version": "1.0"}')
    assert sentence(path).startswith(f"{path} is not a tokenizer.json that can be read: ")
    Tokenizer(models.BPE()).save(str(path))
    assert sentence(path) == f"{path} holds a tokenizer without a vocabulary."


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_configuration_that_is_no_json_object_is_refused(tmp_path, content):
    save(byte_level(257), tmp_path)
    config = tmp_path / "tokenizer_config.json"
    config.write_text(content)
    assert sentence(tmp_path).startswith(f"{config} is not a JSON object that can be read: ")


def test_a_name_that_is_neither_here_nor_a_hub_name_is_refused(tmp_path):
    assert sentence(tmp_path / "none") == (
        f"Tokenizer {tmp_path}/none is no file or folder here and cannot be fetched: that is no hub name either (owner/name). "
        "Give a folder holding tokenizer.json."
    )
