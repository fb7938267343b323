"""Does depth follow difficulty? Rank correlations within sequences, plain and without token and position effects.

Analysis, measures 1 and 2, and the rank correlation of 5.
"""

from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from db.correlation import UNIT, TwoWay, spearman_by_sequence
from db.intervals import Estimate, mean

AGAINST = {"loss": "vanilla_loss", "entropy": "vanilla_entropy", "benefit": "benefit"}
COLUMNS = ["position", "token_id", "depth", *AGAINST.values()]
_PARTIAL = ("loss", "entropy")
BINS = 64
UNEXPLAINED = 0.05  # recursions: a depth nearer than this to its fit is a lookup
MEASURES = ["spearman_loss", "spearman_entropy", "partial_spearman_loss", "partial_spearman_entropy", "spearman_benefit"]


def by_sequence(rows: pd.DataFrame, longest: int, against: Collection[str] = tuple(AGAINST), bins: int = BINS) -> pd.DataFrame:
    """One row is a sequence, in order: what the tables of correlations are means of.

    rows: one per scored position, columns sequence and COLUMNS (of AGAINST those asked for); longest:
    length of the file's longest sequence. Returns sequence, scored, the MEASURES (rho, NaN where
    undefined), recurring (scored positions whose token occurs at least twice among the rows) and
    unexplained (of these, positions whose depth is more than UNEXPLAINED from what token and position
    predict).
    """
    sequence = rows["sequence"].to_numpy()
    stats = pd.DataFrame({"scored": np.bincount(sequence)}).query("scored > 0") if len(rows) else pd.DataFrame({"scored": []}, dtype=int)
    for short, name in ((short, AGAINST[short]) for short in against):
        kept = _without_nulls(rows, ["depth", name])
        _add(stats, f"spearman_{short}", *spearman_by_sequence(kept["sequence"].to_numpy(), kept["depth"].to_numpy(), kept[name].to_numpy()))
    fitted = _residuals(rows, longest, bins)
    stats[[f"partial_spearman_{short}" for short in against if short in _PARTIAL]] = np.nan
    for measure, sequences, rho in _partial(fitted):
        _add(stats, measure, sequences, rho)
    stats["recurring"] = fitted.groupby("sequence").size()
    stats["unexplained"] = (fitted["depth"].abs() > UNEXPLAINED * UNIT).groupby(fitted["sequence"]).sum()
    counts = ["recurring", "unexplained"]
    stats[counts] = stats[counts].fillna(0).astype(int)
    return stats.rename_axis("sequence").reset_index()


def sensitivity(rows: pd.DataFrame, longest: int) -> pd.DataFrame:
    """One row is another way to compute the partial correlations: 16 and 256 bins, each half of the sequences.

    Columns: variant, measure, value, low, high, n, sequences, reliable.
    """
    sequences = np.unique(rows["sequence"])
    is_first = rows["sequence"].isin(sequences[: len(sequences) // 2]).to_numpy()
    variants = {
        "16 bins": lambda: _residuals(rows, longest, 16),
        "256 bins": lambda: _residuals(rows, longest, 256),
        "first half": lambda: _residuals(rows[is_first], longest, BINS),
        "second half": lambda: _residuals(rows[~is_first], longest, BINS),
    }
    return pd.DataFrame([row for variant, fitted in variants.items() for row in _described(variant, fitted())])


def estimates(stats: pd.DataFrame) -> dict[str, Estimate]:
    """Each measure as the mean over the sequences that have one; `n` counts their positions."""
    return {
        measure: mean(stats[measure].to_numpy(dtype=np.float64), stats["recurring" if measure.startswith("partial") else "scored"].to_numpy())
        for measure in MEASURES
        if measure in stats
    }


def _residuals(rows: pd.DataFrame, longest: int, bins: int) -> pd.DataFrame:
    """sequence, and depth and difficulties less token and position effects, in millionths.

    Tokens that occur once among the rows are left out: they would fit themselves.
    """
    names = ["depth", *(AGAINST[short] for short in _PARTIAL if AGAINST[short] in rows and rows[AGAINST[short]].notna().any())]
    rows = _without_nulls(rows, names)
    token = rows["token_id"].to_numpy()
    recurs = np.bincount(token, minlength=1)[token] >= 2
    rows = rows if recurs.all() else rows[recurs]
    place = rows["position"].to_numpy().astype(np.int64) * bins // longest
    fit = TwoWay(rows["token_id"].to_numpy(), place)
    left = {name: fit.residuals(rows[name].to_numpy()) for name in names}
    return pd.DataFrame({"sequence": rows["sequence"].to_numpy(), **left}, copy=False)


def _described(variant: str, fitted: pd.DataFrame) -> Iterator[dict]:
    n = fitted.groupby("sequence").size()
    for measure, sequence, rho in _partial(fitted):
        yield mean(rho, n.reindex(sequence).to_numpy()).row(variant=variant, measure=measure)


def _partial(fitted: pd.DataFrame) -> Iterator[tuple[str, NDArray, NDArray]]:
    """Each partial measure with (sequences, rho); nothing where the file has no reference."""
    shorts = [short for short in _PARTIAL if AGAINST[short] in fitted]
    if shorts:
        difficulties = fitted[[AGAINST[short] for short in shorts]].to_numpy()
        sequence, rho = spearman_by_sequence(fitted["sequence"].to_numpy(), fitted["depth"].to_numpy(), difficulties)
        for place, short in enumerate(shorts):
            yield f"partial_spearman_{short}", sequence, rho[:, place]


def _add(stats: pd.DataFrame, name: str, sequence: NDArray, rho: NDArray) -> None:
    stats[name] = pd.Series(rho, index=sequence, dtype=np.float64)


def _without_nulls(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    missing = np.logical_or.reduce([rows[name].isna().to_numpy() for name in names])
    return rows[~missing] if missing.any() else rows
