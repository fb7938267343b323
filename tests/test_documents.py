"""Documents from text files and from what `datasets` reads on this machine, and what is refused."""

import gzip
import json
import lzma
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict, disable_progress_bars

from db.errors import UserError
from precompute.documents import documents_in_dataset, documents_in_files

ROWS = [{"text": "one", "n": 1}, {"text": "two\nlines", "n": 2}]
TEXTS = ["one", "two\nlines"]
disable_progress_bars()


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def sentence(act, *arguments):
    with pytest.raises(UserError) as caught:
        act(*arguments)
    return str(caught.value)


def reading(*paths):
    return lambda: list(documents_in_files(paths))


@pytest.mark.parametrize(
    ("content", "documents"),
    [
        ("one\n<|endoftext|>\ntwo\nlines\n<|endoftext|>\n", TEXTS),
        ("one\n<|endoftext|>\ntwo\nlines", TEXTS),  # the last needs no separator
        ("one\r\n<|endoftext|>\r\ntwo\r\nlines\r\n", TEXTS),
        ("<|endoftext|>\none\n<|endoftext|>\n \n\t\n<|endoftext|>\n<|endoftext|>\ntwo\nlines\n", TEXTS),
        ("\ufeffone\n<|endoftext|>\ntwo\nlines\n", TEXTS),
        ("\n one \n\n<|endoftext|>\n", ["\n one \n"]),  # only the line end before a separator is not text
        ("a <|endoftext|> b\n<|endoftext|> \nc", ["a <|endoftext|> b\n<|endoftext|> \nc"]),
        ("a\rb\u2028c\x0cd", ["a\rb\u2028c\x0cd"]),  # only a newline ends a line
    ],
)
def test_documents_lie_between_lines_of_end_of_text(tmp_path, content, documents):
    assert reading(written(tmp_path / "a.txt", content))() == documents


def test_a_document_ends_with_its_file_and_files_keep_their_order(tmp_path):
    paths = [written(tmp_path / name, name) for name in ("b.txt", "a.txt")]
    assert reading(*paths)() == ["b.txt", "a.txt"]


@pytest.mark.parametrize(("name", "pack"), [("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress)])
def test_packed_files_are_unpacked(tmp_path, name, pack):
    assert reading(written(tmp_path / name, pack(b"one\n<|endoftext|>\ntwo\nlines\n")))() == TEXTS


def test_files_are_read_no_further_than_asked(tmp_path):
    path = written(tmp_path / "a.txt", b"one\n<|endoftext|>\n\xff")
    assert next(documents_in_files([path])) == "one"


@pytest.mark.parametrize(
    ("content", "byte", "offset"),
    [(b"a\n\xc3\xa9\nb\xe9c", "E9", 6), (b"\xff\xfea\x00", "FF", 0), (b"abc\n\xe2\x80", "E2", 4), (b"\xef\xbb\xbfab\xff", "FF", 5)],
)
def test_a_file_that_is_not_utf8_is_refused_with_the_place(tmp_path, content, byte, offset):
    path = written(tmp_path / "a.txt", content)
    assert sentence(reading(path)) == f"Text {path} is not UTF-8: byte 0x{byte} at offset {offset}; convert it, for instance with iconv."


@pytest.mark.parametrize("content", ["", "\n \n", "<|endoftext|>\n\n<|endoftext|>"])
def test_a_file_without_a_document_is_refused(tmp_path, content):
    path = written(tmp_path / "a.txt", content)
    assert sentence(reading(path)) == f"Text {path} holds no document."


def test_paths_that_cannot_be_opened_are_refused_before_anything_is_read(tmp_path):
    good, missing = written(tmp_path / "a.txt", "one"), tmp_path / "none.txt"
    assert sentence(documents_in_files, [good, missing]) == f"Text {missing} cannot be read: No such file or directory."
    assert sentence(documents_in_files, [good, tmp_path]) == f"Text {tmp_path} is a folder; give its files one by one, or the folder as --dataset."


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.xz", lzma.compress)])
def test_damaged_packed_files_are_refused(tmp_path, name, pack):
    path = written(tmp_path / name, pack(bytes(range(97, 123)) * 9)[:-12])
    assert sentence(reading(path)).startswith(f"Text {path} cannot be read: ")
    assert sentence(reading(written(path, b"plain text"))).startswith(f"Text {path} cannot be read: ")


FILES = {
    "a.jsonl": lambda path: path.write_text(lines(ROWS)),
    "a.json": lambda path: path.write_text(json.dumps(ROWS)),
    "a[1]*.jsonl": lambda path: path.write_text(lines(ROWS)),
    "a.jsonl.gz": lambda path: path.write_bytes(gzip.compress(lines(ROWS).encode())),
    "a.csv": lambda path: path.write_text('text,n\none,1\n"two\nlines",2\n'),
    "a.parquet": lambda path: Dataset.from_list(ROWS).to_parquet(path),
    "saved": lambda path: Dataset.from_list(ROWS).save_to_disk(path),
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_local_data_set_gives_its_text(tmp_path, name):
    FILES[name](tmp_path / name)
    documents, source, revision = documents_in_dataset(str(tmp_path / name))
    assert list(documents) == TEXTS
    assert (source, revision) == (f"{tmp_path / name}, split train", None)


def test_a_text_file_has_a_document_per_line_as_datasets_reads_it(tmp_path):
    assert list(documents_in_dataset(str(written(tmp_path / "a.txt", "one\n\ntwo\n")))[0]) == ["one", "two"]


def test_rows_that_are_null_or_blank_are_dropped(tmp_path):
    rows = [{"text": None}, {"text": "one"}, {"text": ""}, {"text": " \n"}, {"text": "None"}]
    assert list(documents_in_dataset(str(written(tmp_path / "a.jsonl", lines(rows))))[0]) == ["one", "None"]


def test_a_folder_named_like_a_reader_is_still_a_folder(tmp_path, monkeypatch):
    (tmp_path / "json").mkdir()
    written(tmp_path / "json" / "train.jsonl", lines(ROWS))
    monkeypatch.chdir(tmp_path)
    documents, source, _ = documents_in_dataset("json")
    assert list(documents) == TEXTS and source == "json, split train"


@pytest.mark.parametrize(
    ("splits", "asked", "chosen"),
    [
        (["train"], None, "train"),
        (["other"], None, "other"),
        (["train", "validation", "test"], None, "test"),
        (["train", "validation"], None, "validation"),
        (["other", "train"], None, "train"),
        (["train", "validation", "test"], "validation", "validation"),
    ],
)
def test_the_split_is_the_one_asked_for_or_the_one_most_held_out(tmp_path, splits, asked, chosen):
    DatasetDict({name: Dataset.from_list([{"text": name}]) for name in splits}).save_to_disk(tmp_path / "saved")
    documents, source, _ = documents_in_dataset(str(tmp_path / "saved"), asked)
    assert (list(documents), source) == ([chosen], f"{tmp_path / 'saved'}, split {chosen}")


def test_files_of_a_folder_are_its_splits(tmp_path):
    written(tmp_path / "train.jsonl", lines(ROWS[:1]))
    written(tmp_path / "test.jsonl", lines(ROWS[1:]))
    documents, source, _ = documents_in_dataset(str(tmp_path))
    assert (list(documents), source) == (TEXTS[1:], f"{tmp_path}, split test")


def test_a_split_that_is_not_there_or_not_clear_is_refused(tmp_path):
    name = str(tmp_path / "saved")
    DatasetDict({split: Dataset.from_list(ROWS) for split in ("north", "south")}).save_to_disk(name)
    assert sentence(documents_in_dataset, name, "test") == f"Data set {name} has no split test; it has north, south."
    assert sentence(documents_in_dataset, name) == f"Data set {name} has the splits north, south; choose one with --split."


def test_a_data_set_without_the_column_is_refused_with_those_it_has(tmp_path):
    name = str(written(tmp_path / "a.jsonl", lines([{"content": "one", "id": 1}])))
    assert sentence(documents_in_dataset, name) == f"Data set {name}, split train has no column text; it has content, id."


def test_a_column_of_something_else_is_refused(tmp_path):
    name = str(written(tmp_path / "a.csv", "text\n1\n2\n"))
    assert sentence(lambda: list(documents_in_dataset(name)[0])) == f"Data set {name}, split train: column text holds int values, expected text."


def test_a_data_set_that_cannot_be_read_is_refused(tmp_path):
    broken = str(written(tmp_path / "a.jsonl", '{"text": "one"}\n{"text": broken\n'))
    assert sentence(documents_in_dataset, broken).startswith(f"Data set {broken}, split train cannot be read: ")
    empty = str(written(tmp_path / "b.jsonl", ""))
    assert sentence(documents_in_dataset, empty) == f"Data set {empty} has no rows."
    header = str(written(tmp_path / "c.csv", "text\n"))
    assert sentence(documents_in_dataset, header) == f"Data set {header}, split train has no rows."
    other = str(written(tmp_path / "a.doc", "one"))
    assert sentence(documents_in_dataset, other) == f"Data set {other} is of a kind that is not read here; give .json, .jsonl, .csv, .parquet, .txt or a folder."
    (tmp_path / "none").mkdir()
    assert sentence(documents_in_dataset, str(tmp_path / "none")).startswith(f"Data set {tmp_path / 'none'} cannot be read: ")


def test_a_script_in_a_folder_is_never_run(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    written(folder / "mine.py", f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert sentence(documents_in_dataset, str(folder)).startswith(f"Data set {folder} cannot be read: ")
    assert not Path(tmp_path / "ran").exists()


def test_a_revision_of_a_local_data_set_is_refused(tmp_path):
    assert sentence(documents_in_dataset, str(tmp_path), None, "v1") == (
        f"Data set {tmp_path} lies on this machine and has no revision v1; leave --revision out."
    )


def test_a_name_that_is_neither_here_nor_a_hub_name_is_refused(tmp_path):
    assert sentence(documents_in_dataset, f"{tmp_path}/none.jsonl") == (
        f"Data set {tmp_path}/none.jsonl is no file or folder here and cannot be fetched: that is no hub name either (owner/name). "
        "Give a folder or file that holds it."
    )
