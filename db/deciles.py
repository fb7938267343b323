"""Depth and benefit by decile of difficulty. Analysis, measures 4 and 5."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from db.groups import DECILES, Groups
from db.intervals import Estimate, add_columns, add_counts, ratio

MEANS = ("vanilla_loss", "benefit", "benefit_open")
FIGURES = ("mean_depth", "share_depth", *MEANS)


def table(groups: Groups, figures: Collection[str] = FIGURES) -> pd.DataFrame:
    """One row is a decile, 1 easiest to 10 hardest.

    n (scored positions), sequences (that contribute), reliable (whether enough do for the interval),
    and those of FIGURES asked for, with `_low` and `_high` of a 95% interval: mean_depth (1 to R),
    share_depth_<d> (of the decile's positions), vanilla_loss, benefit and benefit_open (means in nats).
    NaN where undefined.
    """
    frame = pd.DataFrame({"decile": np.arange(1, DECILES + 1)})
    add_counts(frame, groups.by_decile_and_depth("positions").sum(axis=2))
    if "mean_depth" in figures:
        add_columns(frame, "mean_depth", mean_depth(groups))
    if "share_depth" in figures:
        share = share_of_depths(groups)
        for index in range(groups.depths):
            add_columns(frame, f"share_depth_{index + 1}", share[:, index])
    for name in MEANS:
        if name in figures:
            add_columns(frame, name, mean_of(groups, name))
    return frame


def mean_depth(groups: Groups) -> Estimate:
    """Mean depth of each decile, [10]."""
    positions = groups.by_decile_and_depth("positions")
    return ratio(positions @ np.arange(1.0, groups.depths + 1), positions.sum(axis=2))


def share_of_depths(groups: Groups) -> Estimate:
    """Share of each depth among the positions of each decile, [10, R]."""
    positions = groups.by_decile_and_depth("positions")
    return ratio(positions, np.broadcast_to(positions.sum(axis=2, keepdims=True), positions.shape))


def mean_of(groups: Groups, name: str) -> Estimate:
    """Mean of a column in nats in each decile, [10]."""
    return ratio(groups.by_decile(name), groups.by_decile("positions"))
