"""Loss and entropy of every prediction, in one pass over tiles of the vocabulary.

Never more than one tile of logits is held. Log-sum-exp and the entropy's sum run in float32 from
logits of the model's precision.
"""

import torch
from torch import Tensor

ROWS, COLUMNS = 512, 2048


def loss_and_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, rows: int = ROWS, columns: int = COLUMNS
) -> tuple[Tensor, Tensor]:
    """Loss -log p(target) and entropy of the predictive distribution, both float32 in nats, [P].

    hidden [P, H] after the final norm, weight [V, H], targets [P].
    """
    pieces = [
        _tile_rows(hidden[start : start + rows], weight, targets[start : start + rows], columns)
        for start in range(0, len(hidden), rows)
    ]
    if not pieces:
        return hidden.new_zeros(0, dtype=torch.float32), hidden.new_zeros(0, dtype=torch.float32)
    losses, entropies = zip(*pieces)
    return torch.cat(losses), torch.cat(entropies)


def _tile_rows(hidden: Tensor, weight: Tensor, targets: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Running maximum m, s = sum exp(z - m) and t = sum (z - m) exp(z - m) over tiles of z."""
    m = s = t = None
    target = torch.zeros(len(hidden), dtype=torch.float32, device=hidden.device)
    for start in range(0, len(weight), columns):
        z = (hidden @ weight[start : start + columns].T).float()  # [P, tile]
        place = targets - start
        inside = (place >= 0) & (place < z.shape[1])
        found = z.gather(1, place.clamp(0, z.shape[1] - 1).unsqueeze(1)).squeeze(1)
        target = torch.where(inside, found, target)
        top = z.amax(dim=1) if m is None else torch.maximum(m, z.amax(dim=1))
        shifted = z - top.unsqueeze(1)
        weights = shifted.exp()
        tile_s, tile_t = weights.sum(dim=1), (shifted * weights).sum(dim=1)
        if m is not None:
            shrink = (m - top).exp()
            tile_t = tile_t + shrink * (t + s * (m - top))
            tile_s = tile_s + shrink * s
        m, s, t = top, tile_s, tile_t
    return m + s.log() - target, s.log() - t / s
