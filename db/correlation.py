"""Rank correlation inside each sequence, and the removal of token and position effects.

Both are exact: ranks and their products are integers, so no answer depends on the order of rows
or on the number of threads.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

MINIMUM = 20  # positions: a sequence with fewer has no correlation
_TOKENS = 4_096  # of the two-way table held as floats at once
UNIT = 1_000_000  # of residuals: rounding to it turns equal ones into ties again


def spearman_by_sequence(sequence: ArrayLike, x: ArrayLike, y: ArrayLike, minimum: int = MINIMUM) -> tuple[NDArray, NDArray]:
    """Spearman's rho of x with y, average ranks for ties, within each sequence.

    sequence, x: [n], in any order; y: [n] or [n, k]. Returns (sequences, rho): the distinct sequences
    in ascending order and float64 rho [sequences] or [sequences, k], NaN where a sequence has fewer
    than `minimum` rows or a constant side.
    """
    sequence, x, y = (np.asarray(values) for values in (sequence, x, y))
    if not len(sequence):
        return sequence, np.zeros(y.shape)
    if np.any(sequence[1:] < sequence[:-1]):
        order = np.argsort(sequence, kind="stable")
        sequence, x, y = sequence[order], x[order], y[order]
    starts = np.flatnonzero(np.r_[True, sequence[1:] != sequence[:-1]])
    counts = np.diff(np.r_[starts, len(sequence)])
    rank = _centred_ranks(starts, counts, x)
    columns = y.reshape(len(y), -1).T
    rho = np.stack([_rho(starts, counts, rank, _centred_ranks(starts, counts, column), minimum) for column in columns], axis=1)
    return sequence[starts], rho.reshape(len(starts), *y.shape[1:])


def two_way_residuals(token_id: ArrayLike, bin: ArrayLike, values: ArrayLike) -> NDArray:
    """Residuals of the least-squares fit values ~ token + bin, both additive, rounded to 1e-6.

    token_id, bin: [n]; values: [n]. The token effects are eliminated and the remaining system of one
    equation per bin is solved; it is singular by nature (a constant may move between the two
    effects), which leaves the residuals unique.
    """
    return TwoWay(token_id, bin).residuals(values) / UNIT if len(values) else np.zeros(0)


class TwoWay:
    """The two-way fit of one set of positions, for as many columns of values as are asked for."""

    def __init__(self, token_id: ArrayLike, bin: ArrayLike) -> None:
        self._token, self._place = (_renumbered(np.asarray(ids)) for ids in (token_id, bin))
        self._per_token, per_place = np.bincount(self._token), np.bincount(self._place)
        tokens, places = len(self._per_token), len(per_place)
        self._system = np.diag(per_place).astype(np.float64)
        for start in range(0, tokens, _TOKENS):
            rows = np.flatnonzero((self._token >= start) & (self._token < start + _TOKENS))
            per_token = self._per_token[start : start + _TOKENS, None]
            cells = (self._token[rows] - start) * places + self._place[rows]
            part = np.bincount(cells, minlength=len(per_token) * places).reshape(len(per_token), places) / np.sqrt(per_token)
            self._system -= part.T @ part

    def residuals(self, values: ArrayLike) -> NDArray:
        """Residuals in millionths, whole numbers, so that equal ones tie. [n] int64."""
        values = np.asarray(values, dtype=np.float64)
        if not len(values):
            return values.astype(np.int64)
        left = values - values.mean()
        token_mean = self._token_means(left)
        right = np.bincount(self._place, left - token_mean[self._token])
        place_effect = np.linalg.lstsq(self._system, right, rcond=1e-10)[0][self._place]
        left -= place_effect
        left -= self._token_means(left)[self._token]
        left *= UNIT
        return np.rint(left, out=left).astype(np.int64)

    def _token_means(self, values: NDArray) -> NDArray:
        return np.bincount(self._token, values) / self._per_token


def largest_rho(shares: ArrayLike) -> float:
    """The largest Spearman correlation of a variable without ties with one of these shares per value.

    shares: [R], summing to 1. It is sqrt(1 - sum of cubed shares): 0.866, 0.943, 0.968 for 2, 3, 4
    equal shares.
    """
    return float(np.sqrt(max(0.0, 1.0 - np.sum(np.asarray(shares, dtype=np.float64) ** 3))))


def _rho(starts: NDArray, counts: NDArray, x: NDArray, y: NDArray, minimum: int) -> NDArray:
    xy, xx, yy = (np.add.reduceat(product, starts) for product in (x * y, x * x, y * y))
    defined = (counts >= minimum) & (xx > 0) & (yy > 0)
    rho = np.full(len(starts), np.nan)
    rho[defined] = xy[defined] / (np.sqrt(xx[defined]) * np.sqrt(yy[defined]))
    return np.clip(rho, -1.0, 1.0)


def _renumbered(ids: NDArray) -> NDArray:
    """Ids (whole numbers from 0) renumbered without gaps, in their order. Quicker than np.unique, which sorts."""
    return (np.cumsum(np.bincount(ids) > 0) - 1)[ids]


def _centred_ranks(starts: NDArray, counts: NDArray, values: NDArray) -> NDArray:
    """Twice the average rank within the segment minus (count + 1): integers that sum to 0. [n] int64."""
    if values.dtype.kind in "iu" and int(values.max()) - int(values.min()) < 64:
        return _counted_ranks(np.repeat(np.arange(len(starts)), counts), values - values.min(), counts)
    order = _sorted_by_segment(starts, counts, values)
    ordered = values[order]
    is_first = np.r_[True, ordered[1:] != ordered[:-1]]
    is_first[starts] = True
    first = np.flatnonzero(is_first)
    run = np.diff(np.r_[first, len(ordered)])
    doubled = np.empty(len(order), dtype=np.int64)
    doubled[order] = np.repeat(2 * first + run - 1, run)
    doubled -= np.repeat(2 * starts + counts - 1, counts)
    return doubled


def _counted_ranks(segment: NDArray, code: NDArray, counts: NDArray) -> NDArray:
    """The same for few whole numbers from 0, such as depths: counting beats sorting."""
    span = int(code.max()) + 1
    key = segment * span + code
    cells = np.bincount(key, minlength=len(counts) * span).reshape(len(counts), span)
    below = np.cumsum(cells, axis=1) - cells
    return (2 * below + cells - counts[:, None]).ravel()[key]


def _sorted_by_segment(starts: NDArray, counts: NDArray, values: NDArray) -> NDArray:
    """Places of the values in ascending order within each segment; segments stay where they are. [n]

    Segments of one length are rows of a table, sorted together: far quicker than one sort of all.
    """
    order = np.empty(len(values), dtype=np.int64)
    for length in np.unique(counts):
        begins = starts[counts == length]
        places = begins[:, None] + np.arange(length)
        order[places] = begins[:, None] + np.argsort(values[places], axis=1)
    return order
