"""Token types by their mean depth. Analysis, measure 7."""

import numpy as np
import pandas as pd

from db.intervals import divide

FULL_SIZE = 2_047_000  # scored positions of 1,000 sequences of 2,048: where the default minimum is 500
FULL_MINIMUM = 500
MEANS = ("vanilla_loss", "vanilla_entropy", "benefit")


def default_minimum(scored: int) -> int:
    """The least occurrences of a token type in a list: 500 at full size, in proportion for other files."""
    return max(1, round(FULL_MINIMUM * scored / FULL_SIZE))


def spread(sums: pd.DataFrame, keys: list[str], recursions: int) -> pd.DataFrame:
    """Rows of token_sums, which are by depth, as one row per `keys`: occurrences, occurrences_depth_<d>, sum_<mean>."""
    rows = sums[[*keys, "occurrences", *(f"sum_{name}" for name in MEANS)]].copy()
    depth = sums["depth"]
    for level in range(1, recursions + 1):
        rows[f"occurrences_depth_{level}"] = sums["occurrences"].where(depth == level, 0).where(depth.notna())
    return rows.groupby(keys).sum(min_count=1).reset_index()


def statistics(spread: pd.DataFrame) -> pd.DataFrame:
    """The same rows with sum_depth, mean_depth, sd_depth (divisor n) and mean_<mean> in place of the sums; NaN without a depth."""
    levels = [name for name in spread if name.startswith("occurrences_depth_")]
    depth = np.array([int(name.removeprefix("occurrences_depth_")) for name in levels])
    at_depth = spread[levels].to_numpy(dtype=np.float64).reshape(len(spread), len(levels))
    n = spread["occurrences"].to_numpy(dtype=np.float64)
    total = at_depth @ depth if levels else np.full(len(spread), np.nan)
    squares = at_depth @ depth**2 if levels else total
    frame = spread.drop(columns=[f"sum_{name}" for name in MEANS])
    frame["sum_depth"], frame["mean_depth"] = total, divide(total, n)
    frame["sd_depth"] = divide(np.sqrt(n * squares - total**2), n)  # whole numbers under the root
    for name in MEANS:
        frame[f"mean_{name}"] = divide(spread[f"sum_{name}"].to_numpy(dtype=np.float64), n)
    return frame


def table(spread: pd.DataFrame, text: pd.DataFrame, minimum: int) -> pd.DataFrame:
    """One row is a token type with at least `minimum` occurrences, deepest first, ties by id.

    spread: a row per token_id; text: token_id, token, is_special. Columns: token_id, token, is_special,
    n, mean_depth, sd_depth (spread of its occurrences), mean_vanilla_loss, mean_vanilla_entropy and
    mean_benefit in nats, occurrences_depth_<d>.
    """
    frame = statistics(spread[spread["occurrences"] >= minimum]).merge(text, on="token_id", how="left")
    frame = frame.sort_values(["mean_depth", "token_id"], ascending=[False, True], ignore_index=True).rename(columns={"occurrences": "n"})
    first = ["token_id", "token", "is_special", "n", "mean_depth", "sd_depth", *(f"mean_{name}" for name in MEANS)]
    return frame[first + [name for name in frame if name.startswith("occurrences_depth_")]]
