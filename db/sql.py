"""One ad-hoc SELECT over a file, in a child process that reaches nothing else and has limits."""

import io
import json
import os
import time
from dataclasses import dataclass

import pyarrow as pa

from db.errors import UserError
from db.limits import SECONDS, Child

ROWS = 10_000


@dataclass(frozen=True)
class Answer:
    """Rows as Arrow; `is_truncated` where there were more than asked for; `seconds` it took."""

    table: pa.Table
    is_truncated: bool
    seconds: float


class Statement:
    """A statement that runs in a child process of its own."""

    def __init__(self, path: str | os.PathLike, sql: str, rows: int = ROWS, seconds: float = SECONDS) -> None:
        self._request = json.dumps({"path": os.path.abspath(path), "sql": sql, "rows": rows, "seconds": seconds}).encode()
        self._seconds = seconds
        self._is_stopped = False
        self._child = Child("db.child")

    def answer(self) -> Answer:
        """Wait for the rows. Raises UserError for what the gate refuses, DuckDB's own errors, a limit reached, a stop."""
        start = time.monotonic()
        code, output = self._child.result(self._request, self._seconds)
        if self._is_stopped:
            raise UserError("The query was stopped.")
        header, _, rows = output.partition(b"\n")
        if code or not header:
            raise UserError("The query needs more memory than it may use, and was ended.")
        found = json.loads(header)
        if "error" in found:
            raise UserError(found["error"])
        with pa.ipc.open_stream(io.BytesIO(rows)) as stream:
            return Answer(stream.read_all(), found["truncated"], time.monotonic() - start)

    def stop(self) -> None:
        """End it, from another thread; `answer` then raises UserError."""
        self._is_stopped = True
        self._child.stop()


def run(path: str | os.PathLike, sql: str, rows: int = ROWS, seconds: float = SECONDS) -> Answer:
    """The first `rows` rows of one SELECT or EXPLAIN."""
    return Statement(path, sql, rows, seconds).answer()
