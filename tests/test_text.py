"""Packing and token arrays: values worked by hand, and the sentence for everything that cannot be used."""

import hashlib
import itertools
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
from tests.test_tokenizer import byte_level

from db.errors import UserError
from precompute import text
from precompute.tokenizer import Tokenizer

A, B, C, D, E, F, G, END = 65, 66, 67, 68, 69, 70, 71, 0


@pytest.fixture(scope="module")
def tokenizer():
    """Every byte is a token: a is 65, b 66, …; 0 ends a document."""
    return Tokenizer("bytes", byte_level(257), END)


def sentence(act, *arguments, **named):
    with pytest.raises(UserError) as caught:
        act(*arguments, **named)
    return str(caught.value)


def saved_array(path, values, dtype=np.int32):
    np.save(path, np.asarray(values, dtype))
    return path


def test_documents_are_packed_as_worked_by_hand(tmp_path, tokenizer):
    tokens = text.pack(iter(["ab", "c", "defg"]), tokenizer, 3, 10, tmp_path, "here", "abc123")
    assert tokens.ids.tolist() == [[A, B, END], [C, END, D], [E, F, G]]
    assert tokens.documents.tolist() == [[0, 0, 0], [1, 1, 2], [2, 2, 2]]
    assert (tokens.source, tokens.revision) == ("here", "abc123")
    assert tokens.sha256 == hashlib.sha256(struct.pack("<9i", A, B, END, C, END, D, E, F, G)).hexdigest()
    for array, name in [(tokens.ids, "ids.npy"), (tokens.documents, "documents.npy")]:
        assert isinstance(array, np.memmap) and array.dtype == np.int32
        np.testing.assert_array_equal(np.load(tmp_path / name), array)


def test_a_document_may_fill_several_sequences_and_the_count_is_kept(tmp_path, tokenizer):
    tokens = text.pack(iter(["abcdefg", "ab"]), tokenizer, 2, 3, tmp_path, "here")
    assert tokens.ids.tolist() == [[A, B], [C, D], [E, F]]
    assert tokens.documents.tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(("sequences", "read"), [(1, 1), (2, 2), (5, 5), (300, 300)])
def test_no_document_is_read_that_is_not_needed(tmp_path, tokenizer, sequences, read):
    taken = itertools.count()
    documents = ("ab" for _ in zip(taken, range(1000)))
    assert text.pack(documents, tokenizer, 3, sequences, tmp_path, "here").ids.shape == (sequences, 3)
    assert next(taken) == read


def test_batches_do_not_change_the_result(tmp_path, tokenizer, monkeypatch):
    documents = ["abc" * (n % 7 + 1) + "é\n" for n in range(200)]
    whole = text.pack(iter(documents), tokenizer, 16, 1000, tmp_path / "whole", "here")
    monkeypatch.setattr(text, "BATCH", 50)
    steps = []
    pieces = text.pack(iter(documents), tokenizer, 16, 1000, tmp_path / "pieces", "here", advance=steps.append)
    assert pieces.sha256 == whole.sha256
    np.testing.assert_array_equal(pieces.documents, whole.documents)
    assert sum(steps) == len(pieces.ids) and len(steps) > 10


def test_memory_does_not_grow_with_the_number_of_sequences(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(text, "BATCH", 4096)
    monkeypatch.setattr(text, "BLOCK", 4096)
    tracemalloc.start()
    tokens = text.pack(iter(["abcdefg"] * 50_000), tokenizer, 64, 6000, tmp_path, "here")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tokens.ids.shape == (6000, 64)
    assert peak < tokens.ids.nbytes / 2


def test_too_little_text_is_refused_with_both_numbers(tmp_path, tokenizer):
    assert sentence(text.pack, iter(["ab", "c"]), tokenizer, 2048, 10, tmp_path, "notes.txt") == (
        "notes.txt gives 5 tokens, less than one sequence of 2,048; give more text or a smaller --length."
    )
    assert text.saved(tmp_path) is None


def test_packed_tokens_are_found_again_and_only_whole_ones(tmp_path, tokenizer):
    assert text.saved(tmp_path) is None
    tokens = text.pack(iter(["ab", "c", "defg"]), tokenizer, 3, 10, tmp_path, "here", "abc123")
    again = text.saved(tmp_path)
    assert again.ids.tolist() == tokens.ids.tolist() and again.documents.tolist() == tokens.documents.tolist()
    assert (again.sha256, again.source, again.revision) == (tokens.sha256, "here", "abc123")
    saved_array(tmp_path / "ids.npy", [[A, B, END], [C, END, D], [E, F, F]])
    assert text.saved(tmp_path) is None


@pytest.mark.parametrize("dtype", ["<i4", ">i4", "<i8", "<u2", "u1"])
def test_an_array_is_its_ids_whatever_its_integers(tmp_path, tokenizer, dtype):
    packed = text.pack(iter(["ab", "c", "defg"]), tokenizer, 3, 10, tmp_path, "here")
    tokens = text.from_array(saved_array(tmp_path / "own.npy", packed.ids, dtype), length=3)
    assert tokens.ids.tolist() == packed.ids.tolist()
    assert isinstance(tokens.ids, np.memmap) and tokens.ids.dtype == np.dtype("<i4")
    assert (tokens.sha256, tokens.documents, tokens.source, tokens.revision) == (packed.sha256, None, str(tmp_path / "own.npy"), None)


def test_an_array_stored_by_columns_has_the_same_hash(tmp_path):
    rows = np.arange(12, dtype=np.int32).reshape(3, 4)
    tokens = text.from_array(saved_array(tmp_path / "own.npy", np.asfortranarray(rows)))
    assert tokens.sha256 == hashlib.sha256(struct.pack("<12i", *range(12))).hexdigest()


@pytest.mark.parametrize(("asked", "rows"), [(None, 3), (2, 2), (9, 3)])
def test_sequences_limits_the_rows_of_an_array(tmp_path, asked, rows):
    path = saved_array(tmp_path / "own.npy", [[1, 2], [3, 4], [5, 6]])
    assert text.from_array(path, sequences=asked).ids.tolist() == [[1, 2], [3, 4], [5, 6]][:rows]


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (lambda path: np.save(path, np.zeros((2, 3))), "holds float64, expected integers."),
        (lambda path: np.save(path, np.zeros((2, 3), bool)), "holds bool, expected integers."),
        (lambda path: np.save(path, np.zeros(6, int)), "has shape (6,), expected [sequences, length]."),
        (lambda path: np.save(path, np.zeros((1, 2, 3), int)), "has shape (1, 2, 3), expected [sequences, length]."),
        (lambda path: np.save(path, np.zeros((2, 1), int)), "has shape (2, 1); at least one sequence of two tokens is needed."),
        (lambda path: path.write_bytes(b""), "is no plain .npy file (No data left in file); write it with numpy.save."),
        (lambda path: path.mkdir(), "cannot be read: Is a directory."),
        (lambda path: None, "cannot be read: No such file or directory."),
    ],
)
def test_an_array_that_is_something_else_is_refused(tmp_path, write, complaint):
    path = tmp_path / "own.npy"
    write(path)
    assert sentence(text.from_array, path) == f"The token array {path} {complaint}"


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_nothing_is_unpickled(tmp_path):
    path, ran = tmp_path / "own.npy", tmp_path / "ran"
    path.write_bytes(pickle.dumps(Trap(ran)))
    assert sentence(text.from_array, path).startswith(f"The token array {path} is no plain .npy file (")
    np.save(path, np.array([[Trap(ran)]], dtype=object), allow_pickle=True)
    assert sentence(text.from_array, path).startswith(f"The token array {path} is no plain .npy file (")
    assert not ran.exists()


def test_a_truncated_array_and_an_archive_are_refused(tmp_path):
    path = saved_array(tmp_path / "own.npy", np.zeros((4, 100)))
    path.write_bytes(path.read_bytes()[:-8])
    assert sentence(text.from_array, path).startswith(f"The token array {path} is no plain .npy file (")
    np.savez(tmp_path / "own.npz", ids=np.zeros((2, 3), int))
    assert sentence(text.from_array, tmp_path / "own.npz") == (
        f"The token array {tmp_path / 'own.npz'} is an archive of several arrays; write the one with numpy.save."
    )


def test_an_array_of_another_length_is_refused(tmp_path):
    path = saved_array(tmp_path / "own.npy", np.zeros((2, 3)))
    assert sentence(text.from_array, path, 2048) == f"The token array {path} has sequences of 3 tokens, and --length asks for 2,048; leave --length out."


def test_an_array_is_called_what_it_is_for(tmp_path):
    assert sentence(text.integers, saved_array(tmp_path / "own.npy", [1.5], float), "assignment").startswith("The assignment ")


@pytest.mark.parametrize("wrong", [-1, 2**31])
def test_ids_that_no_vocabulary_has_are_refused_before_they_are_cut_to_32_bits(tmp_path, wrong):
    path = saved_array(tmp_path / "own.npy", [[1, 2, 3], [4, 5, wrong]], np.int64)
    assert sentence(text.from_array, path) == f"The token array {path}: token id {wrong} at sequence 1, position 2 is no 32-bit token id."


def test_the_first_id_outside_the_vocabulary_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "BLOCK", 3)  # a row at once
    tokens = text.from_array(saved_array(tmp_path / "own.npy", [[1, 2, 99], [4, 257, 5], [300, 6, 7]]))
    text.check_range(tokens, 301)
    assert sentence(text.check_range, tokens, 257) == (
        f"{tmp_path / 'own.npy'}: token id 257 at sequence 1, position 1 is not in the vocabulary, whose ids are 0 to 256."
    )
