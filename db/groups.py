"""Sums over the scored positions of one checkpoint, by sequence, depth and decile.

Depth shares, deciles, benefit and routing swaps are all ratios of these sums. Without a filter they
are read from the table that holds them, with one they are added up anew by the same query.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

DECILES = 10


@dataclass(frozen=True)
class Groups:
    """Per column an array [sequences, R + 1, 11] of sums in nats; `positions` counts.

    Index 0 of the depth axis holds positions without a depth, index 0 of the decile axis those
    without a decile. Columns that were not run are NaN throughout.
    """

    positions: NDArray
    sums: dict[str, NDArray]

    @property
    def depths(self) -> int:
        """The number of recursions R."""
        return self.positions.shape[1] - 1

    def by_depth(self, name: str) -> NDArray:
        """Sums of a column by depth 1 to R: [sequences, R]."""
        return self._of(name)[:, 1:].sum(axis=2)

    def by_decile(self, name: str) -> NDArray:
        """Sums of a column by decile 1 to 10: [sequences, 10]."""
        return self._of(name)[:, :, 1:].sum(axis=1)

    def by_decile_and_depth(self, name: str) -> NDArray:
        """Sums of a column by decile and depth: [sequences, 10, R]."""
        return self._of(name)[:, 1:, 1:].transpose(0, 2, 1)

    def total(self, name: str) -> NDArray:
        """Sums of a column: [sequences]."""
        return self._of(name).sum(axis=(1, 2))

    def _of(self, name: str) -> NDArray:
        return self.positions if name == "positions" else self.sums[name]


def from_rows(rows: pd.DataFrame, recursions: int) -> Groups:
    """The rows of the query group_sums on one scale as arrays."""
    sequences, at = np.unique(rows["sequence"].to_numpy(), return_inverse=True)
    depth = rows["depth"].fillna(0).to_numpy(dtype=np.int64)
    decile = rows["decile"].fillna(0).to_numpy(dtype=np.int64)
    shape = (len(sequences), recursions + 1, DECILES + 1)

    def spread(column: pd.Series) -> NDArray:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        array = np.full(shape, np.nan if np.isnan(values).any() else 0.0)
        array[at, depth, decile] = values
        return array

    sums = {name.removeprefix("sum_"): spread(rows[name]) for name in rows if name.startswith("sum_")}
    return Groups(positions=spread(rows["positions"]), sums=sums)
