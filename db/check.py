"""Whether a finished file keeps its contract: tables, keys, NULL rules, ranges, depth counts, aggregates, digests.

    for finding in findings(Path("study.duckdb")): print(finding)

It reads the file alone. Checks go from structure to values, so that the first finding names the place
best; the digests at the end catch whatever no other check covers.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from db import aggregates, schema
from db.digest import digests
from db.errors import UserError
from db.query import named

LIMIT = 5  # findings given of one check

POSITION_CHECKS = (
    "check_positions_without_gaps",
    "check_next_tokens",
    "check_tokens_in_vocabulary",
    "check_vanilla_nulls",
    "check_deciles",
    "check_documents",
    "check_occurrences",
    "check_one_row_per_position",
    "check_copied_columns",
    "check_sorted_rows",
)


def check(path: Path) -> None:
    """Raises UserError with the first finding where the file does not keep its contract."""
    for finding in findings(path):
        raise UserError(f"{path} fails its check: {finding}.")


def findings(path: Path) -> Iterator[str]:
    """Every place where the file does not keep its contract, a sentence each (a check gives at most five)."""
    with duckdb.connect(str(path), read_only=True) as con:
        structural = list(_structure(con))
        yield from structural
        if structural:
            return
        for name in POSITION_CHECKS:
            yield from _places(con, named()[name].sql)
        for checkpoint in _checkpoints(con):
            yield from _checkpoint_findings(con, checkpoint)
        yield from _aggregates(con)
        yield from _digests(con)


def _places(con: duckdb.DuckDBPyConnection, query: str, parameters: dict[str, Any] | None = None) -> list[str]:
    return [place for (place,) in con.execute(f"select place from ({query}) limit {LIMIT}", parameters).fetchall()]


def _checkpoints(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Checkpoints with observations: id, kind, recursions, settings, policies."""
    rows = con.execute("""
        select checkpoint, kind, recursions, settings, list(policy order by policy) as policies
        from checkpoints join policies using (checkpoint)
        group by all order by checkpoint
    """).fetchall()
    names = ("checkpoint", "kind", "recursions", "settings", "policies")
    return [{**dict(zip(names, row)), "settings": json.loads(row[3] or "{}")} for row in rows]


def _shape(con: duckdb.DuckDBPyConnection) -> tuple[int, list[str]]:
    """The file's largest R and the names of its assigned policies."""
    recursions = con.execute("select coalesce(max(recursions), 0) from checkpoints where checkpoint in (select checkpoint from policies)").fetchone()[0]
    standard = schema.standard_policies(recursions)
    own = [name for (name,) in con.execute("select distinct policy from policies order by policy").fetchall() if name not in standard]
    return recursions, [name for name in own if not name.endswith("_open")]


def _structure(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Tables, views, columns, types and comments against those of the schema."""
    tables = {name for (name,) in con.execute("select table_name from duckdb_tables()").fetchall()}
    for needed in ("meta", "checkpoints", "policies"):
        if needed not in tables:
            yield f"table {needed} is missing"
            return
    version = con.execute("select value from meta where key = 'schema_version'").fetchone()
    if version is None or version[0] != str(schema.SCHEMA_VERSION):
        yield f"table meta, key schema_version: {version[0] if version else 'missing'} where {schema.SCHEMA_VERSION} is due"
        return
    with duckdb.connect() as model:
        schema.create(model, *_shape(con))
        due, found = _columns(model), _columns(con)
    for place in due:
        if place not in found:
            yield f"{place} is missing"
        elif due[place] != found[place]:
            yield f"{place} has another type or comment than the schema"


def _columns(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, str | None]]:
    rows = con.execute("select table_name, column_name, data_type, comment from duckdb_columns() where not internal order by all").fetchall()
    return {f"table {table}, column {column}": (kind, comment) for table, column, kind, comment in rows}


def _checkpoint_findings(con: duckdb.DuckDBPyConnection, of: dict[str, Any]) -> Iterator[str]:
    parameters = {"checkpoint": of["checkpoint"]}
    recursions, assigned = _shape(con)
    for policy in schema.policy_names(recursions, assigned):
        yield from _places(con, _policy_query(of, policy), parameters)
    for column, condition in _value_rules(of, recursions):
        yield from _places(con, _rows_where(column, condition), parameters)
    if of["kind"] == "expert":
        yield from _depth_counts(con, of)
    if of["kind"] == "expert":
        for recursion in range(1, of["recursions"] + 1):
            yield from _places(con, _margin_query(recursion), parameters)


def _rows_where(column: str, condition: str) -> str:
    return f"""
        select format('table observations, checkpoint {{}}, sequence {{}}, position {{}}: {column} is {{}}', checkpoint, sequence, position, ifnull({column}::varchar, 'NULL')) as place
        from observations
        where checkpoint = $checkpoint and ({condition})
        order by sequence, position
    """


def _policy_query(of: dict[str, Any], policy: str) -> str:
    """Losses are there where the policy was run and a next token exists, and are finite; depths are in range."""
    depth, loss = "depth" if policy == "router" else f"depth_{policy}", f"loss_{policy}"
    ran = policy in of["policies"]
    lowest = 0 if of["settings"].get("capacities", [1.0])[:1] not in ([], [1.0]) else 1
    in_range = f"{depth} is not null and {depth} between {lowest} and {of['recursions']}" if ran and of["recursions"] else f"{depth} is null"
    scored = f"{loss} is not null and isfinite({loss}) and {loss} >= 0"
    right = f"case when next_token_id is null then {loss} is null else {scored} end" if ran else f"{loss} is null"
    return f"""
        select format('table observations, checkpoint {{}}, sequence {{}}, position {{}}: {loss} is {{}} and {depth} is {{}}, out of its range or NULL rule',
            checkpoint, sequence, position, ifnull({loss}::varchar, 'NULL'), ifnull({depth}::varchar, 'NULL')) as place
        from observations
        where checkpoint = $checkpoint and not ({in_range} and {right})
        order by sequence, position
    """


def _value_rules(of: dict[str, Any], recursions: int) -> Iterator[tuple[str, str]]:
    """(column, SQL condition under which its value is wrong) of a checkpoint."""
    has = set(of["policies"])
    yield "entropy", "not case when next_token_id is null then entropy is null else entropy is not null and isfinite(entropy) and entropy >= -1e-4 end"
    for twin in ("", "_open"):
        first, last = f"depth_1{twin}", f"depth_{of['recursions']}{twin}"
        due = f"loss_{first} - loss_{last}" if of["recursions"] and {first, last} <= has else "null::float"
        yield f"benefit{twin}", f"benefit{twin} is distinct from ({due})"
    bounds = {"sigmoid": (0, 1), "softmax": (0, 1), "tanh": (-1, 1)}.get(of["settings"].get("router_function"))
    for r in range(1, recursions + 1):
        column = f"probability_{r}"
        routed = of["kind"] in ("expert", "token") and r <= of["recursions"]
        # What an expert-choice router may choose from at r was kept at every recursion before.
        there = "true" if of["kind"] == "token" else f"coalesce(depth, 0) >= {r - 1}"
        yield column, f"({column} is not null) <> ({there if routed else 'false'})"
        if routed and bounds:
            yield column, f"{column} not between {bounds[0]} and {bounds[1]} or not isfinite({column})"


def _margin_query(r: int) -> str:
    """Expert-choice margins follow from the probabilities and depths of the sequence."""
    return f"""
        with bounds as (
            select sequence, position, margin_{r} as margin, probability_{r} as p, depth >= {r} as kept,
                min(probability_{r}) filter (where depth >= {r}) over (partition by sequence) as worst_kept,
                max(probability_{r}) filter (where depth < {r}) over (partition by sequence) as best_dropped
            from observations
            where checkpoint = $checkpoint
        ),
        compared as (
            select sequence, position, margin,
                case when best_dropped is null then null when kept then p - best_dropped else p - worst_kept end as due
            from bounds
        )
        select format('table observations, checkpoint {{}}, sequence {{}}, position {{}}: margin_{r} is {{}} where {{}} is due', $checkpoint, sequence, position, ifnull(margin::varchar, 'NULL'), ifnull(due::varchar, 'NULL')) as place
        from compared
        where margin is distinct from due
        order by sequence, position
    """


def _depth_counts(con: duckdb.DuckDBPyConnection, of: dict[str, Any]) -> Iterator[str]:
    """Expert-choice fixes how many tokens of a sequence have each depth."""
    for length in [row[0] for row in con.execute("select distinct tokens from sequences order by tokens").fetchall()]:
        for policy in of["policies"]:
            counts = depth_counts(policy, of["recursions"], of["settings"]["capacities"], length)
            if counts is not None:
                column = "depth" if policy == "router" else f"depth_{policy}"
                parameters = {"checkpoint": of["checkpoint"], "length": length, "due": counts}
                yield from _places(con, _count_query(column, of["recursions"]), parameters)


def _count_query(column: str, recursions: int) -> str:
    counts = ", ".join(f"count(*) filter (where {column} = {depth})" for depth in range(recursions + 1))
    return f"""
        with counted as (
            select sequence, [{counts}] as found
            from observations join sequences using (sequence)
            where checkpoint = $checkpoint and tokens = $length
            group by sequence
        )
        select format('table observations, checkpoint {{}}, sequence {{}}: {column} 0 to {recursions} counts {{}} where {{}} is due', $checkpoint, sequence, found::varchar, $due::bigint[]::varchar) as place
        from counted
        where found <> $due::bigint[]
        order by sequence
    """


def depth_counts(policy: str, recursions: int, capacities: list[float], length: int) -> list[int] | None:
    """How many of `length` tokens have depth 0, 1, .. R under an expert-choice policy; None where depths were assigned."""
    own = policy.removesuffix("_open")
    if own in ("router", "random", "inverted", "router_depths"):
        kept = [max(1, int(share * length)) for share in capacities]
    elif own.startswith("depth_") and own.removeprefix("depth_").isdigit():
        everywhere = int(own.removeprefix("depth_"))
        kept = [length if r < everywhere else 1 for r in range(recursions)]
    else:
        return None
    edges = [length, *kept, 0]
    return [before - after for before, after in zip(edges, edges[1:])]


KEYS = {
    "group_sums": ("checkpoint", "sequence", "scale", "depth", "decile"),
    "token_stats": ("checkpoint", "token_id", "half"),
    "sequence_stats": ("checkpoint", "sequence"),
}


def _aggregates(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Stored aggregates against what the rows of observations give."""
    for of in _checkpoints(con):
        for table, rows in aggregates.computed(con, of["checkpoint"]):
            con.register("due", rows)
            yield from _compare(con, table, of["checkpoint"])
            con.unregister("due")


def _compare(con: duckdb.DuckDBPyConnection, table: str, checkpoint: str) -> list[str]:
    """Rows of `table` that differ from the relation `due` by more than rounding, or are missing on a side."""
    key = KEYS[table]
    columns = [(name, kind) for name, kind, *_ in con.execute("describe due").fetchall() if name not in key]
    different = " or ".join(f"not ({_same(name, kind)})" for name, kind in columns)
    on = " and ".join(f"stored.{name} is not distinct from due.{name}" for name in key)
    where = " || ', ' || ".join(f"'{name} ' || coalesce(stored.{name}, due.{name})::varchar" for name in key if name not in ("depth", "decile"))
    return _places(
        con,
        f"""
        with stored as (select *, true as present from {table} where checkpoint = $checkpoint),
        due as (select *, true as present from due)
        select 'table {table}, ' || {where} || ': ' || case when stored.present is null or due.present is null
            then 'a row is missing or too many' else 'not what the rows of observations give' end as place
        from stored
        full join due on {on}
        where stored.present is null or due.present is null or {different}
        order by place
        """,
        {"checkpoint": checkpoint},
    )


def _same(name: str, kind: str) -> str:
    mine, due = f"stored.{name}", f"due.{name}"
    if kind in ("DOUBLE", "FLOAT", "DECIMAL"):
        return f"({mine} is null and {due} is null) or coalesce(abs({mine} - {due}) <= 1e-9 * greatest(1, abs({due})), false)"
    return f"{mine} is not distinct from {due}"


def _digests(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    stored = {row[:3]: row[3:] for row in con.execute("from digests").fetchall()}
    found = 0
    for table, checkpoint, sequence, rows, digest in digests(con):
        due = stored.pop((table, checkpoint, sequence), None)
        if due != (rows, digest) and found < LIMIT:
            found += 1
            yield f"{_part(table, checkpoint, sequence)}: a value was altered after the file was written"
    for table, checkpoint, sequence in list(stored)[:LIMIT]:
        yield f"{_part(table, checkpoint, sequence)}: rows are missing"


def _part(table: str, checkpoint: str | None, sequence: int | None) -> str:
    parts = [f"table {table}", f"checkpoint {checkpoint}" if checkpoint else "", f"sequence {sequence}" if sequence is not None else ""]
    return ", ".join(part for part in parts if part)
