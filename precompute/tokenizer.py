"""A tokenizer from its tokenizer.json: ids of texts, and what every id stands for.

The file is run by the `tokenizers` library as it stands; no Python code that may lie beside it is
ever loaded. The text of a special token inside a document ("<|endoftext|>" in a page about language
models) becomes that special token, as with the library's defaults, so that ids agree with those that
other programs get for the same document.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from db.errors import UserError
from precompute import hub

END_OF_TEXT = "<|endoftext|>"
SPACE = "▁"  # sentencepiece's mark for a space

# Byte-level BPE writes each byte as one visible character: printable Latin-1 as itself, the others
# from U+0100 on (the alphabet of GPT-2's encoder.py).
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = sorted(set(range(256)) - set(_PRINTABLE))
ALPHABET = {chr(byte): byte for byte in _PRINTABLE} | {chr(0x100 + index): byte for index, byte in enumerate(_OTHERS)}


@dataclass(frozen=True)
class Entry:
    """A token id: its exact bytes, and its text as a reader should see it."""

    token_id: int
    token: str
    bytes: bytes
    is_special: bool


@dataclass(frozen=True)
class Tokenizer:
    """`name` as the user gave it, the library's tokenizer, and the id that ends a document."""

    name: str
    backend: tokenizers.Tokenizer
    end_of_text: int

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, nothing added before or after, all processors used."""
        return [encoding.ids for encoding in self.backend.encode_batch_fast(texts, add_special_tokens=False)]

    @cached_property
    def _tokens(self) -> dict[int, str]:
        vocabulary = self.backend.get_vocab(with_added_tokens=True)
        return {token_id: token for token, token_id in sorted(vocabulary.items(), key=lambda item: (item[1], item[0]))}

    @cached_property
    def size(self) -> int:
        """The number of ids, the highest id plus one."""
        return max(self._tokens) + 1

    @cached_property
    def sha256(self) -> str:
        """Hex SHA-256 of the JSON list of [id, token string], ids ascending, without white space, ASCII only."""
        return hashlib.sha256(json.dumps(list(self._tokens.items()), separators=(",", ":")).encode()).hexdigest()

    def vocabulary(self) -> list[Entry]:
        """Every token id, ascending."""
        added = self.backend.get_added_tokens_decoder()
        to_bytes = _decoder(json.loads(self.backend.to_str()))
        entries = []
        for token_id, token in self._tokens.items():
            raw = token.encode() if token_id in added else to_bytes(token)
            is_special = token_id == self.end_of_text or (token_id in added and added[token_id].special)
            entries.append(Entry(token_id, readable(raw), raw, is_special))
        return entries


def load(name: str) -> Tokenizer:
    """The tokenizer of a tokenizer.json file, a folder that holds one, or a hub model's name.

    End of text is the eos_token of the tokenizer_config.json beside it, else <|endoftext|>.
    Raises UserError where there is none, where it cannot be read, and where it has no end of text.
    """
    path = Path(name)
    if not path.is_file():
        folder = path if path.is_dir() else hub.tokenizer_folder(name)
        path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"Tokenizer {name} holds no tokenizer.json; save one with the tokenizer's save_pretrained.")
    backend = _backend(path)
    return Tokenizer(name, backend, _end_of_text(backend, path.with_name("tokenizer_config.json"), name))


def _backend(path: Path) -> tokenizers.Tokenizer:
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise UserError(f"{path} is not a tokenizer.json that can be read: {error}.") from error
    if not backend.get_vocab_size(with_added_tokens=True):
        raise UserError(f"{path} holds a tokenizer without a vocabulary.")
    backend.no_truncation()  # both may be stored in the file, and would cut or fill documents
    backend.no_padding()
    return backend


def _end_of_text(backend: tokenizers.Tokenizer, config: Path, name: str) -> int:
    token = _configured_end(config) or END_OF_TEXT
    token_id = backend.token_to_id(token)
    if token_id is None:
        raise UserError(f"Tokenizer {name} has no token {token} to end a document; name one of its tokens as eos_token in {config.name} beside it.")
    return int(token_id)


def _configured_end(config: Path) -> str | None:
    if not config.is_file():
        return None
    try:
        token = json.loads(config.read_text(encoding="utf-8")).get("eos_token")
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{config} is not a JSON object that can be read: {error}.") from error
    return token["content"] if isinstance(token, dict) else token  # a token with its options is stored as an object


def _decoder(settings: dict[str, Any]) -> Any:
    """How a tokenizer's strings become bytes, by the settings of its tokenizer.json."""
    parts = [*_parts(settings["decoder"]), *_parts(settings["pre_tokenizer"])]
    if any(part["type"] == "ByteLevel" for part in parts):
        return _from_alphabet
    marked = SPACE in json.dumps(parts, ensure_ascii=False)
    fallback = settings["model"].get("byte_fallback", False)
    return lambda token: _from_pieces(token, marked, fallback)


def _parts(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    if component is None:
        return []
    inner = component.get("decoders") or component.get("pretokenizers")
    return [component] if inner is None else [part for item in inner for part in _parts(item)]


def _from_alphabet(token: str) -> bytes:
    if all(character in ALPHABET for character in token):
        return bytes(ALPHABET[character] for character in token)
    return token.encode()


def _from_pieces(token: str, marked: bool, fallback: bool) -> bytes:
    byte = re.fullmatch(r"<0x([0-9A-F]{2})>", token) if fallback else None
    if byte:
        return bytes.fromhex(byte[1])
    return (token.replace(SPACE, " ") if marked else token).encode()


def readable(raw: bytes) -> str:
    """The text of some bytes; a run that is not UTF-8 is shown in hexadecimal, like ⟨E2 80⟩."""
    # surrogateescape turns byte 0xNN that is no part of valid UTF-8 into U+DCNN, which valid UTF-8 never gives.
    text = raw.decode("utf-8", errors="surrogateescape")
    return re.sub("[\udc80-\udcff]+", lambda run: "⟨" + " ".join(f"{ord(character) - 0xDC00:02X}" for character in run[0]) + "⟩", text)
