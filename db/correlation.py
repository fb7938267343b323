"""Rank correlation inside each sequence, and the removal of token and position effects.

Both are exact: ranks and their products are integers, so no answer depends on the order of rows
or on the number of threads.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

MINIMUM = 20  # positions: a sequence with fewer has no correlation
_FEW = 64  # codes: so many are counted, more are sorted
_TOKENS = 4_096  # of the two-way table held as floats at once
UNIT = 1_000_000  # of residuals: rounding to it turns equal ones into ties again


def spearman_by_sequence(sequence: ArrayLike, x: ArrayLike, y: ArrayLike, minimum: int = MINIMUM) -> tuple[NDArray, NDArray]:
    """Spearman's rho of x with y, average ranks for ties, within each sequence.

    sequence, x, y: [n], in any order. Returns (sequences, rho): the distinct sequences in ascending
    order and float64 rho [sequences], NaN where a sequence has fewer than `minimum` rows or a constant side.
    """
    sequences = Sequences(sequence)
    return sequences.ids, sequences.rho(sequences.ranks(x), sequences.ranks(y), minimum)


class Sequences:
    """Positions grouped by the sequence that they are in. `ids`: the distinct sequences in ascending order; `counts`: positions of each."""

    def __init__(self, sequence: ArrayLike) -> None:
        """sequence: [n], that of each position, in any order."""
        sequence = np.asarray(sequence)
        self._order = np.argsort(sequence, kind="stable") if np.any(sequence[1:] < sequence[:-1]) else None
        sequence = sequence if self._order is None else sequence[self._order]
        self._starts = np.flatnonzero(np.diff(sequence, prepend=-1))
        self.counts = np.diff(self._starts, append=len(sequence))
        self.ids = sequence[self._starts]

    def ranks(self, values: ArrayLike) -> NDArray:
        """Twice the average rank of each value within its sequence minus (count + 1): integers that sum to 0, sequence by sequence.

        values: [n] in the order of the positions. Returns [n] int64, in the order of the sequences.
        """
        values = np.asarray(values) if self._order is None else np.asarray(values)[self._order]
        if not len(values):
            return np.zeros(0, dtype=np.int64)
        codes = _codes(values, int(self.counts.max()))
        return (_counted_ranks if codes.max() < _FEW else _sorted_ranks)(self._starts, self.counts, codes)

    def sums(self, values: ArrayLike) -> NDArray:
        """Sum of the values, [n] in the order of the positions, in each sequence."""
        values = np.asarray(values) if self._order is None else np.asarray(values)[self._order]
        return np.add.reduceat(values, self._starts, dtype=np.int64) if len(values) else np.zeros(0, dtype=np.int64)

    def rho(self, x: NDArray, y: NDArray, minimum: int = MINIMUM) -> NDArray:
        """Spearman's rho of two variables given by their `ranks`: float64 [sequences], NaN where undefined."""
        if not len(x):
            return np.zeros(0)
        xy, xx, yy = (np.add.reduceat(product, self._starts) for product in (x * y, x * x, y * y))
        defined = (self.counts >= minimum) & (xx > 0) & (yy > 0)
        rho = np.full(len(self.ids), np.nan)
        rho[defined] = xy[defined] / (np.sqrt(xx[defined]) * np.sqrt(yy[defined]))
        return np.clip(rho, -1.0, 1.0)


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


def _renumbered(ids: NDArray) -> NDArray:
    """Ids (whole numbers from 0) renumbered without gaps, in their order. Quicker than np.unique, which sorts."""
    return (np.cumsum(np.bincount(ids) > 0) - 1)[ids]


def _codes(values: NDArray, longest: int) -> NDArray:
    """Whole numbers from 0 in the order of the values, so small that one and a place in a sequence of this length share 63 bits. [n] int64"""
    if values.dtype == np.float32:
        bits = (values + np.float32(0)).view(np.int32)  # the same order; -0.0 becomes 0.0
        values = np.where(bits < 0, np.iinfo(np.int32).min - bits, bits)
    if values.dtype.kind in "iu":
        low = int(values.min())
        if (int(values.max()) - low).bit_length() + longest.bit_length() < 63:
            return values.astype(np.int64) - low
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _counted_ranks(starts: NDArray, counts: NDArray, codes: NDArray) -> NDArray:
    """Ranks of few different codes, such as depths: counting beats sorting."""
    span = int(codes.max()) + 1
    key = np.repeat(np.arange(len(starts)), counts) * span + codes
    cells = np.bincount(key, minlength=len(counts) * span).reshape(len(counts), span)
    below = np.cumsum(cells, axis=1) - cells
    return (2 * below + cells - counts[:, None]).ravel()[key]


def _sorted_ranks(starts: NDArray, counts: NDArray, codes: NDArray) -> NDArray:
    """Ranks of any codes. Sequences of one length are rows of a table and sorted together, each code with its place: far quicker than an argsort."""
    ranks = np.empty(len(codes), dtype=np.int64)
    for length in np.unique(counts):
        begins = starts[counts == length, None]
        places = begins + np.arange(length)
        bits = int(length).bit_length()
        table = codes[places] << bits
        table |= np.arange(length)
        table.sort(axis=1)
        at = (table & ((1 << bits) - 1)) + begins
        table >>= bits
        is_first = np.ones(table.shape, dtype=bool)
        np.not_equal(table[:, 1:], table[:, :-1], out=is_first[:, 1:])
        first = np.flatnonzero(is_first)
        run = np.diff(first, append=table.size)
        doubled = np.repeat(2 * (first % length) + run - length, run)
        ranks[at.ravel()] = doubled
    return ranks
