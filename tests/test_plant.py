"""Planted truths: every measure finds what was planted, and intervals cover what they should."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import db
from db import intervals
from db.correlation import spearman_by_sequence
from db.figures import figures
from db.report import report
from precompute import planted
from precompute.command import main
from tests import recomputed

SEQUENCES, LENGTH, VOCABULARY = 80, 128, 600


@pytest.fixture(scope="module", params=planted.TRUTHS)
def found(request, tmp_path_factory):
    """The truth, and the figures of an expert-choice and a token-choice checkpoint from a file the command wrote."""
    path = tmp_path_factory.mktemp("planted") / f"{request.param}.duckdb"
    sizes = ["--sequences", SEQUENCES, "--length", LENGTH, "--checkpoints", 2, "--vocabulary", VOCABULARY]
    assert main(["plant", *map(str, sizes), "--truth", request.param, "--output", str(path)]) == 0
    study = db.open(path)
    return request.param, path, {checkpoint: figures(study, checkpoint, in_full=False) for checkpoint in ("expert-3", "token-3")}


def _excludes_zero(estimate):
    return bool(estimate.low > 0 or estimate.high < 0)


def test_depth_follows_difficulty_where_that_was_planted(found):
    truth, _, all_figures = found
    for figures_ in all_figures.values():
        rho, partial = (figures_.correlations[name] for name in ("spearman_loss", "partial_spearman_loss"))
        if truth == "noise":
            assert not _excludes_zero(rho) and not _excludes_zero(partial)
        elif truth == "lexical":  # the link runs through the token alone
            assert rho.value > 0.2 and abs(partial.value) < 0.03
        elif truth == "sharpening":  # its losses are drawn anew, so they follow the difficulty less
            assert rho.low > 0.1 and partial.low > 0.05
        else:
            assert rho.low > 0.5 and partial.low > 0.3


def test_identity_explains_depth_where_that_was_planted(found):
    truth, _, all_figures = found
    for figures_ in all_figures.values():
        r2 = float(figures_.lexical.r2.value)
        assert {"lexical": r2 > 0.85, "noise": r2 < 0, "difficulty": -0.1 < r2 < 0.15}.get(truth, 0.2 < r2 < 0.5)


def test_what_is_only_sharper_loses_on_surprise_and_gains_at_every_entropy(found):
    truth, _, all_figures = found
    for figures_ in all_figures.values():
        by_loss, by_entropy = figures_.benefit_by_decile.value, figures_.benefit_by_entropy_decile.value
        if truth == "sharpening":
            assert by_loss[9] < -0.3 and by_loss[2] > 0.3 and (by_entropy > 0).all()
        elif truth in ("difficulty", "mixed", "lexical"):
            assert (by_loss > 0).all() and by_loss[9] > by_loss[0]


def test_gate_depth_and_neither_are_told_apart(found):
    truth, _, all_figures = found
    for checkpoint, policy in (("expert-3", "random"), ("token-3", "shuffled")):
        figures_ = all_figures[checkpoint]
        added = figures_.added_loss[figures_.compared.index(policy)]
        opened = figures_.added_loss[figures_.compared.index(f"{policy}_open")]
        gate = figures_.gate_effect[figures_.gated.index(policy)]
        if truth == "gate":
            assert added.low > 0.05 and abs(opened.value) < 0.005 and gate.high < -0.05
        elif truth in ("difficulty", "mixed", "lexical"):
            assert added.low > 0.02 and opened.low > 0.02 and abs(gate.value) < 0.005
        elif truth == "noise":
            assert max(abs(added.value), abs(opened.value), abs(gate.value)) < 0.005


def test_every_sequence_has_the_quota_of_expert_choice(found):
    _, path, _ = found
    with duckdb.connect(str(path), read_only=True, config=db.connection.CONFIGURATION) as con:
        counts = con.execute("select distinct list(depth order by depth) from observations where checkpoint = 'expert-3' group by sequence").fetchall()
    assert len(counts) == 1 and [counts[0][0].count(depth) for depth in (1, 2, 3)] == [43, 43, 42]


def test_an_independent_recomputation_agrees(tmp_path):
    path = tmp_path / "mixed.duckdb"
    assert main(["plant", "--sequences", "30", "--length", "64", "--checkpoints", "2", "--vocabulary", "100", "--output", str(path)]) == 0
    study = db.open(path)
    found = report(study, in_full=False).as_json()["checkpoints"]
    for checkpoint in study.routed:
        recomputed.compare(found[checkpoint], path, checkpoint, study)


def test_rows_are_not_independent(found):
    _, path, _ = found
    with duckdb.connect(str(path), read_only=True, config=db.connection.CONFIGURATION) as con:
        rows = con.execute("select sequence, document, token_id, ln(vanilla_loss) as difficulty from positions where vanilla_loss is not null").df()
    assert _intraclass_correlation(rows) >= 0.05
    frequencies = rows["token_id"].value_counts().to_numpy()
    assert frequencies[0] > 5 * frequencies[20] > 0
    assert (rows.groupby("document")["sequence"].nunique() > 1).any()


def _intraclass_correlation(rows):
    """Of sequences, from a one-way analysis of variance."""
    groups_ = rows.groupby("sequence")["difficulty"]
    size = groups_.size().mean()
    between = size * groups_.mean().var()
    within = groups_.var().mean()
    return (between - within) / (between + (size - 1) * within)


def _draw(ids, documents, start, stop):
    """Figures of the sequences start to stop as if they were a file of their own: mean depth of hard tokens, added loss, Spearman, R²."""
    behind = planted.latents(0, start, ids[start:stop], documents[start:stop], "mixed")
    columns = planted.observations(0, start, behind, "mixed", "expert", 3, ["router", "random"])
    depth, loss, added = columns["depth"][:, :-1], behind.loss[:, :-1], (columns["loss_random"] - columns["loss_router"])[:, :-1]
    is_hard = loss > 3.0
    count, size = depth.shape
    rows = pd.DataFrame({"sequence": np.repeat(np.arange(count), size), "token_id": ids[start:stop, :-1].ravel(), "depth": depth.ravel(), "vanilla_loss": loss.ravel()})
    rho = spearman_by_sequence(rows["sequence"].to_numpy(), rows["depth"].to_numpy(), rows["vanilla_loss"].to_numpy())[1]
    n = np.full(count, size)
    return {
        "mean loss": intervals.ratio(loss.sum(axis=1), n),
        "mean depth of hard positions": intervals.ratio((depth * is_hard).sum(axis=1), is_hard.sum(axis=1)),
        "added loss": intervals.ratio(added.sum(axis=1), n),
        "spearman": intervals.mean(rho, n),
    }


def test_intervals_cover_the_estimand_as_often_as_they_say():
    """500 draws of 200 sequences against the mean over all of them, which are 500 times as many."""
    draws, sequences, length = 500, 200, 32
    ids, documents = planted.text(0, draws * sequences, length, VOCABULARY)
    drawn = pd.DataFrame([_draw(ids, documents, start, start + sequences) for start in range(0, draws * sequences, sequences)])
    for name, estimates in drawn.items():
        truth = np.mean([estimate.value for estimate in estimates])
        coverage = np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])
        assert 0.925 <= coverage <= 0.97, (name, coverage)
