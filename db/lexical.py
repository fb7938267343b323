"""Is depth a property of the token? Depth of held-out sequences predicted from token identity alone. Analysis, measure 6."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from db import query
from db.intervals import RELIABLE, SEED, Estimate, divide, of_sums

RANDOM_HALVES = 20
EVEN = "even → odd"
_GRID = 2.0**36


@dataclass(frozen=True)
class Fit:
    """What a token's identity says of depth, fitted on one half and scored on the other; `n` counts held-out positions.

    r2: explained share of the held-out variance of depth. modal_accuracy: how often the token's most
    common depth is right. commonest_accuracy: how often the fitting half's most common depth is.
    largest_depth_share: share of the largest depth group of the held-out half.
    """

    r2: Estimate
    modal_accuracy: Estimate
    commonest_accuracy: Estimate
    largest_depth_share: Estimate


def is_first_half(rows: pd.DataFrame) -> NDArray:
    """True for the positions of the first half of the sequences that the rows hold."""
    sequence = rows["sequence"].to_numpy()
    present = np.unique(sequence)
    return np.isin(sequence, present[: len(present) // 2])


def random_halves(rows: pd.DataFrame) -> Iterator[NDArray]:
    """RANDOM_HALVES others, always the same for the same sequences."""
    sequence = rows["sequence"].to_numpy()
    present = np.unique(sequence)
    for number in range(RANDOM_HALVES):
        order = np.random.default_rng([SEED, number]).permutation(present)
        yield np.isin(sequence, order[: len(present) // 2])


def fit(sums: pd.DataFrame) -> Fit:
    """The figures from rows of held_out; the interval keeps the fit and resamples held-out sequences."""
    columns = [sums[name].to_numpy() for name in ("squared_error", "sum_depth", "sum_squared_depth", "modal_right", "commonest_right", "in_largest", "scored")]
    found = of_sums(_figures, *columns, n=np.repeat(columns[-1][:, None], len(fields(Fit)), axis=1))
    return Fit(*(found[index] for index in range(len(fields(Fit)))))


def held_out(rows: pd.DataFrame, is_fitted: NDArray) -> pd.DataFrame:
    """Fit on the positions where `is_fitted`, score on the others; see predicted. rows: columns sequence, token_id, depth."""
    has_depth = rows["depth"].notna().to_numpy()
    rows, is_fitted = (rows, is_fitted) if has_depth.all() else (rows[has_depth], is_fitted[has_depth])
    token, depth, sequence = (rows[name].to_numpy(dtype=np.int64) for name in ("token_id", "depth", "sequence"))
    cell, shape = _cells(token, depth)
    return predicted(_counts(cell[is_fitted], shape), sequence[~is_fitted], cell[~is_fitted])


def even_to_odd(con: duckdb.DuckDBPyConnection, checkpoint: str, recursions: int) -> pd.DataFrame:
    """The same for the first split, of the rows in the view `scored`: the positions that are learnt from never leave the database."""
    named = {"checkpoint": checkpoint, "depths": recursions + 1}
    learnt, held = (query.run(con, name, **named) for name in ("learnt_cells", "held_out_cells"))
    tokens = max((int(frame["cell"].max()) for frame in (learnt, held) if len(frame)), default=0) // (recursions + 1) + 1
    counts = np.zeros(tokens * (recursions + 1), dtype=np.int64)
    counts[learnt["cell"].to_numpy()] = learnt["n"].to_numpy()
    return predicted(counts.reshape(tokens, recursions + 1), held["sequence"].to_numpy(), held["cell"].to_numpy())


def predicted(learnt: NDArray, sequence: NDArray, cell: NDArray) -> pd.DataFrame:
    """Depths of held-out positions against their prediction: one row is a held-out sequence.

    learnt: how often token and depth meet in the fitting half, [tokens, R + 1]. sequence, cell: of each held-out
    position, in any order; its cell in that table is token * (R + 1) + depth. Columns: sequence, scored (its
    positions), sum_depth and sum_squared_depth, squared_error (sum over them of (depth - expected)², each on a grid
    of 2^-36, so that any order gives the same sum), and at how many of them the token's modal depth is right, the
    commonest depth is right, and depth is the held-out half's largest group.
    """
    expected, modal, commonest = _predictions(learnt)
    scale = np.arange(learnt.shape[1])
    error, right = (np.round((scale - expected[:, None]) ** 2 * _GRID) / _GRID).ravel(), (scale == modal[:, None]).ravel().astype(float)
    per_depth = _counts(sequence * np.int32(len(scale)) + cell % np.int32(len(scale)), (int(sequence.max(initial=0)) + 1, len(scale)))
    squared_error, modal_right = _by_sequence(sequence, [error[cell], right[cell]])
    columns = {
        "scored": per_depth.sum(axis=1),
        "sum_depth": per_depth @ scale,
        "sum_squared_depth": per_depth @ scale**2,
        "squared_error": squared_error,
        "modal_right": modal_right,
        "commonest_right": per_depth[:, commonest],
        "in_largest": per_depth[:, per_depth.sum(axis=0).argmax()],
    }
    present = np.flatnonzero(columns["scored"])
    return pd.DataFrame({"sequence": present, **{name: values[present].astype(float) for name, values in columns.items()}})


def table(even: pd.DataFrame, rows: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row is a split and a figure: split, figure, value, low, high, n, sequences, reliable.

    even: rows of held_out for the first split, `even → odd`. rows: scored positions, which add the other
    splits. The 20 random halves are one split, `random halves`: value is their mean, low and high the
    smallest and largest of them (a spread, not an interval).
    """
    frames = [pd.DataFrame(_described(EVEN, fit(even)))]
    if rows is not None:
        frames.append(pd.DataFrame(_described("first half → second half", fit(held_out(rows, is_first_half(rows))))))
        frames.append(_spread(rows))
    return pd.concat(frames, ignore_index=True)


def _spread(rows: pd.DataFrame) -> pd.DataFrame:
    """Figures over the random halves, from counts per token and depth: without intervals nothing more is needed."""
    rows = rows[rows["depth"].notna()]
    token, depth = (rows[name].to_numpy(dtype=np.int64) for name in ("token_id", "depth"))
    cells, shape = _cells(token, depth)
    whole = _counts(cells, shape)
    found = []
    for is_fitted in random_halves(rows):
        fitted = _counts(cells[is_fitted], shape)
        found.append(_values(fitted, whole - fitted))
    spread = pd.DataFrame(found).agg(["mean", "min", "max"]).T.set_axis(["value", "low", "high"], axis=1).rename_axis("figure").reset_index()
    sequences = rows["sequence"].nunique()
    held = sequences - sequences // 2
    return spread.assign(split="random halves", n=len(rows) // 2, sequences=held, reliable=held >= RELIABLE)


def _values(fitted: NDArray, held: NDArray) -> dict[str, float]:
    """The figures of a Fit from counts [tokens, R + 1] of the fitting half and of the held-out one."""
    expected, modal, commonest = _predictions(fitted)
    overall, scale = held.sum(axis=0), np.arange(held.shape[1])
    n = overall.sum()
    error = (held * (scale - expected[:, None]) ** 2).sum()
    right = held[np.arange(len(held)), modal].sum()
    figures = _figures(error, overall @ scale, overall @ scale**2, right, overall[commonest], overall.max(), n)
    return {field.name: float(figure) for field, figure in zip(fields(Fit), figures)}


def by_token(sums: pd.DataFrame, text: pd.DataFrame, minimum: int) -> pd.DataFrame:
    """One row is a token type with at least `minimum` occurrences, the one whose depth its identity predicts worst first, ties by id.

    Fitted on even sequences, scored on odd ones. sums: rows of token_sums; text: token_id, token,
    is_special. Columns: token_id, token, is_special, fitted (occurrences fitted on), n (held-out ones),
    expected_depth and modal_depth (the predictions), mean_depth and modal_accuracy (of the held-out
    ones), squared_error (mean of (depth - expected_depth)²) and share_of_error (of that of all tokens).
    """
    sums = sums[sums["depth"].notna()]
    ids, token = np.unique(sums["token_id"], return_inverse=True)
    depth, half = sums["depth"].to_numpy(dtype=np.int64), sums["half"].to_numpy(dtype=np.int64)
    counts = np.zeros((2, len(ids), depth.max(initial=0) + 1))
    np.add.at(counts, (half, token, depth), sums["occurrences"].to_numpy())
    fitted, held = counts
    expected, modal, _ = _predictions(fitted)
    n, scale = held.sum(axis=1), np.arange(counts.shape[2])
    error = (held * (scale - expected[:, None]) ** 2).sum(axis=1)
    frame = pd.DataFrame({"token_id": ids}).merge(text, on="token_id", how="left")
    frame["fitted"], frame["n"] = fitted.sum(axis=1).astype(int), n.astype(int)
    frame["expected_depth"], frame["modal_depth"], frame["mean_depth"] = expected, modal, divide(held @ scale, n)
    frame["modal_accuracy"] = divide(held[np.arange(len(ids)), modal], n)
    frame["squared_error"], frame["share_of_error"] = divide(error, n), divide(error, error.sum())
    kept = frame[(frame["fitted"] + frame["n"] >= minimum) & (frame["n"] > 0)]
    return kept.sort_values(["squared_error", "token_id"], ascending=[False, True], ignore_index=True)


def _described(split: str, found: Fit) -> list[dict]:
    return [each.row(split=split, figure=figure) for figure, each in vars(found).items()]


def _cells(token: NDArray, depth: NDArray) -> tuple[NDArray, tuple[int, int]]:
    """The cell of each position in a table of tokens and depths, and that table's shape: [largest id + 1, largest depth + 1]."""
    tokens, depths = (int(values.max(initial=0)) + 1 for values in (token, depth))
    return token * depths + depth, (tokens, depths)


def _counts(cells: NDArray, shape: tuple[int, int]) -> NDArray:
    """How many positions fall into each cell of a table of this shape."""
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _by_sequence(sequence: NDArray, columns: Sequence[NDArray]) -> list[NDArray]:
    """Sums of each column by sequence: first over runs of one sequence, which most rows come in, then over the runs."""
    starts = np.append(np.zeros(min(1, len(sequence)), dtype=np.int64), np.flatnonzero(sequence[1:] != sequence[:-1]) + 1)
    runs = sequence[starts]
    return [np.bincount(runs, np.add.reduceat(column, starts) if len(runs) else None, minlength=1) for column in columns]


def _predictions(counts: NDArray) -> tuple[NDArray, NDArray, int]:
    """Per token its mean depth and its most common one (ties to the shallower), for unseen tokens those of the half; and the half's most common."""
    overall, seen = counts.sum(axis=0), counts.sum(axis=1)
    scale = np.arange(counts.shape[1])
    mean = divide(counts @ scale, seen)
    commonest = overall.argmax()
    return np.where(seen > 0, mean, divide(overall @ scale, overall.sum())), np.where(seen > 0, counts.argmax(axis=1), commonest), commonest


def _figures(error: NDArray, total: NDArray, squares: NDArray, modal: NDArray, commonest: NDArray, largest: NDArray, n: NDArray) -> NDArray:
    """The figures of Fit from sums of the columns of held_out, in a last axis."""
    return np.stack([_r2(error, total, squares, n), *(divide(right, n) for right in (modal, commonest, largest))], axis=-1)


def _r2(squared_error: NDArray, total: NDArray, total_of_squares: NDArray, n: NDArray) -> NDArray:
    """1 - squared error over variance about the held-out mean; whole numbers make a variance of zero exactly zero."""
    variance = divide(n * total_of_squares - total**2, n)
    return 1.0 - divide(squared_error, variance)
