"""What the router gives to the tokens that it keeps and to those that it drops: probabilities, margins, ties."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from db.intervals import ratio

BINS = 50
QUANTITIES = ("probability", "margin")


@dataclass(frozen=True)
class Router:
    """values: one row is a recursion, is_kept and a bin: start, end, n, share (of the positions of its recursion and is_kept).

    means: one row is a recursion and is_kept: n, sequences, reliable, mean with its interval, and ties
    (positions tied at the recursion's threshold in the sequences counted; NaN where the file has none).
    """

    values: pd.DataFrame
    means: pd.DataFrame


def router(by_recursion: dict[int, pd.DataFrame], ties: pd.DataFrame) -> Router:
    """by_recursion: rows of the query router_values; ties: rows of the query ties."""
    used = {recursion: rows for recursion, rows in by_recursion.items() if len(rows)}
    values = [_values(rows).assign(recursion=recursion) for recursion, rows in used.items()]
    means = [_means(rows, _ties(ties, recursion, rows)).assign(recursion=recursion) for recursion, rows in used.items()]
    return Router(_under(values, ["recursion", "is_kept", "start", "end", "n", "share"]), _under(means, ["recursion", "is_kept", "n", "sequences", "reliable", "mean", "mean_low", "mean_high", "ties"]))


def _values(rows: pd.DataFrame) -> pd.DataFrame:
    low, high = rows["low"].iloc[0], rows["high"].iloc[0]
    edges = np.linspace(low, high, BINS + 1)
    frame = rows.groupby(["is_kept", "bin"])["positions"].sum().rename("n").reset_index()
    frame["start"], frame["end"] = edges[frame["bin"]], edges[frame["bin"] + 1]
    frame["share"] = frame["n"] / frame.groupby("is_kept")["n"].transform("sum")
    return frame


def _means(rows: pd.DataFrame, ties: float) -> pd.DataFrame:
    found = []
    for is_kept, part in rows.groupby("is_kept"):
        sums = part.groupby("sequence")[["sum_value", "positions"]].sum()
        row = ratio(sums["sum_value"], sums["positions"]).row(is_kept=is_kept)
        found.append({"mean": row.pop("value"), "mean_low": row.pop("low"), "mean_high": row.pop("high"), "ties": ties, **row})
    return pd.DataFrame(found)


def _ties(ties: pd.DataFrame, recursion: int, rows: pd.DataFrame) -> float:
    counted = ties.loc[ties["sequence"].isin(rows["sequence"]), f"ties_{recursion}"]
    return counted.sum(min_count=1)


def _under(frames: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
