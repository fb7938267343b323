"""Every figure of one checkpoint under one filter: what the report prints and its JSON holds."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from db import deciles, depths, difficulty, lexical, rules, swaps
from db.groups import Groups
from db.intervals import Estimate, ratio
from db.study import Study

FIRST = 500  # sequences: what the authors' evaluation script reads by default


@dataclass(frozen=True)
class Figures:
    """Figures of a checkpoint. [policies], [compared], [gated]: in the order of these lists; [R], [10]: by depth, by decile."""

    checkpoint: str
    kind: str
    recursions: int  # 0 for vanilla
    sequences: int
    scored: int
    where: str | None
    policies: list[str]
    compared: list[str]
    gated: list[str]
    mean_loss: Estimate  # [policies]
    mean_loss_first_500: Estimate
    block_share: Estimate  # [policies]
    depth_share: Estimate  # [R]
    loss_by_depth: Estimate  # [R]
    correlations: dict[str, Estimate]
    unexplained: Estimate
    mean_depth_by_decile: Estimate  # [10]
    depth_share_by_decile: Estimate  # [10, R]
    benefit_by_decile: Estimate  # [10]
    benefit_by_entropy_decile: Estimate  # [10]
    benefit_by_depth: Estimate  # [R]
    benefit_open_by_decile: Estimate  # [10]
    benefit_open_by_entropy_decile: Estimate  # [10]
    benefit_open_by_depth: Estimate  # [R]
    lexical: lexical.Fit
    added_loss: Estimate  # [compared]
    added_loss_by_depth: Estimate  # [compared, R]
    added_loss_by_decile: Estimate  # [compared, 10]
    gate_effect: Estimate  # [gated]
    rules: list[rules.Rule]
    tokens: pd.DataFrame
    minimum: int
    sensitivity: pd.DataFrame | None
    splits: pd.DataFrame | None


def figures(
    study: Study, checkpoint: str, where: str | None = None, thresholds: Mapping[str, float] | None = None, in_full: bool = True
) -> Figures:
    """Every figure of a checkpoint; `in_full` adds the sensitivity of the partial correlations and the other lexical splits."""
    facts = study.checkpoint(checkpoint)
    recursions = 0 if pd.isna(facts["recursions"]) else int(facts["recursions"])
    policies = study.policies_of(checkpoint)
    sums = study.groups(checkpoint, ["vanilla_loss", "benefit", "benefit_open", *(f"loss_{policy}" for policy in policies)], where=where)
    by_entropy = study.groups(checkpoint, ["benefit", "benefit_open"], "entropy", where)
    rows = study.rows(checkpoint, difficulty.COLUMNS, where) if in_full or where else None
    by_sequence = study.by_sequence(checkpoint) if where is None else difficulty.by_sequence(rows, study.counts["longest"])
    correlations = difficulty.estimates(by_sequence)
    even = study.held_out(checkpoint, where)
    fit = lexical.fit(even)
    compared, gated = swaps.compared(policies), swaps.with_gate_effect(policies)
    added = swaps.added_loss(sums, compared)
    tested = swaps.random_policy(policies)
    minimum = study.default_minimum()
    return Figures(
        checkpoint=checkpoint,
        kind=facts["kind"],
        recursions=recursions,
        sequences=len(by_sequence),
        scored=int(by_sequence["scored"].sum()),
        where=where,
        policies=policies,
        compared=compared,
        gated=gated,
        mean_loss=swaps.mean_loss(sums, policies),
        mean_loss_first_500=_first(sums, by_sequence),
        block_share=swaps.block_share(study.blocks(checkpoint, where), policies, max(recursions, 1)),
        depth_share=depths.share(sums)[:recursions],
        loss_by_depth=depths.mean_of(sums, "vanilla_loss")[:recursions],
        correlations=correlations,
        unexplained=ratio(by_sequence["unexplained"], by_sequence["recurring"]),
        mean_depth_by_decile=deciles.mean_depth(sums),
        depth_share_by_decile=deciles.share_of_depths(sums)[:, :recursions],
        benefit_by_decile=deciles.mean_of(sums, "benefit"),
        benefit_by_entropy_decile=deciles.mean_of(by_entropy, "benefit"),
        benefit_by_depth=depths.mean_of(sums, "benefit")[:recursions],
        benefit_open_by_decile=deciles.mean_of(sums, "benefit_open"),
        benefit_open_by_entropy_decile=deciles.mean_of(by_entropy, "benefit_open"),
        benefit_open_by_depth=depths.mean_of(sums, "benefit_open")[:recursions],
        lexical=fit,
        added_loss=added,
        added_loss_by_depth=swaps.added_loss_by_depth(sums, compared)[:, :recursions],
        added_loss_by_decile=swaps.added_loss_by_decile(sums, compared),
        gate_effect=swaps.gate_effect(sums, gated),
        rules=rules.rules(facts["kind"], correlations, fit.r2, added[compared.index(tested)] if tested else None, where, thresholds),
        tokens=study.tokens(checkpoint, minimum, where),
        minimum=minimum,
        sensitivity=difficulty.sensitivity(rows, study.counts["longest"]) if in_full else None,
        splits=lexical.table(even, rows) if in_full else None,
    )


def _first(sums: Groups, by_sequence: pd.DataFrame) -> Estimate:
    """Mean loss under the router over the sequences numbered below FIRST."""
    is_first = by_sequence["sequence"].to_numpy() < FIRST
    return ratio(sums.total("loss_router")[is_first], sums.total("positions")[is_first])
