"""What happens at every position of a batch: depth, losses, entropy and the router's margins."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from db.errors import UserError
from precompute import head
from precompute.model import Model
from precompute.passes import Leaf, Trace, run
from precompute.policies import Policy


@torch.inference_mode()
def observe(model: Model, ids: np.ndarray, policies: Sequence[Policy], sequences: Sequence[int], seed: int) -> dict[str, np.ndarray]:
    """The columns of `observations` that the model decides, each [N, T]; NaN where a value is NULL.

    ids [N, T]; losses and entropy in nats. Also `ties_<r>` [N, T], the same for a whole sequence.
    Raises UserError naming the first place where a loss, entropy or probability is not finite.
    """
    tokens = torch.tensor(np.asarray(ids), dtype=torch.long, device=model.device)
    trace = Trace()
    columns: dict[str, np.ndarray] = {}
    for leaf in run(model, tokens, policies, sequences, seed, trace):
        loss, entropy = predictions(model, leaf, tokens)
        _refuse_infinite("loss", leaf.policies[0], loss, sequences)
        for name in leaf.policies:
            columns[f"loss_{name}"] = _padded(loss)
            if model.settings.recursions:
                columns["depth" if name == "router" else f"depth_{name}"] = leaf.depth.cpu().numpy().astype(np.uint8)
        if entropy is not None:
            _refuse_infinite("entropy", "router", entropy, sequences)
            columns["entropy"] = _padded(entropy)
    if model.settings.routed:
        columns |= _router_columns(model, trace, sequences)
    return columns


def predictions(model: Model, leaf: Leaf, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
    """Loss of every position that has a next token, [N, T-1], and the entropy where `router` ends in the leaf."""
    shape = (tokens.shape[0], tokens.shape[1] - 1)
    given = leaf.hidden[:, :-1].flatten(0, 1), model.lm_head.weight, tokens[:, 1:].flatten()
    if "router" not in leaf.policies:
        return head.loss(*given).view(shape), None
    loss, entropy = head.loss_and_entropy(*given)
    return loss.view(shape), entropy.view(shape)


def _padded(values: Tensor) -> np.ndarray:
    """[N, T-1] -> [N, T] with NaN at the end, where there is no next token."""
    return np.pad(values.cpu().numpy(), ((0, 0), (0, 1)), constant_values=np.nan)


def _refuse_infinite(what: str, of: str, values: Tensor, sequences: Sequence[int]) -> None:
    if not torch.isfinite(values).all():
        row, position = (~torch.isfinite(values)).nonzero()[0][:2].tolist()
        raise UserError(
            f"The {what} of {of} is not finite at sequence {sequences[row]}, position {position}: "
            "the weights give no prediction there in this precision. Try --precision fp32, or check the checkpoint."
        )


def _router_columns(model: Model, trace: Trace, sequences: Sequence[int]) -> dict[str, np.ndarray]:
    make = _expert_columns if model.settings.kind == "expert" else _token_columns
    columns = make(model, trace)
    for name, values in columns.items():
        if name.startswith("probability"):
            _refuse_infinite("probability", name, values.nan_to_num(0.0, float("inf"), -float("inf")), sequences)
    return {name: values.cpu().numpy() for name, values in columns.items()}


def _expert_columns(model: Model, trace: Trace) -> dict[str, Tensor]:
    columns: dict[str, Tensor] = {}
    for r in range(model.settings.recursions):
        p, candidates, kept = trace.probability[r].float(), trace.candidates[r], trace.kept[r]
        dropped = candidates & ~kept
        worst_kept = p.masked_fill(~kept, torch.inf).amin(dim=1, keepdim=True)  # [N, 1]
        best_dropped = p.masked_fill(~dropped, -torch.inf).amax(dim=1, keepdim=True)  # [N, 1]
        margin = torch.where(kept, p - best_dropped, p - worst_kept)
        tied = (candidates & (p == worst_kept)).sum(dim=1, keepdim=True) * (best_dropped == worst_kept)
        columns[f"probability_{r + 1}"] = p.masked_fill(~candidates, torch.nan)
        columns[f"margin_{r + 1}"] = margin.masked_fill(~candidates | ~dropped.any(dim=1, keepdim=True), torch.nan)
        columns[f"ties_{r + 1}"] = tied.expand_as(p)
    return columns


def _token_columns(model: Model, trace: Trace) -> dict[str, Tensor]:
    p = trace.probability[0].float()  # [N, T, R]
    columns = {f"probability_{r + 1}": p[..., r] for r in range(p.shape[-1])}
    if p.shape[-1] > 1:
        biased = trace.probability[0] * model.settings.alpha + model.router_bias
        best = biased.float().topk(2, dim=-1).values
        margin = best[..., 0] - best[..., 1]
        columns["margin_1"] = margin
        columns["ties_1"] = (margin == 0).sum(dim=1, keepdim=True).expand_as(margin)
    return columns
