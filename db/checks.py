"""The four checks of a checkpoint: the figures that the reading rules judge. Analysis, measures 1, 2, 6, 8 and 9."""

from collections.abc import Mapping
from dataclasses import dataclass

from db.intervals import Estimate
from db.rules import Rule, rules


@dataclass(frozen=True)
class Checks:
    """Under one filter. figures: Estimate by the name of its threshold, None where it was not run.

    policy: what stands in for the router in `routing_added_loss`, `random` or for token-choice `shuffled`;
    None where it was not run. scored, sequences: positions that pass, and sequences with one.
    """

    checkpoint: str
    kind: str
    policy: str | None
    where: str | None
    scored: int
    sequences: int
    figures: dict[str, Estimate | None]

    def rules(self, thresholds: Mapping[str, float] | None = None) -> list[Rule]:
        """The reading rules with their verdicts; `thresholds` are those moved, see rules.THRESHOLDS."""
        return rules(self.kind, self.figures, self.figures["lexical_r2"], self.figures["routing_added_loss"], self.where, thresholds)
