"""Runs one statement under limits: a request as JSON on stdin, the answer on stdout. Started by db/sql.py.

The answer is a line of JSON, {"error": …} or {"truncated": …}, and then the rows as an Arrow stream.
"""

import json
import sys
from itertools import count
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from db import connection
from db.errors import UserError
from db.gate import check_statement
from db.limits import confine

BATCH = 1_000  # rows fetched at once
BYTES = 64 << 20  # most that an answer may hold


def answer(path: str, sql: str, rows: int) -> tuple[pa.Table, bool]:
    """The first `rows` rows of a statement, and whether there were more. Raises UserError with DuckDB's words."""
    file = connection.database(path)
    with file.cursor(file.signature()) as cursor:
        check_statement(cursor, sql)
        reader = cursor.sql(sql).to_arrow_reader(BATCH)  # a relation streams; execute would hold every row
        batches, room, size = [], rows, 0
        for batch in reader:
            kept = batch.slice(0, room)
            room, size = room - kept.num_rows, size + kept.nbytes
            if size > BYTES:
                return _table(batches, reader.schema, path), True
            batches.append(kept)
            if kept.num_rows < batch.num_rows:
                return _table(batches, reader.schema, path), True
        return _table(batches, reader.schema, path), False


def _table(batches: list[pa.RecordBatch], schema: pa.Schema, path: str) -> pa.Table:
    """The rows, each column under a name of its own, without the path of the file's folder, which catalog functions give away."""
    table = pa.Table.from_batches(batches, schema).rename_columns(_distinct(schema.names))
    folder = f"{Path(path).absolute().parent}/"
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(index, field, pc.replace_substring(table.column(index), folder, ""))
    return table


def _distinct(names: list[str]) -> list[str]:
    """a, a_1, a_2 where a query gives the name a to three columns, as DuckDB itself does for a table."""
    given: list[str] = []
    for name in names:
        free = (f"{name}_{number}" if number else name for number in count())
        given.append(next(each for each in free if each not in given))
    return given


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    connection.CONFIGURATION["max_execution_time"] = str(int(request["seconds"] * 1000))
    confine()
    table = None
    try:
        table, truncated = answer(request["path"], request["sql"], request["rows"])
        header = {"truncated": truncated}
    except UserError as error:
        header = {"error": str(error)}
    except (MemoryError, pa.ArrowMemoryError, duckdb.OutOfMemoryException):
        header = {"error": "The query needs more memory than it may use."}
    except duckdb.Error as error:
        header = {"error": str(error).replace(f"{Path(request['path']).absolute().parent}/", "")}
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    if table is not None:
        with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
            stream.write_table(table)


if __name__ == "__main__":
    main()
