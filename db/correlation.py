"""Rank correlation inside each sequence, and the removal of token and position effects.

Both are exact: ranks and their products are integers, so no answer depends on the order of rows
or on the number of threads.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

MINIMUM = 20  # positions: a sequence with fewer has no correlation
RESIDUAL_DECIMALS = 6  # rounding that turns equal residuals into ties again


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

    token_id, bin: [n]; values: [n] or [n, k], each column fitted alone. The token effects are
    eliminated and the remaining system of one equation per bin is solved; it is singular by nature
    (a constant may move between the two effects), which leaves the residuals unique.
    """
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        return values
    token, place = _renumbered(np.asarray(token_id)), _renumbered(np.asarray(bin))
    tokens, places = token.max() + 1, place.max() + 1
    together = np.bincount(token * places + place, minlength=tokens * places).reshape(tokens, places).astype(np.float64)
    per_token, per_place = together.sum(axis=1, keepdims=True), together.sum(axis=0)
    columns = (values - values.mean(axis=0)).reshape(len(values), -1).T
    token_mean = np.stack([np.bincount(token, column, tokens) for column in columns], axis=1) / per_token  # [tokens, k]
    place_sum = np.stack([np.bincount(place, column, places) for column in columns], axis=1)  # [places, k]
    system = np.diag(per_place) - together.T @ (together / per_token)
    place_effect = np.linalg.lstsq(system, place_sum - together.T @ token_mean, rcond=1e-10)[0]
    token_effect = token_mean - together @ place_effect / per_token
    left = [column - token_effect[token, k] - place_effect[place, k] for k, column in enumerate(columns)]
    return np.round(np.stack(left, axis=1).reshape(values.shape), RESIDUAL_DECIMALS) + 0.0  # + 0.0: no negative zero


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


def largest_rho(shares: ArrayLike) -> float:
    """The largest Spearman correlation of a variable without ties with one of these shares per value.

    shares: [R], summing to 1. It is sqrt(1 - sum of cubed shares): 0.866, 0.943, 0.968 for 2, 3, 4
    equal shares.
    """
    return float(np.sqrt(max(0.0, 1.0 - np.sum(np.asarray(shares, dtype=np.float64) ** 3))))


def _centred_ranks(starts: NDArray, counts: NDArray, values: NDArray) -> NDArray:
    """Twice the average rank within the segment minus (count + 1): integers that sum to 0. [n] int64."""
    segment = np.repeat(np.arange(len(starts)), counts)
    code, span = _codes(values)
    key = segment * span + code
    if span <= 64:  # depths: counting beats sorting
        return _counted_ranks(key, counts, span)
    order = np.argsort(key)
    ordered = key[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    last = np.r_[first[1:], len(ordered)] - 1
    doubled = np.empty(len(key), dtype=np.int64)
    doubled[order] = np.repeat(first + last, last - first + 1)
    return doubled - np.repeat(2 * starts + counts - 1, counts)


def _counted_ranks(key: NDArray, counts: NDArray, span: int) -> NDArray:
    cells = np.bincount(key, minlength=len(counts) * span).reshape(len(counts), span)
    below = np.cumsum(cells, axis=1) - cells
    return (2 * below + cells - counts[:, None]).ravel()[key]


def _codes(values: NDArray) -> tuple[NDArray, int]:
    """Whole numbers from 0 in the order of the values, equal where they are equal, and a bound above them."""
    if values.dtype.kind in "iu":
        code = values.astype(np.int64) - int(values.min())
    elif values.dtype == np.float32:
        bits = (values + np.float32(0)).view(np.int32).astype(np.int64)  # + 0: a negative zero equals zero
        code = np.where(bits < 0, -(2**31) - bits, bits) + 2**31  # negative floats have falling bits
    else:
        order = np.argsort(values)
        ordered = values[order]
        code = np.empty(len(values), dtype=np.int64)
        code[order] = np.cumsum(np.r_[False, ordered[1:] != ordered[:-1]])
    return code, int(code.max()) + 1
