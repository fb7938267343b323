"""The measures once more, from the rows of a file, in plain pandas and scipy: no line is shared with db."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from db.connection import CONFIGURATION

RESAMPLES, SEED = 10_000, 20250720


def scored(path, checkpoint, where="true"):
    """The scored observations of a checkpoint that pass a filter, read by DuckDB alone."""
    return _rows(path, checkpoint, f"next_token_id is not null and ({where})")


def positions(path, checkpoint, where="true"):
    """All its observations that pass a filter."""
    return _rows(path, checkpoint, where)


def _rows(path, checkpoint, condition):
    with duckdb.connect(str(path), read_only=True, config=CONFIGURATION) as con:
        rows = con.execute(f"select * from observations where checkpoint = $1 and ({condition}) order by sequence, position", [checkpoint]).df()
    numbers = [name for name in rows if name != "checkpoint"]
    return rows.astype({name: float for name in numbers})


def spearman(rows, name):
    """rho per sequence, NaN under 20 rows or with a constant side."""
    found = {}
    for sequence, part in rows.groupby("sequence"):
        part = part[["depth", name]].dropna()
        varies = len(part) >= 20 and part["depth"].nunique() > 1 and part[name].nunique() > 1
        found[sequence] = spearmanr(part["depth"], part[name]).statistic if varies else np.nan
    return pd.Series(found, dtype=float)


def partial(rows, name, longest, bins=64):
    """The same after a dense least-squares fit on token and position dummies."""
    rows = rows.dropna(subset=["depth", name])
    rows = rows[rows.groupby("token_id")["token_id"].transform("size") >= 2]
    place = (rows["position"] * bins) // longest
    design = pd.get_dummies(rows["token_id"].astype(int).astype(str)).join(pd.get_dummies(place.astype(int).astype(str), prefix="bin")).to_numpy(float)
    left = pd.DataFrame({"sequence": rows["sequence"]})
    for column in ("depth", name):
        values = rows[column].to_numpy()
        left[column] = np.round(values - design @ np.linalg.lstsq(design, values, rcond=None)[0], 6) + 0.0 if len(rows) else values
    return spearman(left, name)


def lexical(rows, is_fitted):
    """R², modal accuracy, accuracy of the commonest depth, share of the largest group in the held-out half."""
    fitted, held = rows[is_fitted], rows[~is_fitted]
    expected = held["token_id"].map(fitted.groupby("token_id")["depth"].mean()).fillna(fitted["depth"].mean())
    commonest = fitted["depth"].value_counts().sort_index().idxmax()
    modes = fitted.groupby("token_id")["depth"].agg(lambda depths: depths.value_counts().sort_index().idxmax())
    error = ((held["depth"] - expected) ** 2).sum()
    spread = ((held["depth"] - held["depth"].mean()) ** 2).sum()
    return {
        "r2": 1 - error / spread if spread else np.nan,
        "modal_accuracy": (held["token_id"].map(modes).fillna(commonest) == held["depth"]).mean(),
        "commonest_accuracy": (held["depth"] == commonest).mean(),
        "largest_depth_share": held["depth"].value_counts(normalize=True).max(),
    }


def interval(numerator, denominator):
    """95% percentile bootstrap over sequences of a ratio of sums, by gathering: a series of each per sequence."""
    numerator, denominator = np.asarray(numerator, float), np.asarray(denominator, float)
    random, count = np.random.default_rng(SEED), len(numerator)
    ratios = []
    for _ in range(RESAMPLES // 1000):
        drawn = random.integers(0, count, (1000, count))
        ratios.append(numerator[drawn].sum(axis=1) / denominator[drawn].sum(axis=1))
    return np.quantile(np.concatenate(ratios), [0.025, 0.975])


def same(found, expected):
    """A leaf against a value; undefined is null, never a number."""
    if expected is None or np.isnan(expected):
        assert found["value"] is None
    else:
        assert found["value"] == pytest.approx(expected, abs=2e-7)


def _mean(values):
    return values.mean() if values.notna().any() else np.nan


def compare(found, path, checkpoint, study, where="true"):
    """Every figure of a checkpoint in the report's JSON against the rows."""
    rows, every = scored(path, checkpoint, where), positions(path, checkpoint, where)
    depths = range(1, study.recursions(checkpoint) + 1)
    policies = study.policies_of(checkpoint)
    assert (found["scored"], found["sequences"]) == (len(rows), rows["sequence"].nunique())
    for policy in policies:
        same(found["mean_loss"][policy], _mean(rows[f"loss_{policy}"]))
        own = every["depth" if policy == "router" else f"depth_{policy}"]
        same(found["block_share"][policy], own.sum() / (len(depths) * len(every)))
    for place, depth in enumerate(depths):
        at = rows[rows["depth"] == depth]
        same(found["depth_share"][place], len(at) / len(rows))
        same(found["loss_by_depth"][place], _mean(at["vanilla_loss"]))
        same(found["benefit_by_depth"][place], _mean(at["benefit"]))
        assert found["loss_by_depth"][place]["n"] == len(at)
    for place in range(10):
        at, by_entropy = rows[rows["loss_decile"] == place + 1], rows[rows["entropy_decile"] == place + 1]
        same(found["mean_depth_by_decile"][place], _mean(at["depth"]))
        for depth in depths:
            same(found["depth_share_by_decile"][place][depth - 1], _mean((at["depth"] == depth).astype(float)))
        same(found["benefit_by_decile"][place], _mean(at["benefit"]))
        same(found["benefit_by_entropy_decile"][place], _mean(by_entropy["benefit"]))
    _compare_correlations(found, rows, study.counts["longest"])
    _compare_lexical(found, rows)
    _compare_swaps(found, rows, policies, depths)


def _compare_correlations(found, rows, longest):
    for short, name in (("loss", "vanilla_loss"), ("entropy", "vanilla_entropy"), ("benefit", "benefit")):
        rho = spearman(rows, name)
        same(found[f"spearman_{short}"], rho.mean())
        assert found[f"spearman_{short}"]["sequences"] == rho.notna().sum()
    for short, name in (("loss", "vanilla_loss"), ("entropy", "vanilla_entropy")):
        rho = partial(rows, name, longest)
        same(found[f"partial_spearman_{short}"], rho.mean())
        assert found[f"partial_spearman_{short}"]["sequences"] == rho.notna().sum()


def _compare_lexical(found, rows):
    is_even = rows["sequence"] % 2 == 0
    if is_even.all():
        return same(found["lexical_r2"], None)
    expected = lexical(rows, is_even)
    same(found["lexical_r2"], expected["r2"])
    same(found["modal_accuracy"], expected["modal_accuracy"])
    same(found["largest_depth_share"], expected["largest_depth_share"])
    assert found["lexical_r2"]["n"] == (~is_even).sum()


def _compare_swaps(found, rows, policies, depths):
    expected = {policy for policy in policies if policy not in ("router", "router_open")}
    assert set(found["added_loss"]) == expected
    for policy in expected:
        baseline = "router_open" if policy.endswith("_open") and policy != "router_depths_open" else "router"
        added = rows[f"loss_{policy}"] - rows[f"loss_{baseline}"]
        same(found["added_loss"][policy], _mean(added))
        for depth in depths:
            same(found["added_loss_by_depth"][policy][depth - 1], _mean(added[rows["depth"] == depth]))
        for decile in range(1, 11):
            same(found["added_loss_by_decile"][policy][decile - 1], _mean(added[rows["loss_decile"] == decile]))
        if not policy.endswith("_open"):
            opened = rows[f"loss_{policy}_open"] - rows["loss_router_open"]
            same(found["gate_effect"][policy], _mean(opened - added))
    same(found["gate_effect"]["router_depths_open"], _mean(rows["loss_router_depths_open"] - rows["loss_router"]))
