"""Fills the tables that spare readers a scan of every observation: token_stats, sequence_stats, group_sums.

They hold what the named queries and measures answer without a filter, and are computed by them.
"""

from collections.abc import Iterator, Mapping

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from db import difficulty, lexical, query, tokens
from db.filter import Filter


def fill(con: duckdb.DuckDBPyConnection, checkpoint: str, ties: Mapping[int, ArrayLike] | None = None) -> None:
    """Fill the three tables for a checkpoint whose observations, and `vocab` and `sequences`, are in the file.

    con: a writable connection. ties: per recursion r the positions tied at its threshold, [sequences]
    in the order of their numbers.
    """
    for table, rows in computed(con, checkpoint):
        if table == "sequence_stats":
            rows = rows.assign(**{f"ties_{recursion}": np.asarray(counts) for recursion, counts in (ties or {}).items()})
        con.append(table, rows, by_name=True)


def computed(con: duckdb.DuckDBPyConnection, checkpoint: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each table's name and its rows for a checkpoint, but for `ties_<r>`; `sequence_stats` reads what `group_sums` stores."""
    Filter().create_views(con)
    columns = _columns(con, "group_sums", "sum_")
    scales = [query.run(con, "group_sums", checkpoint=checkpoint, scale=scale, columns=columns) for scale in ("loss", "entropy")]
    yield "group_sums", pd.concat(scales).assign(checkpoint=checkpoint)
    yield "token_stats", _token_stats(con, checkpoint).assign(checkpoint=checkpoint)
    yield "sequence_stats", _sequence_stats(con, checkpoint).assign(checkpoint=checkpoint)


def _columns(con: duckdb.DuckDBPyConnection, table: str, prefix: str) -> list[str]:
    """What follows `prefix` in the names of a table's columns."""
    names = query.run(con, "dictionary").query("table_name == @table")["column_name"]
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def _recursions(con: duckdb.DuckDBPyConnection) -> int:
    """The file's largest R."""
    return len(_columns(con, "token_stats", "occurrences_depth_"))


def _token_stats(con: duckdb.DuckDBPyConnection, checkpoint: str) -> pd.DataFrame:
    sums = query.run(con, "token_sums", checkpoint=checkpoint, halves=True)
    halves = tokens.spread(sums, ["token_id", "half"], _recursions(con))
    text = query.run(con, "token_text")[["token_id", "token"]]
    return tokens.statistics(halves).merge(text, on="token_id", how="left")


def _sequence_stats(con: duckdb.DuckDBPyConnection, checkpoint: str) -> pd.DataFrame:
    sums = query.run(con, "stored_group_sums", checkpoint=checkpoint, scale="loss", columns=_columns(con, "sequence_stats", "mean_"))
    stats = sums.drop(columns=["scale", "depth", "decile"]).groupby("sequence").sum(min_count=1).rename(columns={"positions": "scored"})
    for name in [name for name in stats if name.startswith("sum_")]:
        stats[name.replace("sum_", "mean_")] = stats.pop(name) / stats["scored"]
    rows = query.in_order(query.run(con, "scored_positions", checkpoint=checkpoint, columns=difficulty.COLUMNS))
    longest = int(query.run(con, "counts")["longest"].iloc[0])
    predicted = lexical.even_to_odd(con, checkpoint, _recursions(con))
    parts = [difficulty.by_sequence(rows, longest), predicted.drop(columns="scored"), stats.drop(columns="scored")]
    found = query.run(con, "sequences")[["sequence"]]
    for part in parts:
        found = found.merge(part, on="sequence", how="left")
    counts = ["scored", "recurring", "unexplained"]  # a sequence of one token has nothing scored, and a row all the same
    found[counts] = found[counts].fillna(0).astype(int)
    return found
