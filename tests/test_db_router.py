"""What the router gives to kept and dropped tokens, a token's occurrences, and the tokens that identity explains worst: against pandas."""

import numpy as np
import pandas as pd
import pytest

import db
from db.errors import UserError
from tests import recomputed, small_file


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return small_file.write(tmp_path_factory.mktemp("router") / "small.duckdb")


@pytest.fixture(scope="module")
def study(path):
    return db.open(path)


def is_kept(rows, checkpoint, recursion):
    return rows["depth"] >= recursion if checkpoint == "expert-3" else rows["depth"] == recursion


@pytest.mark.parametrize("where", [None, "sequence < 12 and position > 3"])
@pytest.mark.parametrize("checkpoint", ["expert-3", "token-2"])
def test_probabilities_of_kept_and_dropped_are_those_of_all_positions(study, path, checkpoint, where):
    rows, found = recomputed.positions(path, checkpoint, where or "true"), study.router(checkpoint, where=where)
    for (recursion, kept), means in found.means.set_index(["recursion", "is_kept"]).iterrows():
        values = rows.loc[is_kept(rows, checkpoint, recursion) == kept, f"probability_{recursion}"].dropna()
        assert means["n"] == len(values)
        assert means["mean"] == pytest.approx(values.mean(), abs=1e-7)
        assert means["mean_low"] < means["mean"] < means["mean_high"]
        bins = found.values.query("recursion == @recursion and is_kept == @kept")
        counts, _ = np.histogram(values, bins=50, range=(0, 1))
        assert bins["n"].tolist() == counts[counts > 0].tolist()
        assert bins["share"].sum() == pytest.approx(1)


def test_a_quantity_that_was_not_recorded_gives_no_rows(study):
    found = study.router("expert-3", "margin")
    assert found.values.empty and found.means.empty
    assert study.router("expert-3", where="sequence < 0").means.empty


def test_the_router_has_no_other_quantity(study):
    with pytest.raises(UserError, match="The router has a probability and a margin, not 'score'."):
        study.router("expert-3", "score")


def test_ties_are_those_of_the_sequences_counted_and_unknown_without_any(study):
    assert study.router("expert-3").means["ties"].tolist() == [0] * len(study.router("expert-3").means)
    assert study.router("token-2").means["ties"].isna().all()


@pytest.mark.parametrize("where", [None, "vanilla_loss > 1"])
def test_every_occurrence_is_found_at_its_depth_with_the_tokens_around_it(study, path, where):
    rows = recomputed.scored(path, "expert-3", where or "true").query("token_id == 1")
    found = study.occurrences("expert-3", 1, each=10_000, reach=2, where=where)
    assert found.groupby("depth").size().to_dict() == rows.groupby("depth").size().to_dict()
    assert sorted(zip(found["sequence"], found["position"])) == sorted(zip(rows["sequence"], rows["position"]))
    for row in found.head(20).itertuples():
        passage = study.passage("expert-3", row.sequence)
        texts = passage["token"].tolist()
        assert row.before == "".join(texts[max(0, row.position - 2) : row.position])
        assert (row.token, row.after) == (" the", "".join(texts[row.position + 1 : row.position + 3]))
        assert row.vanilla_loss == passage["vanilla_loss"][row.position]


def test_few_occurrences_come_from_all_over_the_file_and_count_the_rest(study):
    found = study.occurrences("expert-3", 1, each=3)
    everything = study.occurrences("expert-3", 1, each=10_000)
    assert found.groupby("depth").size().tolist() == [3, 3, 3]
    assert found.groupby("depth")["at_depth"].first().tolist() == everything.groupby("depth").size().tolist()
    assert found["sequence"].nunique() > 3


def test_without_text_the_context_is_ids(tmp_path):
    study = db.open(small_file.write(tmp_path / "ids.duckdb", small_file.Content(tokenizer=False)))
    found = study.occurrences("expert-3", 1, each=1, reach=1)
    passage = study.passage("expert-3", found["sequence"][0])
    assert found["token"][0] == " [1]"
    assert found["after"][0] == f" [{passage['token_id'][found['position'][0] + 1]}]"


@pytest.mark.parametrize("where", [None, "position > 3"])
def test_tokens_are_scored_on_the_half_they_were_not_fitted_on(study, path, where):
    rows = recomputed.scored(path, "expert-3", where or "true")
    fitted, held = rows[rows["sequence"] % 2 == 0], rows[rows["sequence"] % 2 == 1].copy()
    held["expected"] = held["token_id"].map(fitted.groupby("token_id")["depth"].mean()).fillna(fitted["depth"].mean())
    held["error"] = (held["depth"] - held["expected"]) ** 2
    found = study.lexical_tokens("expert-3", 1, where).set_index("token_id")
    groups = held.groupby("token_id")
    pd.testing.assert_series_equal(found["n"].sort_index(), groups.size(), check_names=False, check_dtype=False, check_index_type=False)
    np.testing.assert_allclose(found["squared_error"].sort_index(), groups["error"].mean())
    np.testing.assert_allclose(found["share_of_error"].sort_index(), groups["error"].sum() / held["error"].sum())
    assert found["squared_error"].is_monotonic_decreasing
    r2 = 1 - (found["squared_error"] * found["n"]).sum() / ((held["depth"] - held["depth"].mean()) ** 2).sum()
    assert r2 == pytest.approx(study.lexical("expert-3", where).query("split == 'even → odd' and figure == 'r2'")["value"].iloc[0])


def test_a_tokens_minimum_counts_both_halves(study):
    everything = study.lexical_tokens("expert-3", 1)
    assert study.lexical_tokens("expert-3", 30)["token_id"].tolist() == everything.query("fitted + n >= 30")["token_id"].tolist()

