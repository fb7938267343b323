"""The measures once more, from the rows of a file, in plain pandas and scipy: no line is shared with db."""

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

RESAMPLES, SEED = 10_000, 20250720


def scored(path, checkpoint, where="true"):
    """The scored observations of a checkpoint that pass a filter, read by DuckDB alone."""
    return _rows(path, checkpoint, f"next_token_id is not null and ({where})")


def positions(path, checkpoint, where="true"):
    """All its observations that pass a filter."""
    return _rows(path, checkpoint, where)


def _rows(path, checkpoint, condition):
    import duckdb

    from db.connection import CONFIGURATION

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
