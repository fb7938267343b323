"""Writes the finished file: from token stream and Parquet shards to DuckDB, with every aggregate.

The file is built under another name in the same folder, checked, and moved into place in one step.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from db import aggregates, schema
from db.check import check
from db.digest import COLUMNS as DIGEST_COLUMNS
from db.digest import digests
from db.query import named

MEMORY_LIMIT = "3GB"
POSITIONS_AT_ONCE = 262_144
SHARDS_AT_ONCE = 15  # DuckDB stores rows in groups of 122,880: few of them should stay short


@dataclass(frozen=True)
class Source:
    """One checkpoint of the file.

    `facts` is its row in `checkpoints`, `policies` its rows in `policies` (without the checkpoint),
    `shards` its Parquet files in the order of their sequences; `observed` is False for a reference
    that is not a checkpoint of its own and so has no rows in `observations`.
    """

    facts: dict[str, Any]
    policies: list[dict[str, Any]]
    shards: list[Path]
    observed: bool = True

    @property
    def id(self) -> str:
        return self.facts["checkpoint"]


@dataclass(frozen=True)
class Content:
    """Everything a file is made of.

    ids: [sequences, T] token ids; documents: of the same shape, or None. vocabulary: rows of `vocab`
    without occurrences (token_id, token, bytes, is_special).
    """

    ids: np.ndarray
    documents: np.ndarray | None
    vocabulary: list[tuple[int, str | None, bytes | None, bool]]
    sources: list[Source]
    assigned: list[str]
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def recursions(self) -> int:
        """The file's largest R, 0 where no checkpoint recurs."""
        return max((source.facts["recursions"] or 0 for source in self.observed), default=0)

    @property
    def observed(self) -> list[Source]:
        return sorted((source for source in self.sources if source.observed), key=lambda source: source.id)

    @property
    def steps(self) -> int:
        """How often `write` calls `advance`."""
        return 5 + sum(len(_together(source.shards)) + 1 for source in self.observed)


def write(content: Content, output: Path, spill: Path, advance: Callable[[], None] = lambda: None) -> None:
    """Writes `output`, replacing what stands there only when the new file has passed its checks.

    `spill` is a folder for what does not fit in memory.
    """
    aside = output.with_name(f".{output.name}.building")
    _discard(aside)
    try:
        config = {"storage_compatibility_version": "v1.4.0", "memory_limit": MEMORY_LIMIT, "temp_directory": str(spill)}
        with duckdb.connect(str(aside), config=config) as con:
            _fill(con, content, advance)
        check(aside)
        advance()
        os.replace(aside, output)
    finally:
        _discard(aside)


def _discard(aside: Path) -> None:
    for path in (aside, aside.with_name(aside.name + ".wal")):
        path.unlink(missing_ok=True)


def _fill(con: duckdb.DuckDBPyConnection, content: Content, advance: Callable[[], None]) -> None:
    # One transaction: hundreds of small statements, each of which would else wait for the disk.
    con.begin()
    schema.create(con, content.recursions, content.assigned)
    _fill_facts(con, content)
    con.commit()
    advance()
    _fill_positions(con, content)
    advance()
    _fill_vocab(con, content)
    advance()
    for source in content.observed:
        for shards in _together(source.shards):
            _fill_observations(con, source, shards)
            advance()
    for source in content.observed:
        aggregates.fill(con, source.id, _ties(con, source))
        advance()
    con.append("digests", pd.DataFrame(digests(con), columns=DIGEST_COLUMNS).astype({"sequence": "Int32"}))
    advance()


def _together(shards: list[Path]) -> list[list[Path]]:
    return [shards[start : start + SHARDS_AT_ONCE] for start in range(0, len(shards), SHARDS_AT_ONCE)]


def _fill_facts(con: duckdb.DuckDBPyConnection, content: Content) -> None:
    for key, value in content.meta.items():
        _insert(con, "meta", {"key": key, "value": value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)})
    for source in content.sources:
        _insert(con, "checkpoints", source.facts)
    for source in content.observed:
        for policy in source.policies:
            _insert(con, "policies", {"checkpoint": source.id, **policy})


def _insert(con: duckdb.DuckDBPyConnection, table: str, row: dict[str, Any]) -> None:
    con.execute(f"insert into {table} ({', '.join(row)}) values ({', '.join(f'${key}' for key in row)})", row)


def _fill_positions(con: duckdb.DuckDBPyConnection, content: Content) -> None:
    con.execute(named()["write_create_stream"].sql)
    step = max(1, POSITIONS_AT_ONCE // content.ids.shape[1])
    for start in range(0, len(content.ids), step):
        con.append("stream", _stream(content, start, step))
    con.execute(named()["write_create_difficulty"].sql)
    reference = next((source for source in content.sources if source.facts["is_reference"]), None)
    if reference:
        con.execute(named()["write_fill_difficulty"].sql, {"shards": [str(path) for path in reference.shards]})
    con.execute(named()["write_fill_positions"].sql)
    con.execute(named()["write_fill_sequences"].sql)
    con.execute("drop table stream")
    con.execute("drop table difficulty")


def _stream(content: Content, start: int, step: int) -> pd.DataFrame:
    """Rows of the stream for `step` sequences from `start`; -1 stands for NULL."""
    ids = np.asarray(content.ids[start : start + step], dtype=np.int32)
    count, length = ids.shape
    nothing = np.full((count, 1), -1, np.int32)
    documents = np.full_like(ids, -1) if content.documents is None else np.asarray(content.documents[start : start + step], dtype=np.int32)
    columns = {
        "sequence": np.repeat(np.arange(start, start + count, dtype=np.int32), length),
        "position": np.tile(np.arange(length, dtype=np.int32), count),
        "document": documents.reshape(-1),
        "token_id": ids.reshape(-1),
        "next_token_id": np.concatenate([ids[:, 1:], nothing], axis=1).reshape(-1),
    }
    return pd.DataFrame(columns)


def _fill_vocab(con: duckdb.DuckDBPyConnection, content: Content) -> None:
    names = ["token_id", "token", "bytes", "is_special"]
    types = [pa.int32(), pa.string(), pa.binary(), pa.bool_()]
    columns = zip(*content.vocabulary)
    con.register("entries", pa.table({name: pa.array(column, type=kind) for name, column, kind in zip(names, columns, types)}))
    con.execute(named()["write_fill_vocab"].sql)
    con.unregister("entries")


def _fill_observations(con: duckdb.DuckDBPyConnection, source: Source, shards: list[Path]) -> None:
    names, last = {policy["policy"] for policy in source.policies}, source.facts["recursions"]
    benefits = "".join(
        f", shard.loss_depth_1{twin} - shard.loss_depth_{last}{twin} as benefit{twin}"
        for twin in ("", "_open")
        if {f"depth_1{twin}", f"depth_{last}{twin}"} <= names
    )
    query = named()["write_fill_observations"].sql.replace("/* benefits */", benefits)
    con.execute(query, {"shards": [str(path) for path in shards], "checkpoint": source.id})


def _ties(con: duckdb.DuckDBPyConnection, source: Source) -> dict[int, np.ndarray]:
    """Positions tied at the threshold of each recursion, [sequences]; empty for a checkpoint without a router."""
    rows = con.execute(named()["write_ties"].sql, {"shards": [str(path) for path in source.shards]}).df()
    return {int(name.removeprefix("ties_")): rows[name].to_numpy() for name in rows if name.startswith("ties_")}
