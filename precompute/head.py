"""Loss and entropy of every prediction, in one pass over tiles of the vocabulary.

Never more than one tile of logits is held. Log-sum-exp and the entropy's sum run in float32 from
logits of the model's precision.
"""

import torch
from torch import Tensor

# Rows and columns of a tile by device: one that stays in a core's cache, or one that fills a GPU.
TILES = {"cpu": (512, 2048), "cuda": (8192, 8192)}
LOWEST = torch.finfo(torch.float32).min  # below every maximum, and unlike -inf it can be multiplied by 0


def loss_and_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, tile: tuple[int, int] | None = None) -> tuple[Tensor, Tensor]:
    """Loss -log p(target) and entropy of the predictive distribution, both float32 in nats, [P].

    hidden [P, H] after the final norm, weight [V, H], targets [P].
    """
    rows = _rows(hidden, weight, targets, tile, entropy=True)
    return torch.cat([m + s.log() - target for m, s, _, target in rows]), torch.cat([s.log() - t / s for _, s, t, _ in rows])


def loss(hidden: Tensor, weight: Tensor, targets: Tensor, tile: tuple[int, int] | None = None) -> Tensor:
    """The loss alone, the same bits for less work."""
    return torch.cat([m + s.log() - target for m, s, _, target in _rows(hidden, weight, targets, tile, entropy=False)])


def _rows(hidden: Tensor, weight: Tensor, targets: Tensor, tile: tuple[int, int] | None, entropy: bool) -> list[tuple[Tensor, ...]]:
    """The sums of `_tiles` for runs of predictions, one (empty) run where there is none."""
    rows, columns = tile or TILES[hidden.device.type]
    starts = range(0, max(1, len(hidden)), rows)
    return [_tiles(hidden[start : start + rows], weight, targets[start : start + rows], columns, entropy) for start in starts]


def _tiles(hidden: Tensor, weight: Tensor, targets: Tensor, columns: int, entropy: bool) -> tuple[Tensor, ...]:
    """Over tiles of the logits z: the maximum m, s = sum exp(z - m), t = sum (z - m) exp(z - m) (0 unless asked for), and z of the target."""
    m = torch.full((len(hidden),), LOWEST, device=hidden.device)
    s, t, target = torch.zeros_like(m), torch.zeros_like(m), torch.zeros_like(m)
    logits = hidden.new_empty(len(hidden), min(columns, len(weight)))  # one for all tiles: fresh memory costs a CPU as much as the product
    for start in range(0, len(weight), columns):
        part = weight[start : start + columns]
        z = torch.mm(hidden, part.T, out=logits[:, : len(part)]).float()  # [P, tile]
        place = targets - start
        found = z.gather(1, place.clamp(0, z.shape[1] - 1).unsqueeze(1)).squeeze(1)
        target = torch.where((place >= 0) & (place < z.shape[1]), found, target)
        top = torch.maximum(m, z.amax(dim=1))
        shrink = (m - top).exp()  # 0 at the first tile, where nothing is summed yet
        z -= top.unsqueeze(1)
        weights = z.exp() if entropy else z.exp_()
        if entropy:
            t = shrink * (t + s * (m - top)) + (z * weights).sum(dim=1)
        s = shrink * s + weights.sum(dim=1)
        m = top
    return m, s, t, target
