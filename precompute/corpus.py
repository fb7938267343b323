"""Which documents train the tiny suite, which are held out, and the tokenizer made from the former.

A held-out document shares no title and no run of sixteen words with any other document, so nothing
of it was seen in training.
"""

import lzma
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from db.errors import UserError
from precompute import text
from precompute.documents import SEPARATOR
from precompute.tokenizer import END_OF_TEXT, load

RUN = 16  # words; shorter runs are stock phrases ("is a town in the district of")


@dataclass(frozen=True)
class Split:
    """Documents of a corpus, each on one side only."""

    training: list[str]
    held_out: list[str]


def write(path: Path, documents: list[str]) -> None:
    """Write documents as --text reads them, compressed."""
    with lzma.open(path, "wt", encoding="utf-8", preset=9) as file:
        file.writelines(f"{document}\n{SEPARATOR}\n" for document in documents)


def split(documents: list[str], held_out_characters: int, seed: int) -> Split:
    """Hold out randomly chosen documents of at least `held_out_characters` together, the rest is for training.

    Raises UserError where the corpus is not at least ten times as long: too little would be left to train on.
    """
    total = sum(map(len, documents))
    if total < 10 * held_out_characters:
        raise UserError(f"The corpus holds {total:,} characters; the suite needs at least {10 * held_out_characters:,}.")
    alone = _without_shared_marks(documents)
    # No single document may be an eighth of the held-out text: it would decide every figure.
    allowed = [alone[i] and 8 * len(document) < held_out_characters for i, document in enumerate(documents)]
    order = np.random.default_rng(seed).permutation(len(documents))
    held_out: set[int] = set()
    missing = held_out_characters
    for index in order:
        if missing > 0 and allowed[index]:
            held_out.add(int(index))
            missing -= len(documents[index])
    if missing > 0:
        raise UserError(f"The corpus leaves {missing:,} characters too few to hold out: too much of it is repeated or stands in long documents.")
    return Split(
        training=[document for index, document in enumerate(documents) if index not in held_out],
        held_out=[documents[index] for index in order if index in held_out],
    )


def _without_shared_marks(documents: list[str]) -> list[bool]:
    owner: dict[int, int] = {}
    alone = [True] * len(documents)
    for index, document in enumerate(documents):
        for mark in _marks(document):
            other = owner.setdefault(mark, index)
            if other != index:
                alone[index] = alone[other] = False
    return alone


def _marks(document: str) -> Iterator[int]:
    title, _, body = document.partition("\n")
    yield hash((" ".join(title.split()).casefold(),))
    words = re.findall(r"\w+", body.casefold())
    for start in range(max(1, len(words) - RUN + 1)):
        yield hash(tuple(words[start : start + RUN]))


def train_tokenizer(documents: list[str], size: int) -> Tokenizer:
    """A byte-level BPE of `size` entries, <|endoftext|> being id 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def rows(documents: list[str], tokenizer: Path, length: int) -> np.ndarray:
    """Token ids of the documents as `run` packs them, with the tokenizer of that file: int32 [sequences, length]."""
    ceiling = sum(len(document.encode()) + 1 for document in documents) // length + 1  # a byte makes at most one token
    with tempfile.TemporaryDirectory() as folder:
        packed = text.pack(iter(documents), load(str(tokenizer)), length, ceiling, Path(folder), source="The corpus")
        return np.array(packed.ids)
