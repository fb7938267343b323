"""`check` passes on what the command wrote and names the place on a file with one value, key or count altered."""

import re

import duckdb
import pytest

from precompute.command import main
from tests.conftest import GOLDEN


def found(path, capsys, *arguments):
    """Exit code of `check` and what it said."""
    capsys.readouterr()
    code = main(["check", str(path), *arguments])
    return code, capsys.readouterr().err


def alter(path, *statements):
    with duckdb.connect(str(path)) as con:
        for statement in statements:
            con.execute(statement)


def test_a_written_file_passes(written_file, capsys):
    assert found(written_file, capsys) == (0, "Every check holds: tables, keys, NULL rules, ranges, depth counts, aggregates, digests.\n")


def test_the_checkpoints_reproduce_the_file(written_file, capsys):
    code, said = found(written_file, capsys, "--checkpoints", str(GOLDEN))
    assert code == 0 and said.endswith("digests, checkpoints.\n")


WIDE = [
    ("token_id", "(token_id + 1) % 211"), ("next_token_id", "(next_token_id + 1) % 211"), ("document", "3"),
    ("vanilla_loss", "vanilla_loss + 0.001"), ("vanilla_entropy", "vanilla_entropy + 0.001"),
    ("loss_decile", "loss_decile % 10 + 1"), ("entropy_decile", "entropy_decile % 10 + 1"),
]
OBSERVED = [
    *WIDE, ("depth", "depth % 3 + 1"), ("loss_router", "loss_router + 0.00001"), ("loss_random", "null"), ("loss_inverted", "-1"),
    ("loss_shuffled", "1"), ("depth_random", "depth_random % 3 + 1"), ("depth_depth_1", "4"), ("depth_mine", "depth_mine % 3 + 1"),
    ("benefit", "benefit + 0.001"), ("benefit_open", "null"), ("entropy", "entropy + 0.001"), ("probability_1", "probability_1 + 0.001"),
    ("probability_3", "2"), ("margin_2", "margin_2 + 0.001"), ("loss_router_depths_open", "loss_router_depths_open + 0.001"),
]


@pytest.mark.parametrize(("table", "altered"), [
    *(("positions", WIDE[start : start + 5]) for start in range(0, len(WIDE), 5)),
    *(("observations", OBSERVED[start : start + 5]) for start in range(0, len(OBSERVED), 5)),
])
def test_every_altered_value_is_named(altered_file, capsys, table, altered):
    """Five at a time, as many as a check names, each in a sequence of its own, so that none can stand for another."""
    condition, place = ("checkpoint = 'expert-3'", "checkpoint expert-3, sequence") if table == "observations" else ("true", "sequence")
    alter(altered_file, *(
        f"update {table} set {column} = {value} where sequence = {sequence} and position = 7 and {condition}"
        for sequence, (column, value) in enumerate(altered)
    ))
    code, said = found(altered_file, capsys)
    assert code == 1
    assert [column for sequence, (column, _) in enumerate(altered) if not re.search(f"{place} {sequence}\\b", said)] == []


def test_an_altered_entropy_is_caught_by_its_digest(altered_file, capsys):
    alter(altered_file, f"update observations set entropy = entropy + 0.001 where {at(5)}")
    assert found(altered_file, capsys)[1] == "FAILED table observations, checkpoint expert-3, sequence 5: a value was altered after the file was written\n"


def at(sequence):
    return f"checkpoint = 'expert-3' and sequence = {sequence} and position = 7"


def token_at(token, half=1):
    return f"checkpoint = 'token-3' and token_id = {token} and half = {half}"


def sequence_at(sequence):
    return f"checkpoint = 'expert-3' and sequence = {sequence}"


ALTERED = {
    "rows of observations": [
        (f"delete from observations where {at(5)}", "checkpoint expert-3, sequence 5, position 7: 0 rows where 1 is due"),
        (f"insert into observations from observations where {at(6)}", "checkpoint expert-3, sequence 6, position 7: 2 rows where 1 is due"),
    ],
    "positions": [
        ("delete from positions where sequence = 3 and position = 7", "table positions, sequence 3"),
        ("update positions set position = 6 where sequence = 4 and position = 7", "table positions, sequence 4"),
        ("update sequences set tokens = 47 where sequence = 5", "table positions, sequence 5: 48 positions from 0 to 47, 47 expected"),
    ],
    "vocab": [
        ("update vocab set occurrences = occurrences + 1 where token_id = 3", "table vocab, token_id 3: occurrences"),
        ("delete from vocab where token_id = 4", "token_id 4 is not in vocab"),
    ],
    "token_stats": [
        (f"update token_stats set mean_depth = mean_depth + 0.01 where {token_at(3)}", "table token_stats, checkpoint token-3, token_id 3, half 1"),
        (f"update token_stats set occurrences_depth_2 = occurrences_depth_2 + 1 where {token_at(4)}", "table token_stats, checkpoint token-3, token_id 4, half 1"),
        ("delete from token_stats where checkpoint = 'token-3' and token_id = 5", "table token_stats, checkpoint token-3, token_id 5"),
    ],
    "sequence_stats": [
        (f"update sequence_stats set mean_loss_random = mean_loss_random + 0.0001 where {sequence_at(2)}", "table sequence_stats, checkpoint expert-3, sequence 2"),
        (f"update sequence_stats set spearman_loss = 0.5 where {sequence_at(3)}", "table sequence_stats, checkpoint expert-3, sequence 3"),
        (f"update sequence_stats set partial_spearman_entropy = null where {sequence_at(4)}", "table sequence_stats, checkpoint expert-3, sequence 4"),
    ],
    "what no row gives": [(f"update sequence_stats set ties_2 = 7 where {sequence_at(2)}", "table sequence_stats: a value was altered")],
    "group_sums": [(f"update group_sums set positions = positions + 1 where {sequence_at(2)}", "table group_sums, checkpoint expert-3, sequence 2")],
    "facts": [
        ("update policies set seed = 9 where policy = 'random' and checkpoint = 'expert-3'", "table policies"),
        ("update checkpoints set name = 'x' where checkpoint = 'expert-3'", "table checkpoints"),
        ("update meta set value = 'x' where key = 'dataset'", "table meta"),
        ("delete from digests where table_name = 'positions' and sequence = 4", "table positions, sequence 4"),
    ],
    "the version": [("update meta set value = '2' where key = 'schema_version'", "table meta, key schema_version: 2 where 1 is due")],
    "tables": [
        ("comment on column vocab.token is 'x'", "table vocab, column token has another type or comment than the schema"),
        ("drop view losses", "table losses, column checkpoint is missing"),
        ("drop table token_stats", "table token_stats, column checkpoint is missing"),
    ],
}


@pytest.mark.parametrize("name", ALTERED)
def test_every_altered_key_count_and_table_is_named(altered_file, capsys, name):
    """What is altered together is named each by itself: the places differ."""
    alter(altered_file, *(statement for statement, _ in ALTERED[name]))
    code, said = found(altered_file, capsys)
    assert code == 1
    assert [place for _, place in ALTERED[name] if place not in said] == []


def test_depth_counts_follow_from_the_capacity(altered_file, capsys):
    """At 48 tokens expert-3 keeps 48, 32 and 16: 16 at each depth. Two swapped depths leave counts, one moved does not."""
    alter(altered_file, f"update observations set depth_inverted = if(depth_inverted = 1, 2, 1) where {at(5)}")
    said = found(altered_file, capsys)[1]
    assert "checkpoint expert-3, sequence 5: depth_inverted 0 to 3 counts [0, 1" in said and "where [0, 16, 16, 16] is due" in said


def test_other_weights_are_named(written_file, tmp_path, capsys):
    (tmp_path / "suite").mkdir()
    code, said = found(written_file, capsys, "--checkpoints", str(tmp_path / "suite"))
    assert code == 1 and f"checkpoint expert-2: no folder under {tmp_path / 'suite'} holds weights with SHA-256" in said


def test_no_file_and_no_database(tmp_path, capsys):
    assert found(tmp_path / "none.duckdb", capsys) == (2, f"error: No database at {tmp_path / 'none.duckdb'}. Build one: python -m precompute demo --output {tmp_path / 'none.duckdb'}\n")
    (tmp_path / "text.duckdb").write_text("not a database")
    code, said = found(tmp_path / "text.duckdb", capsys)
    assert code == 1 and said.startswith("FAILED the file cannot be read through:")
