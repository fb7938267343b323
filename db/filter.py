"""The observations that a measure looks at, as two temporary views that every named query reads.

This is the one place where a user's text becomes part of an SQL statement.
"""

import json
import re
from dataclasses import dataclass

import duckdb

from db.gate import check_condition

_WITHIN = """replace (
    if(vanilla_loss is null, null, ntile(10) over (
        partition by {each}vanilla_loss is null order by vanilla_loss, sequence, position))::utinyint as loss_decile,
    if(vanilla_entropy is null, null, ntile(10) over (
        partition by {each}vanilla_entropy is null order by vanilla_entropy, sequence, position))::utinyint as entropy_decile
)"""

# Columns of the text, which are the same under every checkpoint: those of positions and, in subqueries, of vocab.
_SHARED = {
    "sequence", "position", "document", "token_id", "next_token_id", "vanilla_loss", "vanilla_entropy", "loss_decile", "entropy_decile",
    "token", "bytes", "occurrences", "is_special",
}  # fmt: skip

_TRUNCATING = re.compile(r"depth|loss|entropy|benefit|decile|probability|margin")


def literal(value: str | int | list[str]) -> str:
    """The value as SQL has it."""
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class Filter:
    """`where`: an SQL condition on observations, None for all. `within`: deciles of the kept positions, not of the file.

    checkpoint: the one that is asked about, where it is one: a window partitioned by text is several times slower.
    """

    where: str | None = None
    within: bool = False
    checkpoint: str | None = None

    def views(self) -> dict[str, str]:
        """SQL of `kept` (positions that pass) and of `scored` (those of them with a next token), by name; the second reads the first."""
        return {
            "kept": f"select * from observations where ({self.where or 'true'}\n)" + (f" and checkpoint = {literal(self.checkpoint)}" if self.checkpoint else ""),
            "scored": f"select * {self._deciles()} from kept where next_token_id is not null",
        }

    def _deciles(self) -> str:
        return _WITHIN.format(each="" if self.checkpoint else "checkpoint, ") if self.within else ""

    def create_views(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Create the views. Raises UserError for a bad condition."""
        if self.where:
            check_condition(cursor, self.where)
        for name, sql in self.views().items():
            cursor.execute(f"create or replace temp view {name} as {sql}")

    def is_range_restricted(self, cursor: duckdb.DuckDBPyConnection) -> bool:
        """Whether the condition truncates a correlated variable, so that correlations and R² are range restricted."""
        return any(_TRUNCATING.search(name) for name in self.columns(cursor))

    def tells_checkpoints_apart(self, cursor: duckdb.DuckDBPyConnection) -> bool:
        """Whether it may keep other positions of one checkpoint than of another."""
        return not self.columns(cursor) <= _SHARED

    def columns(self, cursor: duckdb.DuckDBPyConnection) -> set[str]:
        """Names of the columns that the condition refers to, in subqueries too; `*` stands for those that a pattern names."""
        sql = "select json_serialize_sql('select 1 where (' || $where || chr(10) || ')')"
        parts = [json.loads(cursor.execute(sql, {"where": self.where or "true"}).fetchone()[0])]
        found: set[str] = set()
        while parts:
            part = parts.pop()
            if isinstance(part, dict):
                if part.get("class") == "STAR":
                    found.add("*")
                found.update(name.lower() for name in part.get("column_names", [])[-1:])
                parts.extend(part.values())
            elif isinstance(part, list):
                parts.extend(part)
        return found
