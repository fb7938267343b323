"""Read-only connections to the file: hardened at connect, one configuration per process, a cursor per use.

DuckDB keeps one database per path and process alive for as long as any connection to it is open, and
serves the old data after the file is replaced. `Database` is the one place that notices (path, inode,
time and size) and reopens; it closes every cursor first.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from db.errors import UserError
from db.schema import SCHEMA_VERSION

CONFIGURATION = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",
    "allow_extension_repositories": "forbidden",
    "memory_limit": "384MB",
    "max_temp_directory_size": "0B",
    "max_execution_time": "60000",  # ms
    "lock_configuration": "true",
}

_DAMAGE = (duckdb.IOException, duckdb.SerializationException, duckdb.FatalException, duckdb.InternalException)

_HEADERS = 3 * 4096  # bytes before the first block of a DuckDB file

Signature = tuple[int, int, int]  # inode, modification time in ns, size


class Database:
    """The open file at one path, for all threads of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._changed = threading.Condition(threading.RLock())
        self._cursors: set[duckdb.DuckDBPyConnection] = set()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._signature: Signature | None = None
        self._remembered: dict[str, Any] = {}

    def signature(self) -> Signature:
        """What tells this version of the file from another, after (re)opening it where it was replaced.

        Raises UserError where there is no file of this project's schema to read.
        """
        with self._changed:
            found = _signature(self.path)
            if found != self._signature:
                self._close()
                self._connection = _connect(self.path)
                self._signature = found
            return found

    @contextmanager
    def cursor(self, signature: Signature) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of its own on the version of the file with this signature.

        Raises UserError where the file was replaced since.
        """
        with self._changed:
            if self.signature() != signature:
                raise UserError(f"{self.name} was replaced since it was opened; open it again.")
            cursor = self._connection.cursor()
            self._cursors.add(cursor)
        try:
            yield cursor
        finally:
            with self._changed:
                cursor.close()
                self._cursors.discard(cursor)
                self._changed.notify_all()

    def remember(self, signature: Signature, key: str, compute: Callable[[], Any]) -> Any:
        """What `compute` returned the first time it was asked for this key and version of the file."""
        with self._changed:
            if self._signature == signature and key in self._remembered:
                return self._remembered[key]
        found = compute()
        with self._changed:
            if self._signature == signature:
                self._remembered[key] = found
        return found

    def close(self) -> None:
        """Close every connection to the file; the next question opens it again."""
        with self._changed:
            self._close()

    def _close(self) -> None:
        """A busy cursor refuses to be closed, so it is interrupted until its user lets go."""
        patience = 100
        while self._cursors:
            for cursor in self._cursors:
                cursor.interrupt()
            self._changed.wait(timeout=0.1)
            patience -= 1
            if not patience:
                raise UserError(f"{self.name} was replaced while a query on the old file still runs; try again in a moment.")
        if self._connection is not None:
            self._connection.close()
        self._connection = self._signature = None
        self._remembered.clear()


_databases: dict[Path, Database] = {}
_databases_lock = threading.Lock()


def database(path: str | os.PathLike) -> Database:
    """The process's one Database for this path."""
    resolved = Path(os.path.abspath(path))
    with _databases_lock:
        return _databases.setdefault(resolved, Database(resolved))


def set_threads(threads: int) -> None:
    """How many threads DuckDB uses, for every connection that this process opens from now on."""
    CONFIGURATION["threads"] = str(threads)


def _signature(path: Path) -> Signature:
    try:
        found = path.stat()
    except OSError as error:
        raise UserError(f"No database at {path}. Build one: python -m precompute demo --output {path}") from error
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the .duckdb file in it.")
    return found.st_ino, found.st_mtime_ns, found.st_size


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    try:
        con = duckdb.connect(str(path), read_only=True, config=CONFIGURATION)
    except duckdb.Error as error:
        raise UserError(f"{path} cannot be opened: {_reason(error)} Build it again: {_rebuild(path)}") from error
    try:
        _check_whole(con, path)
        _check_version(con, path)
    except BaseException:
        con.close()
        raise
    return con


def _check_whole(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """DuckDB opens a file that was cut short and fails only when it reaches a missing block."""
    block_size, blocks = con.execute("select block_size, total_blocks from pragma_database_size()").fetchone()
    if path.stat().st_size < _HEADERS + block_size * blocks:
        raise UserError(f"{path} is cut short: {path.stat().st_size:,} of {_HEADERS + block_size * blocks:,} bytes. Build it again: {_rebuild(path)}")


def _check_version(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        row = con.execute("select value from meta where key = 'schema_version'").fetchone()
    except duckdb.CatalogException as error:
        raise UserError(f"{path} is a DuckDB file of something else: it has no table meta. Build one: {_rebuild(path)}") from error
    except duckdb.Error as error:
        raise UserError(f"{path} is damaged: {_reason(error)} Build it again: {_rebuild(path)}") from error
    found = row[0] if row else "none"
    if found != str(SCHEMA_VERSION):
        raise UserError(f"{path} has schema version {found}; this program reads version {SCHEMA_VERSION}. Build it again: {_rebuild(path)}")


def explained(error: duckdb.Error, path: Path, where: str | None = None) -> Exception:
    """The UserError that a failed query stands for, or the error itself where it is nobody's but ours."""
    reason = _reason(error)
    if isinstance(error, duckdb.InterruptException):
        return UserError("The query ran longer than it may; narrow it." if "execution time" in reason else "The query was stopped.")
    if isinstance(error, duckdb.OutOfMemoryException):
        return UserError(f"The query needs more than its {CONFIGURATION['memory_limit']} of memory; narrow it.")
    if isinstance(error, _DAMAGE):
        return UserError(f"{path.name} is damaged: {reason} Build it again: {_rebuild(path)}")
    return UserError(f"The filter {where!r} does not run: {reason}") if where else error


def _rebuild(path: Path) -> str:
    return f"python -m precompute run … --output {path} --force"


def _reason(error: duckdb.Error) -> str:
    """DuckDB's own first sentence, without its advice."""
    line = str(error).splitlines()[0].strip()
    return line if line.endswith((".", "!")) else line + "."
