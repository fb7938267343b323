"""Digests of the rows of a finished file, by which `check` finds a value that was altered.

The wide tables are digested per sequence, the others whole. A digest is SHA-256 over the columns'
bytes in row order, so it depends on values alone, not on a library's version.
"""

import hashlib
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

Digest = tuple[str, str | None, int | None, int, str]
COLUMNS = ["table_name", "checkpoint", "sequence", "rows", "digest"]

WHOLE = {
    "meta": "key",
    "checkpoints": "checkpoint",
    "policies": "checkpoint, policy",
    "vocab": "token_id",
    "sequences": "sequence",
    "token_stats": "checkpoint, token_id, half",
    "sequence_stats": "checkpoint, sequence",
    "group_sums": "checkpoint, sequence, scale, depth, decile",
}
SEQUENCES_AT_ONCE = 32


def digests(con: duckdb.DuckDBPyConnection) -> Iterator[Digest]:
    """Every digest of an open file, tables in a fixed order."""
    for table, key in WHOLE.items():
        rows = con.sql(f"from {table} order by {key}").to_arrow_table()
        yield table, None, None, rows.num_rows, _digest(rows)
    yield from _by_sequence(con, "positions", None)
    for (checkpoint,) in con.execute("select checkpoint from checkpoints order by checkpoint").fetchall():
        yield from _by_sequence(con, "observations", checkpoint)


def _by_sequence(con: duckdb.DuckDBPyConnection, table: str, checkpoint: str | None) -> Iterator[Digest]:
    numbers = [row[0] for row in con.execute("select sequence from sequences order by sequence").fetchall()]
    where = "" if checkpoint is None else " and checkpoint = $checkpoint"
    for start in range(0, len(numbers), SEQUENCES_AT_ONCE):
        block = numbers[start : start + SEQUENCES_AT_ONCE]
        bounds = {"first": block[0], "last": block[-1]} | ({} if checkpoint is None else {"checkpoint": checkpoint})
        query = f"from {table} where sequence between $first and $last{where} order by sequence, position"
        rows = con.sql(query, params=bounds).to_arrow_table()
        edges = np.searchsorted(rows["sequence"].to_numpy(), [*block, block[-1] + 1])
        for sequence, low, high in zip(block, edges, edges[1:]):
            if high > low:
                yield table, checkpoint, sequence, int(high - low), _digest(rows.slice(low, high - low))


def _digest(rows: pa.Table) -> str:
    whole = hashlib.sha256()
    for name in rows.column_names:
        column = rows[name]
        numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        whole.update(name.encode())
        whole.update(column.to_numpy().tobytes() if numeric else repr(column.to_pylist()).encode())
    return whole.hexdigest()
