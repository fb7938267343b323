"""The contract: names, types, comments and views of a new file."""

import duckdb
import pytest

from db import schema
from db.errors import UserError


@pytest.fixture
def con():
    with duckdb.connect() as con:
        schema.create(con, 3, ["mine"])
        yield con


def _columns(con, table):
    return [name for (name,) in con.execute("select column_name from duckdb_columns() where table_name = $1 order by column_index", [table]).fetchall()]


def test_every_table_view_and_column_has_a_comment(con):
    bare = con.execute("""
        select table_name, column_name from duckdb_columns() where not internal and coalesce(comment, '') = ''
        union all select table_name, '' from duckdb_tables() where coalesce(comment, '') = ''
        union all select view_name, '' from duckdb_views() where not internal and coalesce(comment, '') = ''
    """).fetchall()
    assert bare == []


def test_policies_come_each_with_their_open_twin():
    assert schema.standard_policies(2) == [
        "router", "router_open", "random", "random_open", "inverted", "inverted_open", "shuffled", "shuffled_open",
        "depth_1", "depth_1_open", "depth_2", "depth_2_open", "router_depths_open",
    ]  # fmt: skip
    assert schema.policy_names(0, ["mine"])[-2:] == ["mine", "mine_open"]


def test_observations_hold_the_columns_of_positions_and_a_family_per_policy_and_recursion(con):
    names = _columns(con, "observations")
    assert names == [name for name, _, _ in schema.observation_columns(3, ["mine"])]
    assert names[1:10] == _columns(con, "positions")
    expected = {"depth", "loss_router", "benefit", "benefit_open", "entropy", "probability_3", "margin_3", "loss_mine_open", "depth_mine_open"}
    expected |= {f"{what}_{policy}" for policy in schema.standard_policies(3)[1:] for what in ("loss", "depth")}
    assert expected <= set(names)
    assert "depth_router" not in names and "probability_4" not in names


def test_column_families_follow_the_number_of_recursions(con):
    assert {"occurrences_depth_3", "sd_depth", "half"} <= set(_columns(con, "token_stats"))
    assert {"ties_3", "mean_loss_mine", "mean_loss_router_depths_open", "partial_spearman_entropy"} <= set(_columns(con, "sequence_stats"))
    assert "ties_4" not in _columns(con, "sequence_stats")


def test_widths_are_those_of_the_contract(con):
    kinds = dict(con.execute("select column_name, data_type from duckdb_columns() where table_name = 'observations'").fetchall())
    assert {kinds[name] for name in ("sequence", "position", "token_id", "document")} == {"INTEGER"}
    assert {kinds[name] for name in ("depth", "depth_random_open")} == {"UTINYINT"}
    assert {kinds[name] for name in ("vanilla_loss", "entropy", "probability_1", "benefit")} == {"FLOAT"}


def test_the_views_add_text_and_turn_losses_long(con):
    con.execute("insert into vocab values (5, ' the', ' the', 1, false), (6, ' a', ' a', 0, false)")
    con.execute("""insert into observations (checkpoint, sequence, position, token_id, next_token_id, depth, loss_router, loss_random, depth_random)
        values ('e', 0, 0, 5, 6, 2, 1.5, 2.5, 1), ('e', 0, 1, 6, null, 1, null, null, 2)""")
    assert con.execute("select position, token, next_token from tokens order by position").fetchall() == [(0, " the", " a"), (1, " a", None)]
    assert con.execute("select policy, position, loss, depth from losses order by all").fetchall() == [
        ("random", 0, 2.5, 1), ("random", 1, None, 2), ("router", 0, 1.5, 2), ("router", 1, None, 1),
    ]  # fmt: skip


def test_a_name_that_would_make_a_column_twice_is_refused():
    with duckdb.connect() as con, pytest.raises(UserError, match="column loss_decile twice"):
        schema.create(con, 2, ["decile"])


def test_a_file_of_vanilla_models_only_has_no_recursion_columns():
    with duckdb.connect() as con:
        schema.create(con, 0)
        names = _columns(con, "observations")
    assert "loss_router" in names and not any(name.startswith(("probability", "loss_depth")) for name in names)
