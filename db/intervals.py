"""Figures with 95% bootstrap intervals. Sequences are the unit of uncertainty, never tokens.

Every figure is a ratio of sums over sequences. The resample counts are drawn once per number of
sequences with a fixed seed; sums are rounded to a grid on which all of them are exact, so an
interval is the same on every run and number of threads.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 10_000
SEED = 20250720
NEEDED = 10  # sequences: under it no interval is given
RELIABLE = 30  # sequences: under it coverage falls short of 95%
_CHUNK = 1_000  # resamples drawn at once
_FEW = 100  # resamples added up at once


@dataclass(frozen=True)
class Estimate:
    """Figures of one shape with their intervals; NaN where undefined.

    `n` counts positions behind each figure, `sequences` the sequences that contribute to it.
    """

    value: NDArray
    low: NDArray
    high: NDArray
    n: NDArray
    sequences: NDArray

    @property
    def reliable(self) -> NDArray:
        """Whether enough sequences contribute for the interval to cover what it should."""
        return self.sequences >= RELIABLE

    def __getitem__(self, index) -> "Estimate":
        return Estimate(self.value[index], self.low[index], self.high[index], self.n[index], self.sequences[index])

    def row(self, **labels) -> dict:
        """One figure as a row: labels, value, low, high, n, sequences, reliable."""
        numbers = {"value": float(self.value), "low": float(self.low), "high": float(self.high)}
        return {**labels, **numbers, "n": int(self.n), "sequences": int(self.sequences), "reliable": bool(self.reliable)}


def ratio(numerator: ArrayLike, denominator: ArrayLike, n: ArrayLike | None = None) -> Estimate:
    """Sum of numerators over sum of denominators, with its interval.

    numerator, denominator: [sequences, ...] of the same shape; `n` [sequences, ...] counts positions
    and is the denominator where left out.
    """
    denominator = np.asarray(denominator, dtype=np.float64)
    return of_sums(divide, numerator, denominator, n=denominator if n is None else n)


def of_sums(figure: Callable[..., NDArray], *columns: ArrayLike, n: ArrayLike) -> Estimate:
    """A figure made of sums over sequences, with its interval.

    columns: [sequences, ...] of one shape; `figure` takes the sum of each, over all sequences or over
    resampled ones (then with an axis of resamples in front), and gives NaN where it is undefined. `n`
    [sequences, ...] counts positions; a sequence without any does not contribute.
    """
    n = np.asarray(n)
    exact = [_exact(np.asarray(column, dtype=np.float64)) for column in columns]
    sequences = np.sum(n != 0, axis=0)
    low, high = _percentiles(figure(*_resampled(exact)))
    given = sequences >= NEEDED
    return Estimate(
        value=figure(*(column.sum(axis=0) for column in exact)),
        low=np.where(given, low, np.nan),
        high=np.where(given, high, np.nan),
        n=n.sum(axis=0),
        sequences=sequences,
    )


def divide(numerator: NDArray, denominator: NDArray) -> NDArray:
    """Their ratio, NaN where the denominator is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominator != 0, numerator / denominator, np.nan)


def mean(values: ArrayLike, n: ArrayLike) -> Estimate:
    """Mean of one value per sequence [sequences], NaN where it has none, with its interval; `n` counts positions."""
    values, n = np.asarray(values, dtype=np.float64), np.asarray(n)
    used = ~np.isnan(values)
    return of_sums(divide, values[used], np.ones(used.sum()), n=n[used])


def add_counts(frame: pd.DataFrame, n: NDArray) -> None:
    """Add what stands behind the figures of a frame: columns n (positions), sequences (with any) and reliable. n: [sequences, ...], a place a row."""
    frame["n"], frame["sequences"] = n.sum(axis=0).ravel().astype(int), (n != 0).sum(axis=0).ravel()
    frame["reliable"] = frame["sequences"] >= RELIABLE


def add_columns(frame: pd.DataFrame, name: str, estimate: Estimate) -> None:
    """Add a figure to a frame of its length: columns `name`, `name`_low and `name`_high."""
    for suffix, values in (("", estimate.value), ("_low", estimate.low), ("_high", estimate.high)):
        frame[name + suffix] = np.ravel(values)


@lru_cache(maxsize=8)
def resample_counts(sequences: int) -> NDArray:
    """How often each resample draws each sequence: [resamples, sequences], every row summing to `sequences`."""
    random = np.random.default_rng(SEED)
    counts = np.zeros((RESAMPLES, sequences), dtype=np.uint16)
    for start in range(0, RESAMPLES if sequences else 0, _CHUNK):
        drawn = random.integers(0, sequences, (_CHUNK, sequences)) + np.arange(_CHUNK)[:, None] * sequences
        counts[start : start + _CHUNK] = np.bincount(drawn.ravel(), minlength=_CHUNK * sequences).reshape(_CHUNK, sequences)
    return counts


def _exact(values: NDArray) -> NDArray:
    """Values on a grid so coarse that sums of resamples are exact in float64, column by column, and so fine that it does not show."""
    if not len(values):
        return values
    bound = np.abs(values).sum(axis=0) * 64  # no sequence is drawn 64 times
    grid = np.exp2(np.ceil(np.log2(np.where(bound > 0, bound, 1.0))) - 52)
    return np.round(values / grid) * grid


def _resampled(columns: list[NDArray]) -> list[NDArray]:
    """Sums over resampled sequences: each [sequences, ...] becomes [resamples, ...]. What stands in several is added up once."""
    flat = [column.reshape(len(column), math.prod(column.shape[1:])) for column in columns]
    together = np.concatenate(flat, axis=1)
    distinct: dict[bytes, int] = {}
    places = [distinct.setdefault(column.tobytes(), len(distinct)) for column in np.ascontiguousarray(together.T)]
    counts, sums = resample_counts(len(together)), np.empty((RESAMPLES, len(distinct)))
    first = together[:, [places.index(place) for place in range(len(distinct))]]
    few = np.empty((_FEW, len(together)))  # used again and again, since fresh memory costs as much as the product
    for start in range(0, RESAMPLES, _FEW):
        np.copyto(few, counts[start : start + _FEW])
        np.matmul(few, first, out=sums[start : start + _FEW])
    ends = np.cumsum([column.shape[1] for column in flat])
    parts = np.split(np.asarray(places, dtype=int), ends[:-1])
    return [sums[:, part].reshape(RESAMPLES, *column.shape[1:]) for part, column in zip(parts, columns)]


def _percentiles(resampled: NDArray) -> NDArray:
    """The 2.5th and 97.5th percentile over resamples, of those that are defined."""
    columns = np.ascontiguousarray(resampled.reshape(RESAMPLES, -1).T)
    found = np.percentile(columns, [2.5, 97.5], axis=1, overwrite_input=not np.isnan(columns).any())
    for place in np.flatnonzero(np.isnan(found[0])):
        column = columns[place]
        if not np.isnan(column).all():
            found[:, place] = np.nanpercentile(column, [2.5, 97.5])
    return found.reshape(2, *resampled.shape[1:])
