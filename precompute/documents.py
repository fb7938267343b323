"""Held-out documents, from text files or a data set, one at a time."""

import glob
import gzip
import itertools
import lzma
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO

from db.errors import UserError
from precompute import hub

SEPARATOR = "<|endoftext|>"
COLUMN = "text"
OPENERS = {".gz": gzip.open, ".xz": lzma.open}
READERS = {".json": "json", ".jsonl": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "text"}
SPLITS = ("test", "validation", "train")  # held-out ones first


def documents_in_files(paths: Sequence[str | Path]) -> Iterator[str]:
    """The documents of UTF-8 files (.gz and .xz are unpacked), separated by lines holding only <|endoftext|>.

    A document ends with its file. Line ends \\r\\n become \\n, the line end before a separator belongs
    to the separator, and documents of nothing but white space are dropped. Raises UserError for a path
    that cannot be opened; a file that is empty or not UTF-8 raises it when its turn comes.
    """
    for path in map(Path, paths):
        if path.is_dir():
            raise UserError(f"Text {path} is a folder; give its files one by one, or the folder as --dataset.")
        try:
            path.open("rb").close()
        except OSError as error:
            raise UserError(f"Text {path} cannot be read: {error.strerror}.") from error
    return itertools.chain.from_iterable(_documents(Path(path)) for path in paths)


def _documents(path: Path) -> Iterator[str]:
    found = False
    for text in _between_separators(path):
        if text and not text.isspace():
            found = True
            yield text
    if not found:
        raise UserError(f"Text {path} holds no document.")


def _between_separators(path: Path) -> Iterator[str]:
    lines: list[str] = []
    for line in _lines(path):
        if line is None:
            yield "".join(lines).removesuffix("\n")
            lines = []
        else:
            lines.append(line)
    yield "".join(lines).removesuffix("\n")


def _lines(path: Path) -> Iterator[str | None]:
    """The file's lines, None for a separator."""
    offset = 0
    with OPENERS.get(path.suffix, open)(path, "rb") as file:
        for raw in _raw_lines(file, path):
            line = _decoded(raw, offset, path)
            if line.endswith("\r\n"):
                line = line[:-2] + "\n"
            yield None if line.removesuffix("\n") == SEPARATOR else line
            offset += len(raw)


def _decoded(raw: bytes, offset: int, path: Path) -> str:
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte 0x{raw[error.start]:02X} at offset {offset + error.start}"
        raise UserError(f"Text {path} is not UTF-8: {place}; convert it, for instance with iconv.") from error
    return line if offset else line.removeprefix("\ufeff")  # some editors' mark of an encoding, not text


def _raw_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        yield from file
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"Text {path} cannot be read: {error}.") from error


def documents_in_dataset(name: str, split: str | None = None, revision: str | None = None) -> tuple[Iterator[str], str, str | None]:
    """Documents, where they come from in words, and the hub's commit (None for what lies on this machine).

    They are the column `text` of a split of a hub data set, streamed, or of a folder or file that
    `datasets` reads. Without `split` the only one is read, else test, else validation, else train; the
    words name it. Rows that are null or only white space are dropped. A .txt file has a row per line, as
    `datasets` reads it. Raises UserError where any of it is not there.
    """
    local = Path(name).exists()
    if local and revision is not None:
        raise UserError(f"Data set {name} lies on this machine and has no revision {revision}; leave --revision out.")
    commit = None if local else hub.dataset_commit(name, revision)
    try:
        splits = _local_splits(Path(name)) if local else _hub_splits(name, commit)
    except UserError:
        raise
    except StopIteration as error:  # what `datasets` raises for an empty file
        raise UserError(f"Data set {name} has no rows.") from error
    except Exception as error:  # readers of a dozen formats raise whatever they like
        raise _unreadable(name, error) from error
    chosen = _choose(splits, split, name)
    source = f"{name}, split {chosen}"
    return _texts(splits[chosen], source), source, commit


def _hub_splits(name: str, commit: str | None) -> Mapping[str, Iterable[dict[str, Any]]]:
    from datasets import load_dataset  # slow to import, and not needed for --text and --tokens

    return load_dataset(name, revision=commit, streaming=True)


def _local_splits(path: Path) -> Mapping[str, Iterable[dict[str, Any]]]:
    from datasets import Dataset, load_dataset, load_from_disk

    if path.is_file():
        unpacked = path.with_suffix("") if path.suffix in OPENERS else path
        if unpacked.suffix not in READERS:
            raise UserError(f"Data set {path} is of a kind that is not read here; give {', '.join(READERS)} or a folder.")
        return load_dataset(READERS[unpacked.suffix], data_files=glob.escape(str(path)), streaming=True)
    if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
        saved = load_from_disk(path)
        return {str(saved.split or "train"): saved} if isinstance(saved, Dataset) else saved
    # Absolute, because a bare name such as "json" would mean a reader of `datasets` and not the folder.
    return load_dataset(str(path.resolve()), streaming=True)


def _choose(splits: Mapping[str, Any], split: str | None, name: str) -> str:
    names = list(splits)
    if split is not None and split not in names:
        raise UserError(f"Data set {name} has no split {split}; it has {', '.join(names)}.")
    chosen = split or (names[0] if len(names) == 1 else next((held for held in SPLITS if held in names), None))
    if chosen is None:
        raise UserError(f"Data set {name} has the splits {', '.join(names)}; choose one with --split.")
    return chosen


def _texts(rows: Iterable[dict[str, Any]], source: str) -> Iterator[str]:
    """The documents among the rows. The first row is read at once, so that a wrong column shows before any work."""
    stream = _guarded(rows, source)
    first = next(stream, None)
    if first is None:
        raise UserError(f"Data set {source} has no rows.")
    if COLUMN not in first:
        raise UserError(f"Data set {source} has no column {COLUMN}; it has {', '.join(first)}.")
    return _with_text((row[COLUMN] for row in itertools.chain([first], stream)), source)


def _with_text(values: Iterable[Any], source: str) -> Iterator[str]:
    for value in values:
        if not isinstance(value, str | NoneType):
            raise UserError(f"Data set {source}: column {COLUMN} holds {type(value).__name__} values, expected text.")
        if value and not value.isspace():
            yield value


def _guarded(rows: Iterable[dict[str, Any]], source: str) -> Iterator[dict[str, Any]]:
    try:
        yield from rows
    except Exception as error:
        raise _unreadable(source, error) from error


def _unreadable(name: str, error: Exception) -> UserError:
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return UserError(f"Data set {name} cannot be read: {reason}.")
