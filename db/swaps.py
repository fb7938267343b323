"""What another routing costs, and how much of that is the gate. Analysis, measures 3 (block share) and 8."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from db.groups import Groups
from db.intervals import Estimate, add_columns, ratio

BASELINES = ("router", "router_open")
REPLAYED = "router_depths_open"  # the very same tokens, gates open: what opening the gate alone does


def baseline(policy: str) -> str:
    """The policy that a policy is compared with: the router under the same gate, and the router itself for its replay."""
    return "router_open" if policy.endswith("_open") and policy != REPLAYED else "router"


def compared(policies: Sequence[str]) -> list[str]:
    """Of the policies run, those with a baseline that was run too."""
    return [policy for policy in policies if policy not in BASELINES and baseline(policy) in policies]


def random_policy(policies: Sequence[str]) -> str | None:
    """The policy that tells whether routing matters: `random`, for token-choice `shuffled`, where it was run."""
    return next((policy for policy in ("random", "shuffled") if policy in policies and "router" in policies), None)


def with_gate_effect(policies: Sequence[str]) -> list[str]:
    """Of the policies run, those whose gate effect is known."""
    complete = [policy for policy in policies if policy not in BASELINES and {policy, f"{policy}_open", *BASELINES} <= set(policies)]
    return complete + [policy for policy in (REPLAYED,) if policy in policies]


def mean_loss(groups: Groups, policies: Sequence[str]) -> Estimate:
    """Mean loss in nats under each policy, [policies]."""
    return _over_positions(groups, [groups.total(f"loss_{policy}") for policy in policies])


def added_loss(groups: Groups, policies: Sequence[str]) -> Estimate:
    """Loss under each policy less that under its baseline, in nats, [policies]."""
    return _over_positions(groups, [_added(groups, policy).sum(axis=(1, 2)) for policy in policies])


def added_loss_by_depth(groups: Groups, policies: Sequence[str]) -> Estimate:
    """The same at each depth under the router, [policies, R]."""
    return _stacked([_added(groups, policy)[:, 1:].sum(axis=2) for policy in policies], groups.by_depth("positions"))


def added_loss_by_decile(groups: Groups, policies: Sequence[str]) -> Estimate:
    """The same in each decile, [policies, 10]."""
    return _stacked([_added(groups, policy)[:, :, 1:].sum(axis=1) for policy in policies], groups.by_decile("positions"))


def gate_effect(groups: Groups, policies: Sequence[str]) -> Estimate:
    """(X_open - router_open) - (X - router) for each policy X, paired by sequence; for the replay its added loss. [policies]"""

    def effect(policy: str) -> NDArray:
        own = _added(groups, policy).sum(axis=(1, 2))
        return own if policy == REPLAYED else _added(groups, f"{policy}_open").sum(axis=(1, 2)) - own

    return _over_positions(groups, [effect(policy) for policy in policies])


def block_share(blocks: pd.DataFrame, policies: Sequence[str], recursions: int) -> Estimate:
    """Executed recursions over R x positions under each policy, all positions, [policies]. `blocks`: rows of block_sums."""
    executed = blocks[[f"sum_{depth_column(policy)}" for policy in policies]].to_numpy(dtype=np.float64)
    positions = np.broadcast_to(blocks[["positions"]].to_numpy(), executed.shape)
    return ratio(executed, recursions * positions, n=positions)


def depth_column(policy: str) -> str:
    """The column that holds the depths of a policy."""
    return "depth" if policy == "router" else f"depth_{policy}"


def table(groups: Groups, blocks: pd.DataFrame, policies: Sequence[str], recursions: int) -> pd.DataFrame:
    """One row is a policy run: policy, gate, baseline, n, sequences, reliable, and with intervals mean_loss, block_share, added_loss, gate_effect."""
    frame = pd.DataFrame({"policy": policies})
    frame["gate"] = ["open" if policy.endswith("_open") else "router" for policy in policies]
    frame["baseline"] = [baseline(policy) for policy in policies]
    losses = mean_loss(groups, policies)
    frame["n"], frame["sequences"], frame["reliable"] = losses.n.astype(int), losses.sequences, losses.reliable
    add_columns(frame, "mean_loss", losses)
    add_columns(frame, "block_share", block_share(blocks, policies, recursions))
    for name, figure, subset in (("added_loss", added_loss, compared(policies)), ("gate_effect", gate_effect, with_gate_effect(policies))):
        part = pd.DataFrame({"policy": subset})
        add_columns(part, name, figure(groups, subset))
        frame = frame.merge(part, on="policy", how="left")
    return frame


def table_by(groups: Groups, policies: Sequence[str], by: str) -> pd.DataFrame:
    """One row is a policy with a baseline and a depth or decile (`by`): policy, baseline, depth or decile, n, sequences, reliable, and with an interval added_loss."""
    subset = compared(policies)
    added = (added_loss_by_depth if by == "depth" else added_loss_by_decile)(groups, subset)
    members = np.arange(1, added.value.shape[1] + 1)
    frame = pd.DataFrame({"policy": np.repeat(subset, len(members)), by: np.tile(members, len(subset))})
    frame.insert(1, "baseline", [baseline(policy) for policy in frame["policy"]])
    frame["n"], frame["sequences"], frame["reliable"] = added.n.ravel().astype(int), added.sequences.ravel(), added.reliable.ravel()
    add_columns(frame, "added_loss", added)
    return frame


def _added(groups: Groups, policy: str) -> NDArray:
    return groups.sums[f"loss_{policy}"] - groups.sums[f"loss_{baseline(policy)}"]


def _over_positions(groups: Groups, totals: list[NDArray]) -> Estimate:
    return _stacked(totals, groups.total("positions"))


def _stacked(sums: list[NDArray], positions: NDArray) -> Estimate:
    """Each of the sums over the same positions; a policy's axis comes first. [policies, ...]"""
    shape = (*positions.shape[:1], len(sums), *positions.shape[1:])
    numerator = np.stack(sums, axis=1) if sums else np.zeros(shape)
    return ratio(numerator, np.broadcast_to(positions[:, None], shape))
