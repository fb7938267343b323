"""Facts, passages and deciles of a file against what pandas says of its rows."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import db
from db import query, schema
from db.errors import UserError
from tests import small_file


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return small_file.write(tmp_path_factory.mktemp("file") / "small.duckdb")


@pytest.fixture(scope="module")
def study(path):
    return db.open(path)


@pytest.fixture(scope="module")
def rows(path):
    """Every observation, read by another client of the file."""
    with duckdb.connect(str(path), read_only=True, config=db.connection.CONFIGURATION) as con:
        return con.execute("select * from tokens order by checkpoint, sequence, position").df()


def test_facts_of_the_file(study):
    assert study.meta["schema_version"] == "1"
    assert study.counts == {"sequences": 40, "positions": 1320, "scored": 1280, "documents": study.sequences["documents"].sum(), "longest": 33}
    assert (study.reference, study.observed, study.routed) == ("vanilla", ["vanilla", "expert-3", "token-2"], ["expert-3", "token-2"])
    assert study.recursions("expert-3") == 3 and study.recursions("vanilla") == 1
    assert study.policies_of("token-2")[:4] == ["router", "router_open", "shuffled", "shuffled_open"]


def test_the_dictionary_holds_every_column_with_its_comment(study):
    dictionary = study.dictionary
    assert (dictionary["comment"].str.len() > 0).all()
    assert set(dictionary.query("column_name == ''")["table_name"]) >= {"meta", "observations", "tokens", "losses", "group_sums"}
    names = dictionary.query("table_name == 'observations' and column_name != ''")["column_name"].tolist()
    assert names == [name for name, _, _ in schema.observation_columns(3)]


def test_a_passage_is_the_sequence_in_order_with_text_and_the_checkpoints_own_policies(study, rows):
    passage = study.passage("token-2", 7)
    expected = rows.query("checkpoint == 'token-2' and sequence == 7")
    assert passage["position"].tolist() == list(range(33))
    for name in ("token", "next_token", "depth", "loss_router", "loss_depth_2_open", "probability_2", "benefit"):
        pd.testing.assert_series_equal(passage[name], expected[name], check_index=False, check_dtype=False)
    assert pd.isna(passage["next_token_id"].iloc[-1]) and pd.isna(passage["loss_percentile"].iloc[-1])
    assert not {"loss_random", "loss_depth_3", "probability_3"} & set(passage)


def test_a_percentile_is_the_share_of_the_files_losses_that_are_no_larger(study, rows):
    passage, losses = study.passage("expert-3", 3), rows.query("checkpoint == 'expert-3'")["vanilla_loss"].dropna()
    expected = [100 * (losses <= loss).mean() for loss in passage["vanilla_loss"][:-1]]
    np.testing.assert_allclose(passage["loss_percentile"][:-1], expected)


def test_unknown_names_are_said_with_those_that_are_known(study):
    with pytest.raises(UserError, match="small.duckdb has no observations of checkpoint 'expert-9'; it has vanilla, expert-3, token-2."):
        study.passage("expert-9", 0)
    with pytest.raises(UserError, match="small.duckdb has no sequence 40; it has 40, numbered from 0."):
        study.passage("expert-3", 40)
    with pytest.raises(UserError, match="by loss or by entropy, not by 'surprise'"):
        study.deciles("expert-3", by="surprise")


@pytest.mark.parametrize("where", [None, "true", "token_id <> 0 and position > 3", "sequence in (select sequence from sequences where documents > 9)"])
@pytest.mark.parametrize("by", ["loss", "entropy"])
@pytest.mark.parametrize("checkpoint", ["expert-3", "token-2"])
def test_deciles_are_pandas_means(study, rows, path, checkpoint, by, where):
    table = study.deciles(checkpoint, by=by, where=where)
    with duckdb.connect(str(path), read_only=True, config=db.connection.CONFIGURATION) as con:
        kept = con.execute(f"select * from observations where checkpoint = $1 and next_token_id is not null and ({where or 'true'})", [checkpoint]).df()
    groups = kept.groupby(f"{by}_decile")
    assert table["n"].tolist() == groups.size().tolist()
    np.testing.assert_allclose(table["mean_depth"], groups["depth"].mean())
    for name in ("vanilla_loss", "benefit", "benefit_open"):
        np.testing.assert_allclose(table[name], groups[name].apply(lambda values: values.astype(float).mean()), atol=1e-7)
    for depth in range(1, study.recursions(checkpoint) + 1):
        np.testing.assert_allclose(table[f"share_depth_{depth}"], (kept["depth"] == depth).groupby(kept[f"{by}_decile"]).mean())


def test_stored_sums_answer_as_the_query_does(study):
    for checkpoint in study.observed:
        pd.testing.assert_frame_equal(study.deciles(checkpoint), study.deciles(checkpoint, where="true"), check_exact=True)


def test_a_filter_on_stored_sums_is_refused(study):
    with pytest.raises(ValueError, match="The query stored_group_sums cannot be filtered."):
        study.frame("stored_group_sums", "depth > 1", checkpoint="expert-3", scale="loss", columns=["benefit"])


def test_a_filter_keeps_the_files_deciles_unless_deciles_within_it_are_asked_for(study):
    easy = study.deciles("expert-3", where="loss_decile <= 5")
    assert easy["n"].tolist() == [128] * 5 + [0] * 5
    assert easy["mean_depth"].isna().tolist() == [False] * 5 + [True] * 5
    within = study.deciles("expert-3", where="loss_decile <= 5", within=True)
    assert within["n"].tolist() == [64] * 10
    assert within["vanilla_loss"].is_monotonic_increasing


def test_an_empty_filter_gives_empty_deciles(study):
    table = study.deciles("expert-3", where="sequence < 0")
    assert table["n"].tolist() == [0] * 10 and table["mean_depth"].isna().all() and not table["reliable"].any()


def test_without_a_reference_nothing_has_a_decile(tmp_path):
    study = db.open(small_file.write(tmp_path / "alone.duckdb", small_file.Content(reference=False, kinds={"expert-2": ("expert", 2)})))
    assert study.reference is None
    assert study.deciles("expert-2")["n"].sum() == 0
    assert study.passage("expert-2", 0)["loss_percentile"].isna().all()


def test_without_text_a_passage_still_has_ids(tmp_path):
    study = db.open(small_file.write(tmp_path / "ids.duckdb", small_file.Content(tokenizer=False)))
    passage = study.passage("expert-3", 0)
    assert passage["token"].isna().all() and passage["token_id"].notna().all()


def test_policies_that_were_not_run_leave_no_column_and_no_benefit(tmp_path):
    study = db.open(small_file.write(tmp_path / "few.duckdb", small_file.Content(without=("depth_1", "random"))))
    assert "loss_depth_1" not in study.passage("expert-3", 0)
    assert study.deciles("expert-3")["benefit"].isna().all()


@pytest.mark.parametrize(
    "where, reason",
    [
        ("depth >", "is not one SQL condition: Parser Error"),
        ("1 = 1) or (2 = 2", "is not one SQL condition: Parser Error"),
        ("true) union select (true", "is not one SQL condition: Parser Error"),
        ("true; drop table meta", "is not one SQL condition: Parser Error"),
        ("loudness > 2", 'does not run: Binder Error: Referenced column "loudness" not found'),
        ("token_id = 'the'", "does not run: Conversion Error"),
    ],
)
def test_a_filter_that_does_not_run_is_said(study, where, reason):
    with pytest.raises(UserError) as refused:
        study.deciles("expert-3", where=where)
    assert str(refused.value).startswith(f"The filter {where!r} {reason}")


def test_a_comment_in_a_filter_ends_with_it(study):
    assert study.deciles("expert-3", where="sequence < 3 -- the first")["n"].sum() == 96


def _questions():
    return {name: found for name, found in query.named().items() if found.sql.startswith(("select", "with"))}


def test_every_question_says_what_a_row_is():
    assert [name for name, found in _questions().items() if not found.row.startswith(("One row", "A row"))] == []


def test_every_query_is_used():
    top = query.FOLDER.parent.parent
    sources = "".join(path.read_text() for folder in ("db", "pages", "precompute") for path in (top / folder).rglob("*.py"))
    assert [name for name in query.named() if f'"{name}"' not in sources] == []


def test_no_question_selects_everything_and_all_rows_come_in_a_stated_order():
    assert [name for name, found in _questions().items() if "select *" in found.sql] == []
    unordered = [name for name, found in _questions().items() if "order by" not in found.sql and not found.row.startswith("One row:")]
    assert unordered == ["scored_positions", "held_out_cells"]  # the former are put in order when they are read, the latter need none


@pytest.mark.parametrize("where", ["position >= 3", "position in (select position from observations where depth = 2)", "random() < 0.9"])
def test_rows_come_by_sequence_and_position_whatever_the_filter(study, where):
    rows = study.rows("expert-3", ["depth"], where)
    assert list(rows) == ["sequence", "position", "depth"]
    pd.testing.assert_frame_equal(rows, rows.sort_values(["sequence", "position"], ignore_index=True))


def test_rows_that_come_in_another_order_are_put_in_order(study):
    rows = study.rows("expert-3", ["depth"])
    pd.testing.assert_frame_equal(query.in_order(rows.sample(frac=1, random_state=0)), rows)


@pytest.mark.parametrize(("where", "apart"), [
    ("position >= 3 and token_id in (select token_id from vocab where occurrences > 9)", False),
    ("loss_decile <= 5 or vanilla_loss is null", False),
    ("depth = 1", True),
    ("checkpoint = 'token-2'", True),
    ("columns('dep..') = 1", True),
    ("position in (select position from observations o where o.depth = 2)", True),
])
def test_what_passes_is_counted_for_each_checkpoint(study, where, apart):
    """A filter on the text alone is counted once for all of them."""
    assert study.tells_checkpoints_apart(where) is apart
    pd.testing.assert_frame_equal(study.kept(where), study.frame("kept_counts", where, checkpoints=study.observed))


def test_figures_that_are_not_asked_for_are_left_out_and_change_no_others(study):
    every = study.deciles("expert-3", "entropy")
    pd.testing.assert_frame_equal(study.deciles("expert-3", "entropy", figures=["benefit"]), every[["decile", "n", "sequences", "reliable", "benefit", "benefit_low", "benefit_high"]])
    shares = study.depths_by_decile("expert-3", figures=["share"])
    assert list(shares) == ["decile", "depth", "n", "sequences", "reliable", "share", "share_low", "share_high"]
    pd.testing.assert_frame_equal(shares, study.depths_by_decile("expert-3")[list(shares)])
