"""How a quantity of a passage becomes a few ordered steps, each with a paint and a number of lines.

A step is never told by colour alone: a token carries one line below it for each step up, dotted where
the quantity is negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pages.parts.colours import Paint, diverging, ordinal

QUANTITIES = {
    "depth": "how many recursions the router gives the token",
    "loss": "how badly the vanilla reference predicts the next token",
    "entropy": "how unsure the vanilla reference is of the next token",
    "benefit": "what full depth gains over depth 1, in nats of loss on the next token",
    "probability": "what the router gives the token at one recursion",
}
BENEFIT_EDGES = (-0.5, -0.05, 0.05, 0.5)  # nats


@dataclass(frozen=True)
class Step:
    """One step of a scale."""

    label: str
    paint: Paint
    lines: int
    dotted: bool = False  # the quantity is below zero here


@dataclass(frozen=True)
class Scale:
    """A step number for each token (-1: no value) and the steps they mean."""

    levels: np.ndarray
    steps: Sequence[Step]

    def counts(self) -> list[int]:
        return [int((self.levels == level).sum()) for level in range(len(self.steps))]


def scale(frame: pd.DataFrame, quantity: str, recursions: int, recursion: int) -> Scale | None:
    """The scale of one of QUANTITIES over a passage; None where the passage has no value of it.

    `frame` is Study.passage; `recursion` is the one whose probability is asked.
    """
    columns = {"loss": "loss_decile", "entropy": "entropy_decile", "probability": f"probability_{recursion}"}
    values = frame.get(columns.get(quantity, quantity))
    if values is None or values.isna().all():
        return None
    match quantity:
        case "depth":
            return _depth(values, recursions)
        case "loss":
            return _fifths(values, "easiest", "hardest")
        case "entropy":
            return _fifths(values, "most certain", "least certain")
        case "benefit":
            return _benefit(values)
        case _:
            return _probability(values)


def without(quantity: str, checkpoint: str, reference: str | None) -> str:
    """Why a passage has no value of a quantity, and what to do."""
    if quantity in ("loss", "entropy"):
        return (
            f"Nothing to show for {quantity}: "
            + ("this text has none." if reference else "this file has no reference model, so no vanilla losses or entropies. Run with --reference to have them.")
        )
    return f"Nothing to show for {quantity}: {checkpoint} has no router, or the runs it takes are not in this file. Choose another checkpoint or quantity."


def _depth(depth: pd.Series, recursions: int) -> Scale:
    labels = [f"{d} recursion{'s' if d > 1 else ''}" for d in range(1, recursions + 1)]
    return Scale(_numbers(depth) - 1, [Step(label, paint, lines) for lines, (label, paint) in enumerate(zip(labels, ordinal(recursions)))])


def _fifths(decile: pd.Series, low: str, high: str) -> Scale:
    labels = [f"{low} fifth of the file", "second", "third", "fourth", f"{high} fifth"]
    levels = np.where(decile.notna(), (_numbers(decile) - 1) // 2, -1)
    return Scale(levels, _rising(labels))


def _benefit(benefit: pd.Series) -> Scale:
    labels = ["depth costs over 0.5 nats", "costs 0.05 to 0.5", "within 0.05", "gains 0.05 to 0.5", "gains over 0.5 nats"]
    lines = (2, 1, 0, 1, 2)
    steps = [Step(label, paint, count, dotted=i < 2) for i, (label, paint, count) in enumerate(zip(labels, diverging(5), lines))]
    return Scale(_cut(benefit, BENEFIT_EDGES), steps)


def _probability(probability: pd.Series) -> Scale:
    if probability.min() < 0 or probability.max() > 1:  # a router function that is not a probability
        edges = np.nanquantile(_numbers(probability, np.nan), (0.2, 0.4, 0.6, 0.8))
        return Scale(_cut(probability, edges), _rising(["lowest fifth here", "second", "third", "fourth", "highest fifth"]))
    return Scale(_cut(probability, (0.2, 0.4, 0.6, 0.8)), _rising(["0 to 0.2", "to 0.4", "to 0.6", "to 0.8", "to 1"]))


def _rising(labels: Sequence[str]) -> list[Step]:
    return [Step(label, paint, lines) for lines, (label, paint) in enumerate(zip(labels, ordinal(len(labels))))]


def _cut(values: pd.Series, edges: Sequence[float]) -> np.ndarray:
    return np.where(values.notna(), np.searchsorted(edges, _numbers(values, 0.0), side="right"), -1)


def _numbers(values: pd.Series, missing: float = 0) -> np.ndarray:
    dtype = int if missing == 0 and isinstance(missing, int) else float
    return values.to_numpy(dtype=float, na_value=np.nan) if np.isnan(missing) else values.fillna(missing).to_numpy(dtype=dtype)
