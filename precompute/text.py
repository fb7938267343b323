"""Token ids to run: documents packed into sequences of one length, or an array that the user made.

Both are files that are mapped, never held in memory, however many sequences they are.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from db.errors import UserError
from precompute.documents import documents_in_dataset, documents_in_files
from precompute.tokenizer import Tokenizer

__all__ = ["Tokens", "check_range", "documents_in_dataset", "documents_in_files", "from_array", "integers", "pack", "saved"]

BATCH = 1 << 22  # bytes of text tokenised at once
BLOCK = 1 << 20  # tokens looked at at once
INT32 = np.dtype("<i4")


@dataclass(frozen=True)
class Tokens:
    """Sequences of token ids: `ids` int32 [sequences, length], and the document of each, or None.

    `documents` counts from 0 over the whole stream. `sha256` is of the ids as little-endian int32,
    `revision` the hub's commit of the data set.
    """

    ids: np.ndarray
    documents: np.ndarray | None
    sha256: str
    source: str
    revision: str | None


def pack(
    documents: Iterator[str],
    tokenizer: Tokenizer,
    length: int,
    sequences: int,
    folder: Path,
    source: str,
    revision: str | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> Tokens:
    """Documents in their order, each followed by end of text, cut into at most `sequences` runs of `length`.

    No other token is added, a document may span sequences, what does not fill the last one is dropped,
    and no document is read that is not needed. Writes ids.npy and documents.npy into `folder`, calls
    `advance` with the number of sequences finished. Fewer sequences than asked for is not an error;
    UserError where not one is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = 0
    with open(folder / "ids.npy", "wb") as ids_file, open(folder / "documents.npy", "wb") as documents_file:
        for file in (ids_file, documents_file):
            _write_header(file, sequences, length)
        for ids, numbers in _stream(documents, tokenizer, sequences * length):
            ids_file.write(ids.data)
            documents_file.write(numbers.data)
            advance((found + len(ids)) // length - found // length)
            found += len(ids)
        for file in (ids_file, documents_file):
            _cut(file, found // length, length)
    if found < length:
        raise UserError(f"{source} gives {found:,} tokens, less than one sequence of {length:,}; give more text or a smaller --length.")
    tokens = _open(folder, source, revision)
    _mark(folder, tokens)
    return tokens


def saved(folder: Path) -> Tokens | None:
    """What `pack` wrote into `folder`, if it came to its end there and the ids are as it left them."""
    try:
        mark = json.loads((folder / "packed.json").read_text("utf-8"))
        tokens = _open(folder, mark["source"], mark["revision"])
    except (OSError, ValueError, KeyError):
        return None
    return tokens if tokens.sha256 == mark["sha256"] else None


def from_array(path: Path, length: int | None = None, sequences: int | None = None) -> Tokens:
    """The first `sequences` rows (None: all) of an integer .npy [sequences, length].

    Raises UserError where it is something else, where its length is not `length`, and for a row of fewer
    than two tokens, which leaves nothing to predict.
    """
    found = integers(path, "token array")
    if length is not None and found.shape[1] != length:
        raise UserError(f"The token array {path} has sequences of {found.shape[1]:,} tokens, and --length asks for {length:,}; leave --length out.")
    if not len(found) or found.shape[1] < 2:
        raise UserError(f"The token array {path} has shape {found.shape}; at least one sequence of two tokens is needed.")
    found = found[:sequences]
    _refuse_outside(found, 2**31, f"The token array {path}", "no 32-bit token id")
    ids = found if found.dtype == INT32 else _converted(found)
    return Tokens(ids, None, _sha256(ids), str(path), None)


def integers(path: Path, what: str) -> np.ndarray:
    """A .npy array of integers [sequences, length], mapped; nothing in it is unpickled.

    Raises UserError, calling the array a `what`, where it is something else.
    """
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise UserError(f"The {what} {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError) as error:
        raise UserError(f"The {what} {path} is no plain .npy file ({str(error).rstrip('.')}); write it with numpy.save.") from error
    if not isinstance(found, np.memmap):
        raise UserError(f"The {what} {path} is an archive of several arrays; write the one with numpy.save.")
    if found.dtype.kind not in "iu":
        raise UserError(f"The {what} {path} holds {found.dtype}, expected integers.")
    if found.ndim != 2:
        raise UserError(f"The {what} {path} has shape {found.shape}, expected [sequences, length].")
    return found


def check_range(tokens: Tokens, vocabulary_size: int) -> None:
    """Raises UserError naming the first token id that a vocabulary of this size does not have."""
    _refuse_outside(tokens.ids, vocabulary_size, tokens.source, f"not in the vocabulary, whose ids are 0 to {vocabulary_size - 1}")


def _stream(documents: Iterator[str], tokenizer: Tokenizer, wanted: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Token ids and their documents' numbers, int32 [n] each, at most `wanted` in all."""
    number = 0
    while wanted > 0 and (batch := _batch(documents, min(BATCH, wanted))):
        runs = [[*ids, tokenizer.end_of_text] for ids in tokenizer.encode(batch)]
        ids = np.fromiter(chain.from_iterable(runs), INT32)[:wanted]
        numbers = np.repeat(np.arange(number, number + len(runs), dtype=INT32), [len(run) for run in runs])[:wanted]
        yield ids, numbers
        number += len(runs)
        wanted -= len(ids)


def _batch(documents: Iterator[str], room: int) -> list[str]:
    """The next documents, until they could make `room` tokens: so the last one is always needed."""
    batch = []
    while room > 0 and (document := next(documents, None)) is not None:
        batch.append(document)
        # A byte makes at most one token; one more for end of text and one for a space put in front.
        room -= len(document.encode()) + 2
    return batch


def _write_header(file: BinaryIO, rows: int, length: int) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": INT32.str, "fortran_order": False, "shape": (rows, length)})


def _cut(file: BinaryIO, rows: int, length: int) -> None:
    """Keep `rows` full rows. numpy pads its header so that another number of rows fits in the same place."""
    file.seek(0)
    _write_header(file, rows, length)
    file.truncate(file.tell() + rows * length * INT32.itemsize)


def _open(folder: Path, source: str, revision: str | None) -> Tokens:
    ids, documents = (np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in ("ids.npy", "documents.npy"))
    return Tokens(ids, documents, _sha256(ids), source, revision)


def _mark(folder: Path, tokens: Tokens) -> None:
    """Says that the packing came to its end: whole or absent, and written last."""
    aside = folder / "packed.json.part"
    aside.write_text(json.dumps({"source": tokens.source, "revision": tokens.revision, "sha256": tokens.sha256}), "utf-8")
    os.replace(aside, folder / "packed.json")


def _converted(ids: np.ndarray) -> np.ndarray:
    """The same ids as int32, mapped from a file that vanishes with the array."""
    with tempfile.TemporaryFile() as file:
        for _, block in _blocks(ids):
            file.write(np.ascontiguousarray(block, INT32).data)
        file.flush()
        return np.memmap(file, INT32, "r", shape=ids.shape)


def _sha256(ids: np.ndarray) -> str:
    digest = hashlib.sha256()
    for _, block in _blocks(ids):
        digest.update(np.ascontiguousarray(block, INT32).data)
    return digest.hexdigest()


def _refuse_outside(ids: np.ndarray, size: int, source: str, why: str) -> None:
    for start, block in _blocks(ids):
        outside = (block < 0) | (block >= size)
        if outside.any():
            row, position = np.argwhere(outside)[0]
            raise UserError(f"{source}: token id {block[row, position]} at sequence {start + row}, position {position} is {why}.")


def _blocks(ids: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The number of the first row, and some rows."""
    rows = max(1, BLOCK // ids.shape[1])
    for start in range(0, len(ids), rows):
        yield start, ids[start : start + rows]
