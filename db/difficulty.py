"""Does depth follow difficulty? Rank correlations within sequences, plain and without token and position effects.

Analysis, measures 1 and 2, and the rank correlation of 5.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from db.correlation import UNIT, Sequences, TwoWay
from db.intervals import Estimate, mean

AGAINST = {"loss": "vanilla_loss", "entropy": "vanilla_entropy", "benefit": "benefit"}
COLUMNS = ["token_id", "depth", *AGAINST.values()]
_PARTIAL = ("loss", "entropy")
BINS = 64
UNEXPLAINED = 0.05  # recursions: a depth nearer than this to its fit is a lookup
MEASURES = ["spearman_loss", "spearman_entropy", "partial_spearman_loss", "partial_spearman_entropy", "spearman_benefit"]


def by_sequence(rows: pd.DataFrame, longest: int, against: Collection[str] = tuple(AGAINST), texts: "Texts | None" = None) -> pd.DataFrame:
    """One row is a sequence, in order: what the tables of correlations are means of.

    rows: one per scored position, columns sequence, position and COLUMNS (of AGAINST those asked for); longest:
    length of the file's longest sequence; texts: what checkpoints that are asked about together share.
    Returns sequence, scored, the MEASURES (rho, NaN where undefined), recurring (scored positions whose
    token occurs at least twice among the rows) and unexplained (of these, positions whose depth is more
    than UNEXPLAINED from what token and position predict).
    """
    texts = texts or Texts()
    sequence = rows["sequence"].to_numpy()
    stats = pd.DataFrame({"scored": np.bincount(sequence)}).query("scored > 0") if len(rows) else pd.DataFrame({"scored": []}, dtype=int)
    for short in against:
        kept = _without_nulls(rows, ["depth", AGAINST[short]])
        text = texts.of(kept, longest, BINS)
        _add(stats, f"spearman_{short}", text.sequences, text.sequences.rho(text.sequences.ranks(kept["depth"]), text.ranks(kept[AGAINST[short]])))
    stats[[f"partial_spearman_{short}" for short in against if short in _PARTIAL]] = np.nan
    kept = _without_nulls(rows, _fitted_columns(rows))
    text = texts.of(kept, longest, BINS)
    depth = text.residuals(kept["depth"])
    for measure, rho in _partial(text, depth, kept):
        _add(stats, measure, text.recurring, rho)
    _add(stats, "recurring", text.recurring, text.recurring.counts)
    _add(stats, "unexplained", text.recurring, text.recurring.sums(np.abs(depth) > UNEXPLAINED * UNIT))
    counts = ["recurring", "unexplained"]
    stats[counts] = stats[counts].fillna(0).astype(int)
    return stats.rename_axis("sequence").reset_index()


def sensitivity(rows: pd.DataFrame, longest: int) -> pd.DataFrame:
    """One row is another way to compute the partial correlations: 16 and 256 bins, each half of the sequences.

    Columns: variant, measure, value, low, high, n, sequences, reliable.
    """
    rows = _without_nulls(rows, _fitted_columns(rows))
    sequences = np.unique(rows["sequence"])
    is_first = rows["sequence"].isin(sequences[: len(sequences) // 2]).to_numpy()
    variants = {"16 bins": (rows, 16), "256 bins": (rows, 256), "first half": (rows[is_first], BINS), "second half": (rows[~is_first], BINS)}
    return pd.DataFrame([row for variant, (kept, bins) in variants.items() for row in _described(variant, kept, longest, bins)])


def estimates(stats: pd.DataFrame) -> dict[str, Estimate]:
    """Each measure as the mean over the sequences that have one; `n` counts their positions."""
    return {
        measure: mean(stats[measure].to_numpy(dtype=np.float64), stats["recurring" if measure.startswith("partial") else "scored"].to_numpy())
        for measure in MEASURES
        if measure in stats
    }


class Text:
    """Positions of the text with their tokens: what depth is compared with, worked out once for all checkpoints.

    `sequences`: of all positions. `recurring`: of those whose token occurs at least twice among them;
    a token that occurs once would fit itself.
    """

    def __init__(self, rows: pd.DataFrame, longest: int, bins: int) -> None:
        """rows: columns sequence, position and token_id. `bins`: of position, for the two-way fit."""
        self._places, self._longest, self._bins = _places(rows), longest, bins
        self._ranks: list[tuple[NDArray, NDArray]] = []
        self._residual_ranks: list[tuple[NDArray, NDArray]] = []
        self._turn = threading.RLock()
        self.sequences = Sequences(self._places[0])

    def is_of(self, rows: pd.DataFrame, longest: int, bins: int) -> bool:
        """Whether the rows are these positions, with these tokens."""
        return (longest, bins) == (self._longest, self._bins) and all(map(np.array_equal, self._places, _places(rows)))

    def ranks(self, values: pd.Series) -> NDArray:
        """Ranks of a difficulty within the sequences, remembered."""
        return self._remember(self._ranks, values.to_numpy(), self.sequences.ranks)

    def residual_ranks(self, values: pd.Series) -> NDArray:
        """Ranks of what token and position leave of a difficulty, remembered."""
        return self._remember(self._residual_ranks, values.to_numpy(), lambda _: self.recurring.ranks(self.residuals(values)))

    def residuals(self, values: pd.Series) -> NDArray:
        """Values at the recurring positions less token and position effects, in millionths."""
        return self._fit.residuals(values.to_numpy()[self._recurs])

    @cached_property
    def recurring(self) -> Sequences:
        """The positions that the partial correlations are of."""
        return Sequences(self._places[0][self._recurs])

    @cached_property
    def _recurs(self) -> NDArray | slice:
        token = self._places[2]
        recurs = np.bincount(token, minlength=1)[token] >= 2
        return slice(None) if recurs.all() else recurs

    @cached_property
    def _fit(self) -> TwoWay:
        _, position, token = (values[self._recurs] for values in self._places)
        return TwoWay(token, position.astype(np.int64) * self._bins // self._longest)

    def _remember(self, known: list[tuple[NDArray, NDArray]], values: NDArray, compute: Callable[[NDArray], NDArray]) -> NDArray:
        with self._turn:
            for earlier, found in known:
                if np.array_equal(earlier, values):
                    return found
            known.append((values, compute(values)))
            return known[-1][1]


class Texts:
    """Remembers the last Text, for checkpoints that are asked about one after another or at once: most are of the same positions."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._last: Text | None = None

    def of(self, rows: pd.DataFrame, longest: int, bins: int) -> Text:
        """The Text of these rows; see Text."""
        with self._turn:
            if self._last is None or not self._last.is_of(rows, longest, bins):
                self._last = Text(rows, longest, bins)
            return self._last


def _described(variant: str, rows: pd.DataFrame, longest: int, bins: int) -> Iterator[dict]:
    text = Text(rows, longest, bins)
    for measure, rho in _partial(text, text.residuals(rows["depth"]), rows):
        yield mean(rho, text.recurring.counts).row(variant=variant, measure=measure)


def _partial(text: Text, depth: NDArray, rows: pd.DataFrame) -> Iterator[tuple[str, NDArray]]:
    """Each partial measure with its rho by sequence; nothing where the file has no reference. `depth`: its residuals."""
    names = [name for name in _fitted_columns(rows) if name != "depth"]
    ranks = text.recurring.ranks(depth) if names else None
    for short in _PARTIAL:
        if AGAINST[short] in names:
            yield f"partial_spearman_{short}", text.recurring.rho(ranks, text.residual_ranks(rows[AGAINST[short]]))


def _fitted_columns(rows: pd.DataFrame) -> list[str]:
    """Depth, and those difficulties that the rows have."""
    return ["depth", *(AGAINST[short] for short in _PARTIAL if AGAINST[short] in rows and rows[AGAINST[short]].notna().any())]


def _places(rows: pd.DataFrame) -> list[NDArray]:
    return [rows[name].to_numpy() for name in ("sequence", "position", "token_id")]


def _add(stats: pd.DataFrame, name: str, sequences: Sequences, values: NDArray) -> None:
    stats[name] = pd.Series(values, index=sequences.ids, dtype=np.float64)


def _without_nulls(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    missing = np.logical_or.reduce([rows[name].isna().to_numpy() for name in names])
    return rows[~missing] if missing.any() else rows
