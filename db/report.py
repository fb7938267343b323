"""The study as one object: what `python -m db report` prints and what its JSON holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from db.figures import FIRST, Figures, figures
from db.intervals import Estimate, ratio
from db.rules import Rule
from db.study import Study

LISTED = 10  # token types given at each end


@dataclass(frozen=True)
class Report:
    """The figures of each reported checkpoint, and the reference's own losses."""

    study: Study
    where: str | None
    reference: str | None
    reference_loss: Estimate
    reference_loss_first_500: Estimate
    checkpoints: list[Figures]

    def as_json(self) -> dict[str, Any]:
        """The report as plain values. Every figure is a leaf {value, low, high, n}, null where undefined."""
        reference = {"checkpoint": self.reference, "mean_loss": leaf(self.reference_loss), "mean_loss_first_500": leaf(self.reference_loss_first_500)}
        return {"reference": reference, "checkpoints": {found.checkpoint: _checkpoint_json(found) for found in self.checkpoints}}


def report(
    study: Study,
    checkpoints: Sequence[str] | None = None,
    where: str | None = None,
    thresholds: Mapping[str, float] | None = None,
    in_full: bool = True,
) -> Report:
    """The report of these checkpoints (None: all observed ones); see figures.figures for `in_full`."""
    reported = study.observed if checkpoints is None else list(checkpoints)
    losses = study.reference_losses(reported, where)
    return Report(
        study=study,
        where=where,
        reference=study.reference,
        reference_loss=_mean(losses),
        reference_loss_first_500=_mean(losses[losses["sequence"] < FIRST]),
        checkpoints=[figures(study, checkpoint, where, thresholds, in_full) for checkpoint in reported],
    )


def leaf(estimate: Estimate) -> Any:
    """A figure, or nested lists of figures in its shape, as leaves."""
    if estimate.value.ndim:
        return [leaf(estimate[index]) for index in range(len(estimate.value))]
    return {"value": _plain(estimate.value), "low": _plain(estimate.low), "high": _plain(estimate.high), "n": int(estimate.n)}


def _mean(losses: pd.DataFrame) -> Estimate:
    return ratio(losses["sum_vanilla_loss"].to_numpy(), losses["positions"].to_numpy())


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _checkpoint_json(found: Figures) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "recursions": found.recursions or None,
        "sequences": found.sequences,
        "scored": found.scored,
        "mean_loss": _by_policy(found.policies, found.mean_loss),
        "block_share": _by_policy(found.policies, found.block_share),
        "depth_share": leaf(found.depth_share),
        **{measure: _spearman(found.correlations[measure]) for measure in found.correlations if measure != "spearman_benefit"},
        "loss_by_depth": leaf(found.loss_by_depth),
        "mean_depth_by_decile": leaf(found.mean_depth_by_decile),
        "depth_share_by_decile": leaf(found.depth_share_by_decile),
        "benefit_by_decile": leaf(found.benefit_by_decile),
        "benefit_by_entropy_decile": leaf(found.benefit_by_entropy_decile),
        "benefit_by_depth": leaf(found.benefit_by_depth),
        "spearman_benefit": _spearman(found.correlations["spearman_benefit"]),
        "lexical_r2": leaf(found.lexical.r2),
        "modal_accuracy": leaf(found.lexical.modal_accuracy),
        "largest_depth_share": leaf(found.lexical.largest_depth_share),
        "added_loss": _by_policy(found.compared, found.added_loss),
        "added_loss_by_depth": _by_policy(found.compared, found.added_loss_by_depth),
        "added_loss_by_decile": _by_policy(found.compared, found.added_loss_by_decile),
        "gate_effect": _by_policy(found.gated, found.gate_effect),
        "token_types": len(found.tokens),
        "deepest": _listed(deepest(found.tokens)),
        "shallowest": _listed(shallowest(found.tokens)),
        "rules": {rule.name: _rule(rule) for rule in found.rules},
    }


def deepest(tokens: pd.DataFrame) -> pd.DataFrame:
    """The first LISTED token types by mean depth, deepest first, ties by id."""
    return tokens.dropna(subset="mean_depth").head(LISTED)


def shallowest(tokens: pd.DataFrame) -> pd.DataFrame:
    """The same from the other end, shallowest first, ties by id."""
    return tokens.dropna(subset="mean_depth").sort_values(["mean_depth", "token_id"]).head(LISTED)


def _spearman(estimate: Estimate) -> dict[str, Any]:
    return {**leaf(estimate), "sequences": int(estimate.sequences)}


def _by_policy(policies: list[str], estimate: Estimate) -> dict[str, Any]:
    return {policy: leaf(estimate[index]) for index, policy in enumerate(policies)}


def _listed(tokens: pd.DataFrame) -> list[dict[str, Any]]:
    columns = ["token_id", "token", "n", "mean_depth", "sd_depth", "mean_vanilla_loss"]
    rows = tokens[columns].astype(object).to_dict("records")
    return [{name: None if pd.isna(value) else value for name, value in row.items()} for row in rows]


def _rule(rule: Rule) -> dict[str, Any]:
    decisive = rule.binding
    return {
        "value": _plain(decisive.value),
        "threshold": decisive.threshold,
        "distance": _plain(decisive.distance),
        "verdict": rule.verdict,
        "origin": rule.origin,
    }
