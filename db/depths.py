"""How positions spread over depths, and what each depth goes with. Analysis, measures 3 and 5."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from db.deciles import share_of_depths
from db.groups import DECILES, Groups
from db.intervals import Estimate, add_columns, add_counts, ratio

BENEFITS = ("benefit", "benefit_open")
FIGURES = ("share", *BENEFITS)


def share(groups: Groups) -> Estimate:
    """Share of positions at each depth, [R]."""
    positions = groups.by_depth("positions")
    return ratio(positions, np.broadcast_to(positions.sum(axis=1, keepdims=True), positions.shape))


def mean_of(groups: Groups, name: str) -> Estimate:
    """Mean of a column in nats at each depth, [R]."""
    return ratio(groups.by_depth(name), groups.by_depth("positions"))


def table(groups: Groups) -> pd.DataFrame:
    """One row is a depth, 1 to R: n, sequences, reliable, and with intervals share (of positions), vanilla_loss, benefit, benefit_open (means in nats)."""
    frame = pd.DataFrame({"depth": np.arange(1, groups.depths + 1)})
    loss = mean_of(groups, "vanilla_loss")
    frame["n"], frame["sequences"], frame["reliable"] = loss.n.astype(int), loss.sequences, loss.reliable
    add_columns(frame, "share", share(groups))
    for name in ("vanilla_loss", "benefit", "benefit_open"):
        add_columns(frame, name, mean_of(groups, name))
    return frame


def by_decile(groups: Groups, figures: Collection[str] = FIGURES) -> pd.DataFrame:
    """One row is a decile and a depth: n, sequences, reliable, and those of FIGURES asked for with intervals: share (of the decile's positions), benefit, benefit_open (means in nats)."""
    positions = groups.by_decile_and_depth("positions")
    frame = pd.DataFrame({"decile": np.repeat(np.arange(1, DECILES + 1), groups.depths), "depth": np.tile(np.arange(1, groups.depths + 1), DECILES)})
    add_counts(frame, positions)
    if "share" in figures:
        add_columns(frame, "share", share_of_depths(groups))
    for name in BENEFITS:
        if name in figures:
            add_columns(frame, name, ratio(groups.by_decile_and_depth(name), positions))
    return frame
