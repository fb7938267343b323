"""Measures on made-up rows against the recomputation: ties, constants, single and unseen tokens, NULLs, few sequences."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db import difficulty, groups, lexical, swaps, tokens
from db.intervals import ratio
from tests import recomputed

LONGEST = 30


@st.composite
def rows(draw):
    """Scored positions of up to six sequences of unequal length, few tokens, many ties; perhaps without a reference."""
    seed, sequences, distinct = draw(st.integers(0, 10_000)), draw(st.integers(1, 6)), draw(st.sampled_from([1, 2, 5, 40]))
    random = np.random.default_rng(seed)
    lengths = random.integers(1, LONGEST, sequences)
    size = lengths.sum()
    frame = pd.DataFrame({"sequence": np.repeat(np.arange(sequences), lengths), "position": np.concatenate([np.arange(length) for length in lengths])})
    frame["token_id"] = random.integers(0, distinct, size)
    frame["depth"] = draw(st.sampled_from([np.ones(size, int), random.integers(1, 4, size), 1 + frame["token_id"].to_numpy() % 3]))
    for name in ("vanilla_loss", "vanilla_entropy", "benefit"):
        values = random.integers(0, 5, size) / 4 + frame["token_id"] % 3
        frame[name] = np.nan if draw(st.booleans()) and name == "benefit" else values.astype(np.float32)
    if draw(st.booleans()):
        frame[["vanilla_loss", "vanilla_entropy"]] = np.nan
    return frame


@settings(deadline=None, max_examples=60)
@given(rows())
def test_correlations_by_sequence_are_the_recomputed_ones(frame):
    stats = difficulty.by_sequence(frame, LONGEST).set_index("sequence")
    assert stats["scored"].to_dict() == frame.groupby("sequence").size().to_dict()
    for short, name in difficulty.AGAINST.items():
        np.testing.assert_allclose(stats[f"spearman_{short}"], recomputed.spearman(frame, name), atol=1e-9)
    for short in ("loss", "entropy"):
        expected = recomputed.partial(frame, difficulty.AGAINST[short], LONGEST).reindex(stats.index)
        np.testing.assert_allclose(stats[f"partial_spearman_{short}"], expected, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(rows())
def test_lexical_figures_are_the_recomputed_ones(frame):
    is_fitted = (frame["sequence"] % 2 == 0).to_numpy()
    found = lexical.fit(lexical.held_out(frame, is_fitted))
    if is_fitted.all():
        return
    for name, expected in recomputed.lexical(frame, is_fitted).items():
        value = getattr(found, name).value
        assert (np.isnan(value) and np.isnan(expected)) or value == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(rows(), st.integers(1, 6))
def test_token_types_are_pandas_groups(frame, minimum):
    sums = frame.assign(half=frame["sequence"] % 2).groupby(["token_id", "half", "depth"]).agg(
        occurrences=("position", "size"), sum_vanilla_loss=("vanilla_loss", lambda x: x.sum(min_count=1)),
        sum_vanilla_entropy=("vanilla_entropy", lambda x: x.sum(min_count=1)), sum_benefit=("benefit", lambda x: x.sum(min_count=1)),
    ).reset_index()  # fmt: skip
    text = pd.DataFrame({"token_id": range(40), "token": "x", "is_special": False})
    found = tokens.table(tokens.spread(sums, ["token_id"], 3), text, minimum).set_index("token_id").sort_index()
    expected = frame.groupby("token_id").agg(n=("depth", "size"), mean=("depth", "mean"), sd=("depth", lambda x: x.std(ddof=0)), loss=("vanilla_loss", "mean"))
    expected = expected[expected["n"] >= minimum]
    for name, other in (("n", "n"), ("mean_depth", "mean"), ("sd_depth", "sd"), ("mean_vanilla_loss", "loss")):
        np.testing.assert_allclose(found[name], expected[other], atol=1e-6)
    assert (found[[f"occurrences_depth_{depth}" for depth in (1, 2, 3)]].sum(axis=1) == found["n"]).all()


def test_one_token_everywhere_explains_nothing_and_its_mode_is_the_shallower_of_two():
    frame = pd.DataFrame({"sequence": [0, 0, 1, 1], "token_id": 3, "depth": [2, 1, 2, 1]})
    found = lexical.fit(lexical.held_out(frame, np.array([True, True, False, False])))
    assert (found.r2.value, found.modal_accuracy.value, found.commonest_accuracy.value) == (0, 0.5, 0.5)


def test_an_unseen_token_gets_the_mean_and_the_mode_of_the_fitting_half():
    frame = pd.DataFrame({"sequence": [0, 0, 0, 1, 1], "token_id": [1, 1, 2, 9, 2], "depth": [1, 1, 3, 1, 3]})
    found = lexical.fit(lexical.held_out(frame, np.array([True, True, True, False, False])))
    mean = 5 / 3  # of the depths 1, 1, 3
    assert found.r2.value == pytest.approx(1 - (1 - mean) ** 2 / 2)
    assert found.modal_accuracy.value == 1.0


def test_depth_that_does_not_vary_has_no_r2():
    frame = pd.DataFrame({"sequence": [0, 1, 1], "token_id": [1, 1, 2], "depth": [2, 2, 2]})
    found = lexical.fit(lexical.held_out(frame, np.array([True, False, False])))
    assert np.isnan(found.r2.value) and found.r2.n == 2


def test_a_lookup_table_leaves_no_unexplained_position():
    frame = pd.DataFrame({"sequence": np.repeat(range(4), 25), "position": np.tile(range(25), 4), "token_id": np.tile(range(5), 20)})
    frame["depth"] = 1 + frame["token_id"] % 3
    for name in ("vanilla_loss", "vanilla_entropy", "benefit"):
        frame[name] = np.random.default_rng(1).normal(size=100)
    stats = difficulty.by_sequence(frame, 25)
    assert stats["unexplained"].tolist() == [0] * 4 and stats["recurring"].tolist() == [25] * 4
    assert stats["partial_spearman_loss"].isna().all()
    changed = frame.assign(depth=frame["depth"].where(frame.index != 5, 3))
    assert difficulty.by_sequence(changed, 25)["unexplained"].sum() > 0


def _groups(losses):
    """Groups of 12 sequences of one position each, at depth 1, decile 1."""
    positions = np.zeros((12, 3, 11))
    positions[:, 1, 1] = 1
    return groups.Groups(positions, {name: positions * value for name, value in losses.items()})


def test_an_open_policy_is_compared_with_the_open_router_and_the_replay_with_the_router():
    found = _groups({"loss_router": 2.0, "loss_router_open": 2.5, "loss_random": 2.1, "loss_random_open": 3.0, "loss_router_depths_open": 2.25})
    names = ["router", "router_open", "random", "random_open", "router_depths_open"]
    compared, gated = swaps.compared(names), swaps.with_gate_effect(names)
    assert (compared, gated) == (["random", "random_open", "router_depths_open"], ["random", "router_depths_open"])
    np.testing.assert_allclose(swaps.added_loss(found, compared).value, [0.1, 0.5, 0.25])
    np.testing.assert_allclose(swaps.gate_effect(found, gated).value, [0.4, 0.25])


def test_a_policy_without_its_baseline_or_twin_is_left_out():
    assert swaps.compared(["router", "random", "random_open"]) == ["random"]
    assert swaps.with_gate_effect(["router", "router_open", "random", "inverted", "inverted_open"]) == ["inverted"]
    assert swaps.random_policy(["router", "shuffled"]) == "shuffled" and swaps.random_policy(["random"]) is None


def test_an_added_loss_by_decile_counts_only_that_decile():
    table = swaps.table_by(_groups({"loss_router": 2.0, "loss_random": 2.5}), ["router", "random"], "decile")
    assert table["decile"].tolist() == list(range(1, 11)) and table["n"].tolist() == [12] + [0] * 9
    assert table["added_loss"].iloc[0] == 0.5 and table["added_loss"].iloc[1:].isna().all()


def test_a_share_is_of_all_positions_in_the_denominator():
    assert ratio([[1, 1], [0, 2]], [[2, 2], [2, 2]]).value.tolist() == [0.25, 0.75]
