"""Does depth follow difficulty? Rank correlations within sequences, plain and without token and position effects.

Analysis, measures 1 and 2, and the rank correlation of 5.
"""

from collections.abc import Collection

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from db.correlation import spearman_by_sequence, two_way_residuals
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
    length of the file's longest sequence. Returns sequence, scored, the MEASURES (rho, NaN where undefined), recurring (scored
    positions whose token occurs at least twice among the rows) and unexplained (of these, positions
    whose depth is more than UNEXPLAINED from what token and position predict).
    """
    sequence = rows["sequence"].to_numpy()
    stats = pd.DataFrame({"scored": np.bincount(sequence)}).query("scored > 0") if len(rows) else pd.DataFrame({"scored": []}, dtype=int)
    for short, name in ((short, AGAINST[short]) for short in against):
        kept = _without_nulls(rows, [name])
        _add(stats, f"spearman_{short}", *spearman_by_sequence(kept["sequence"].to_numpy(), kept["depth"].to_numpy(), kept[name].to_numpy()))
    fitted = _residuals(rows, longest, bins)
    for short in (short for short in against if short in _PARTIAL):
        _add(stats, f"partial_spearman_{short}", *_partial(fitted, AGAINST[short]))
    stats["recurring"] = fitted.groupby("sequence").size()
    stats["unexplained"] = (fitted["depth"].abs() > UNEXPLAINED * 1e6).groupby(fitted["sequence"]).sum()
    counts = ["recurring", "unexplained"]
    stats[counts] = stats[counts].fillna(0).astype(int)
    return stats.rename_axis("sequence").reset_index()


def sensitivity(rows: pd.DataFrame, longest: int) -> pd.DataFrame:
    """One row is another way to compute the partial correlations: 16, 64 and 256 bins, each half of the sequences.

    Columns: variant, measure, value, low, high, n, sequences, reliable.
    """
    sequences = np.unique(rows["sequence"])
    is_first = rows["sequence"].isin(sequences[: len(sequences) // 2])
    variants = {f"{bins} bins": (rows, bins) for bins in (16, 64, 256)}
    variants |= {"first half": (rows[is_first], BINS), "second half": (rows[~is_first], BINS)}
    found = []
    for variant, (part, bins) in variants.items():
        fitted = _residuals(part, longest, bins)
        n = fitted.groupby("sequence").size()
        for short in ("loss", "entropy"):
            sequence, rho = _partial(fitted, AGAINST[short])
            found.append(mean(rho, n.reindex(sequence).to_numpy()).row(variant=variant, measure=f"partial_spearman_{short}"))
    return pd.DataFrame(found)


def estimates(stats: pd.DataFrame) -> dict[str, Estimate]:
    """Each measure as the mean over the sequences that have one; `n` counts their positions."""
    return {
        measure: mean(stats[measure].to_numpy(dtype=np.float64), stats["recurring" if measure.startswith("partial") else "scored"].to_numpy())
        for measure in MEASURES
        if measure in stats
    }


def _residuals(rows: pd.DataFrame, longest: int, bins: int) -> pd.DataFrame:
    """sequence, and depth and difficulties less token and position effects, in millionths, so that equal residuals tie.

    Tokens that occur once among the rows are left out: they would fit themselves.
    """
    names = [AGAINST[short] for short in _PARTIAL if AGAINST[short] in rows and rows[AGAINST[short]].notna().any()]
    rows = _without_nulls(rows, names)
    token = rows["token_id"].to_numpy()
    rows = rows[np.bincount(token)[token] >= 2] if len(rows) else rows
    place = rows["position"].to_numpy().astype(np.int64) * bins // longest
    left = two_way_residuals(rows["token_id"].to_numpy(), place, rows[["depth", *names]].to_numpy(dtype=np.float64))
    fitted = pd.DataFrame(np.rint(left * 1e6).astype(np.int64), columns=["depth", *names])
    return fitted.assign(sequence=rows["sequence"].to_numpy())


def _partial(fitted: pd.DataFrame, name: str) -> tuple[NDArray, NDArray]:
    if name not in fitted:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    return spearman_by_sequence(fitted["sequence"].to_numpy(), fitted["depth"].to_numpy(), fitted[name].to_numpy())


def _add(stats: pd.DataFrame, name: str, sequence: NDArray, rho: NDArray) -> None:
    stats[name] = pd.Series(rho, index=sequence, dtype=np.float64)


def _without_nulls(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    missing = rows[["depth", *names]].isna().any(axis=1)
    return rows[~missing] if missing.any() else rows
