"""Does depth follow difficulty? Rank correlations within sequences, plain and without token and position effects."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from db.correlation import spearman_by_sequence, two_way_residuals

BINS = 64


def correlation(rows: pd.DataFrame, name: str) -> tuple[NDArray, NDArray]:
    """Spearman's rho of depth with the column `name` in each sequence: (sequences, rho), NaN where undefined.

    rows: columns sequence, depth and `name`, one row per scored position.
    """
    rows = _without_nulls(rows, name)
    return spearman_by_sequence(rows["sequence"].to_numpy(), rows["depth"].to_numpy(), rows[name].to_numpy())


def residuals(rows: pd.DataFrame, name: str, longest: int, bins: int = BINS) -> pd.DataFrame:
    """Depth and the column `name` less token and position effects: columns sequence, depth and `name`, in millionths.

    rows also have position and token_id. Tokens that occur once among the rows are left out: they would
    fit themselves. Position effects are those of `bins` equal parts of the file's `longest` sequence.
    """
    rows = _without_nulls(rows, name)
    token = rows["token_id"].to_numpy()
    rows = rows[np.bincount(token)[token] >= 2] if len(rows) else rows
    token, place = rows["token_id"].to_numpy(), rows["position"].to_numpy() * bins // longest
    left = {column: two_way_residuals(token, place, rows[column].to_numpy()) for column in ("depth", name)}
    whole = {column: np.rint(values * 1e6).astype(np.int64) for column, values in left.items()}  # equal residuals are ties
    return pd.DataFrame({"sequence": rows["sequence"].to_numpy(), **whole})


def _without_nulls(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    missing = rows["depth"].isna() | rows[name].isna()
    return rows[~missing] if missing.any() else rows
