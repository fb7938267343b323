"""The named queries of db/queries: `-- name: x`, a comment that says what a row is, then SQL.

They read the temporary views `kept` (the observations that pass a filter) and `scored` (those of them
with a next token); in any other client, create these two first.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from db.filter import Filter, literal

FOLDER = Path(__file__).parent / "queries"


@dataclass(frozen=True)
class Query:
    """One statement: its name, what one of its rows is, and its SQL."""

    name: str
    row: str
    sql: str

    @property
    def is_filtered(self) -> bool:
        """Whether it reads the views that a filter makes."""
        return re.search(r"\b(?:from|join)\s+(?:kept|scored)\b", self.sql) is not None


@cache
def named() -> dict[str, Query]:
    """Every query by its name."""
    found = [query for path in sorted(FOLDER.glob("*.sql")) for query in _parse(path.read_text(encoding="utf-8"))]
    return {query.name: query for query in found}


@cache
def examples() -> list[Query]:
    """SQL to begin with, on `observations` themselves: each one's `row` is the question that it answers."""
    return _parse((FOLDER.parent / "examples.sql").read_text(encoding="utf-8"))


def _parse(text: str) -> list[Query]:
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return [Query(name, *_split_comment(body)) for name, body in zip(parts[1::2], parts[2::2])]


def _split_comment(body: str) -> tuple[str, str]:
    comment, sql = re.fullmatch(r"((?:--[^\n]*\n)*)(.*)", body, flags=re.DOTALL).groups()
    return " ".join(line.removeprefix("--").strip() for line in comment.splitlines()), sql.strip().removesuffix(";")


def run(cursor: duckdb.DuckDBPyConnection, name: str, **parameters) -> pd.DataFrame:
    """Rows of a named query. The views `kept` and `scored` must exist where it reads them."""
    return cursor.execute(named()[name].sql, parameters).df()


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, which have both columns, by sequence and position. Most come so, as the file holds them: to look is quicker than to sort."""
    place = (rows["sequence"].to_numpy(dtype=np.int64) << 32) + rows["position"].to_numpy(dtype=np.int64)
    return rows if (place[1:] > place[:-1]).all() else rows.iloc[np.argsort(place)].reset_index(drop=True)


def statement(name: str, filter: Filter, **parameters: str | int | list[str]) -> str:
    """A named query as one statement for any client, its views and parameters written out."""
    body = re.sub(r"\$(\w+)", lambda match: literal(parameters[match[1]]), named()[name].sql)
    views = ",\n".join(f"{view} as (\n    {sql.strip()}\n)" for view, sql in filter.views().items())
    rest = body.removeprefix("with ")
    return f"with {views}{',' if rest != body else ''}\n{rest}"

