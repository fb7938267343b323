"""The contract of the .duckdb file: every table, view and column, each with a comment.

The fixed tables stand in schema.sql. Here are the column families that depend on the file's largest
number of recursions R and on the names of assigned policies.

Keys of `meta` that readers rely on: schema_version, created_at, tool_version, configuration (JSON),
dataset, dataset_revision, tokens_sha256, tokenizer, vocabulary_sha256, libraries (JSON), device,
precision, batch_size, seed, seconds (JSON: wall time per stage).
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb

from db.errors import UserError

SCHEMA_VERSION = 1

Column = tuple[str, str, str]  # name, SQL type, comment

POSITION_COLUMNS: list[Column] = [
    ("sequence", "integer not null", "Number of the sequence, from 0."),
    ("position", "integer not null", "Position in the sequence, from 0. Position t predicts token t + 1."),
    ("document", "integer", "Number of the document in the stream, from 0; end of text belongs to the document it ends. NULL where documents are unknown."),
    ("token_id", "integer not null", "Id of the input token."),
    ("next_token_id", "integer", "Id of the token to predict; NULL at the end of a sequence, where nothing is scored."),
    ("vanilla_loss", "float", "Loss of the reference model in nats: -log p(next token). The difficulty. NULL without a next token or a reference."),
    ("vanilla_entropy", "float", "Entropy of the reference model's predictive distribution in nats, known before the next token. NULL as above."),
    ("loss_decile", "utinyint", "Decile of vanilla_loss over all scored positions of the file: 1 easiest, 10 hardest."),
    ("entropy_decile", "utinyint", "Decile of vanilla_entropy over all scored positions of the file: 1 most certain, 10 least."),
]

_STANDARD = {
    "router": "the router's own selection",
    "random": "a uniformly random selection of the same size",
    "inverted": "the router's least likely tokens",
    "shuffled": "the router's own depths permuted within each sequence",
}


def standard_policies(recursions: int) -> list[str]:
    """Names of the standard policies of a file with R = `recursions`, each followed by its open twin."""
    own = [*_STANDARD, *(f"depth_{depth}" for depth in range(1, recursions + 1))]
    return [*_with_twins(own), "router_depths_open"]


def policy_names(recursions: int, assigned: Sequence[str] = ()) -> list[str]:
    """Names of every policy the file has columns for; an assigned one also gets its open twin."""
    return [*standard_policies(recursions), *_with_twins(assigned)]


def observation_columns(recursions: int, assigned: Sequence[str] = ()) -> list[Column]:
    """Columns of `observations` in order: (name, type, comment)."""
    columns = [("checkpoint", "varchar not null", "Short id of the checkpoint."), *POSITION_COLUMNS]
    columns += [
        ("depth", "utinyint", "Recursions executed at this position under the checkpoint's own router, 1 to R; NULL for vanilla."),
        ("loss_router", "float", "Loss in nats of the checkpoint as trained: under its own router, or its plain pass where it has none."),
    ]
    for policy in policy_names(recursions, assigned)[1:]:
        columns += _policy_columns(policy)
    columns += [
        ("benefit", "float", "Benefit of depth in nats: loss under depth_1 minus loss under depth_R, R being the checkpoint's own. NULL where either was not run."),
        ("benefit_open", "float", "The same with gates held open: loss under depth_1_open minus loss under depth_R_open."),
        ("entropy", "float", "Entropy in nats of the checkpoint's own predictive distribution under its router."),
    ]
    for recursion in range(1, recursions + 1):
        columns += _router_columns(recursion)
    return columns


def create(con: duckdb.DuckDBPyConnection, recursions: int, assigned: Sequence[str] = ()) -> None:
    """Create every table, view and comment of the contract in an open, writable, empty database.

    `recursions` is the file's largest R (0 where only vanilla models are in it); `assigned` are the
    names of assigned policies without their open twins. Raises UserError where a name would give a
    column twice.
    """
    policies = policy_names(recursions, assigned)
    observations = observation_columns(recursions, assigned)
    _refuse_repeated(observations)
    con.execute((Path(__file__).parent / "schema.sql").read_text(encoding="utf-8"))
    _create_table(con, "positions", POSITION_COLUMNS, "One row is a position of a sequence.")
    _create_table(
        con, "observations", observations, "One row is a checkpoint at a position: the wide table, sorted by checkpoint, sequence, position."
    )
    for depth in range(1, recursions + 1):
        _add_column(con, "token_stats", (f"occurrences_depth_{depth}", "bigint", f"How many of the occurrences have depth {depth}."))
        _add_column(con, "sequence_stats", (f"ties_{depth}", "integer", f"Positions tied at the threshold of recursion {depth}; NULL where there is none."))
    for policy in policies:
        _add_column(con, "sequence_stats", (f"mean_loss_{policy}", "double", f"Mean loss in nats under policy {policy}; NULL where not run."))
        _add_column(con, "group_sums", (f"sum_loss_{policy}", "double", f"Sum of the losses in nats under policy {policy}; NULL where not run."))
    _create_tokens_view(con, observations)
    _create_losses_view(con, policies)


def _with_twins(policies: Sequence[str]) -> list[str]:
    return [name for policy in policies for name in (policy, f"{policy}_open")]


def _describe(policy: str) -> str:
    own = policy.removesuffix("_open")
    gate = ", gate held open" if policy != own else ""
    if own == "router_depths":
        return "the depths of router replayed, gate held open"
    if own in _STANDARD:
        return _STANDARD[own] + gate
    depth = own.removeprefix("depth_")
    return (f"depth {depth} everywhere" if depth.isdigit() else f"the assigned depths {own}") + gate


def _policy_columns(policy: str) -> list[Column]:
    meaning = _describe(policy)
    return [
        (f"loss_{policy}", "float", f"Loss in nats under policy {policy}: {meaning}. NULL where not run."),
        (f"depth_{policy}", "utinyint", f"Recursions executed under policy {policy}: {meaning}. NULL where not run."),
    ]


def _router_columns(recursion: int) -> list[Column]:
    return [
        (
            f"probability_{recursion}",
            "float",
            f"Expert-choice: router function of the score at recursion {recursion} without alpha, NULL where the token was no candidate. "
            f"Token-choice: probability of depth {recursion}.",
        ),
        (
            f"margin_{recursion}",
            "float",
            f"Expert-choice: distance of probability_{recursion} to the best dropped token (kept) or to the worst kept one (dropped, negative), "
            "NULL where nothing is dropped. Token-choice: chosen minus next best in margin_1, bias included; NULL in the others.",
        ),
    ]


def _refuse_repeated(columns: Sequence[Column]) -> None:
    for name, count in Counter(column for column, _, _ in columns).items():
        if count > 1:
            raise UserError(f"An assigned policy would make the column {name} twice; give it another name.")


def _create_table(con: duckdb.DuckDBPyConnection, table: str, columns: Sequence[Column], comment: str) -> None:
    con.execute(f"create table {table} ({', '.join(f'{name} {kind}' for name, kind, _ in columns)})")
    _comment(con, f"table {table}", comment)
    for name, _, text in columns:
        _comment(con, f"column {table}.{name}", text)


def _add_column(con: duckdb.DuckDBPyConnection, table: str, column: Column) -> None:
    name, kind, comment = column
    con.execute(f"alter table {table} add column {name} {kind}")
    _comment(con, f"column {table}.{name}", comment)


def _create_tokens_view(con: duckdb.DuckDBPyConnection, observations: Sequence[Column]) -> None:
    con.execute(f"""
        create view tokens as
        select {', '.join(f'observations.{name}' for name, _, _ in observations)},
            this.token as token, following.token as next_token
        from observations
        left join vocab as this on this.token_id = observations.token_id
        left join vocab as following on following.token_id = observations.next_token_id
    """)
    _comment(con, "view tokens", "One row is an observation with the text of its token and of the next one: where to start with SQL of your own.")
    for name, _, text in observations:
        _comment(con, f"column tokens.{name}", text)
    _comment(con, "column tokens.token", "Text of the input token.")
    _comment(con, "column tokens.next_token", "Text of the token to predict.")


def _create_losses_view(con: duckdb.DuckDBPyConnection, policies: Sequence[str]) -> None:
    parts = [
        f"""select checkpoint, '{policy}' as policy, sequence, position, loss_{policy} as loss,
            {'depth' if policy == 'router' else f'depth_{policy}'} as depth
        from observations where loss_{policy} is not null or {'depth' if policy == 'router' else f'depth_{policy}'} is not null"""
        for policy in policies
    ]
    con.execute(f"create view losses as {' union all '.join(parts)}")
    _comment(con, "view losses", "One row is a checkpoint, a policy and a position: the losses of observations as a long table.")
    for name, text in {
        "checkpoint": "Short id of the checkpoint.",
        "policy": "Name of the policy.",
        "sequence": "Number of the sequence, from 0.",
        "position": "Position in the sequence, from 0.",
        "loss": "Loss in nats under the policy; NULL without a next token.",
        "depth": "Recursions executed under the policy; NULL where the checkpoint has none.",
    }.items():
        _comment(con, f"column losses.{name}", text)


def _comment(con: duckdb.DuckDBPyConnection, thing: str, text: str) -> None:
    con.execute(f"comment on {thing} is '{text.replace(chr(39), chr(39) * 2)}'")
