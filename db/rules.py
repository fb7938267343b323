"""The reading rules: what the figures say of a checkpoint, against thresholds that may be moved. Analysis, measure 9."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from db.intervals import Estimate

THRESHOLDS = {"spearman_loss": 0.2, "partial_spearman_loss": 0.1, "lexical_r2": 0.5, "routing_added_loss": 0.0}


@dataclass(frozen=True)
class Condition:
    """A figure against its threshold. `holds` is None where the figure, or the interval it is judged by, is undefined."""

    figure: str
    value: float
    threshold: float
    holds: bool | None

    @property
    def distance(self) -> float:
        """Value less threshold: positive where the condition is met."""
        return self.value - self.threshold


@dataclass(frozen=True)
class Rule:
    """A sentence about a checkpoint: true if all its conditions hold, None where one is undefined and none fails."""

    name: str
    conditions: tuple[Condition, ...]
    origin: str

    @property
    def verdict(self) -> bool | None:
        held = [condition.holds for condition in self.conditions]
        return False if False in held else None if None in held else True

    @property
    def binding(self) -> Condition:
        """The condition that decides: the undefined one, else the one with the smallest distance."""
        return min(self.conditions, key=lambda condition: condition.distance if not np.isnan(condition.distance) else -np.inf)


def origin(kind: str, measure: str, where: str | None, moved: bool = False) -> str:
    """`pre-set` if the measure was fixed before results were seen: expert-choice, 1, 2, 6 and random routing, no filter, no moved threshold."""
    return "pre-set" if kind == "expert" and measure in PRE_SET and not where and not moved else "exploratory"


PRE_SET = {"spearman_loss", "spearman_entropy", "partial_spearman_loss", "partial_spearman_entropy", "lexical", "random"}


def rules(
    kind: str,
    correlations: Mapping[str, Estimate],
    lexical_r2: Estimate | None,
    swap: Estimate | None,
    where: str | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> list[Rule]:
    """Each rule with its conditions.

    swap: added loss of `random` (token-choice: `shuffled`), None where not run. thresholds: those moved.
    """
    limits = {**THRESHOLDS, **(thresholds or {})}

    def stands(measure: str, *figures: str) -> str:
        return origin(kind, measure, where, any(limits[figure] != THRESHOLDS[figure] for figure in figures))

    tracking = tuple(_at_least(figure, correlations[figure].value, limits[figure]) for figure in ("spearman_loss", "partial_spearman_loss"))
    lexical = _at_least("lexical_r2", np.nan if lexical_r2 is None else lexical_r2.value, limits["lexical_r2"])
    return [
        Rule("tracks_difficulty", tracking, stands("spearman_loss", "spearman_loss", "partial_spearman_loss")),
        Rule("mainly_lexical", (lexical,), stands("lexical", "lexical_r2")),
        Rule("routing_matters", (_above(swap, limits["routing_added_loss"]),), stands("random", "routing_added_loss")),
    ]


def _at_least(figure: str, value: float, threshold: float) -> Condition:
    return Condition(figure, float(value), threshold, None if np.isnan(value) else bool(value >= threshold))


def _above(swap: Estimate | None, threshold: float) -> Condition:
    """Worse, with an interval that excludes the threshold."""
    if swap is None or np.isnan(swap.low):
        return Condition("routing_added_loss", np.nan if swap is None else float(swap.value), threshold, None)
    return Condition("routing_added_loss", float(swap.value), threshold, bool(swap.low > threshold))
