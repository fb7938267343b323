"""Made-up observations whose truth is known: what the measures should find in them.

Every position has a difficulty made of effects of its token, document and sequence and of noise; a
router scores it, and what depth brings there depends on the planted truth:

    lexical     the score is the token's own; tokens differ in difficulty, so depth and difficulty are tied through the token alone
    difficulty  the score is the difficulty, with noise; depth brings most where the score is high
    noise       the score is noise, and depth brings nothing
    mixed       the score is the token's, the difficulty and noise; depth brings most where the score is high
    sharpening  as mixed, but each recursion only sharpens the same distribution towards the true one: nothing is missing at depth 1
    gate        as mixed, but depth brings nothing: under the router's gate a swapped depth costs loss, with the gate open it does not
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TRUTHS = ("lexical", "difficulty", "noise", "mixed", "sharpening", "gate")
TOKEN, DOCUMENT, SEQUENCE, NOISE = 0.6, 0.25, 0.4, 0.8  # standard deviations of the effects on difficulty
DOCUMENTS = 2  # that begin in a sequence on average
BRINGS = 0.5  # nats: what full depth brings at most over depth 1
GATE_COST = 0.2  # nats: what the router's gate takes from a token at the wrong end of the depths
OUTCOMES = 24  # of the distribution that sharpening sharpens


@dataclass(frozen=True)
class Latents:
    """What lies behind some sequences: arrays [N, T]. `difficulty` is the logarithm of a loss, up to a scale."""

    difficulty: NDArray
    own: NDArray  # the token's own score
    noise: NDArray  # the router's
    loss: NDArray  # the reference's, nats
    entropy: NDArray  # nats
    logits: NDArray | None  # [N, T, OUTCOMES], for sharpening
    outcome: NDArray | None  # [N, T] drawn from them


def text(seed: int, sequences: int, length: int, vocabulary: int) -> tuple[NDArray, NDArray]:
    """Token ids and document numbers, [sequences, length] int32: Zipf ids, 0 at the end of a document, documents run on across sequences."""
    random = np.random.default_rng([seed, 0])
    weights = 1.0 / (np.arange(1, vocabulary) + 2.7)
    ids = 1 + np.searchsorted(np.cumsum(weights / weights.sum()), random.random(sequences * length))
    ends = random.random(len(ids)) < DOCUMENTS / length
    ids = np.where(ends, 0, np.minimum(ids, vocabulary - 1))
    documents = np.cumsum(np.r_[0, ends[:-1]])
    return ids.reshape(sequences, length).astype(np.int32), documents.reshape(sequences, length).astype(np.int32)


def latents(seed: int, start: int, ids: NDArray, documents: NDArray, truth: str) -> Latents:
    """What lies behind the sequences from number `start` on; ids, documents [N, T]. The same for every checkpoint."""
    random = np.random.default_rng([seed, 1, start])
    difficult, own = _token_effects(seed, int(ids.max()) + 1)
    of_document = np.random.default_rng([seed, 3]).normal(0, DOCUMENT, int(documents.max()) + 1)[documents]
    shared = difficult[ids] + of_document + random.normal(0, SEQUENCE, (len(ids), 1))
    surprise = random.normal(0, NOISE, ids.shape)
    foreseen = 0.5 * surprise + random.normal(0, NOISE / 2, ids.shape)
    difficulty, noise = shared + surprise, random.normal(0, 1, ids.shape)
    if truth != "sharpening":
        loss, entropy = (np.exp(0.4 + 0.8 * values) for values in (difficulty, shared + foreseen))
        return Latents(difficulty, own[ids], noise, loss, entropy, None, None)
    logits = np.exp(0.8 - 0.5 * (shared + foreseen))[..., None] * random.normal(0, 1, (*ids.shape, OUTCOMES))
    likely = _log_softmax(logits)
    outcome = (random.random(ids.shape)[..., None] > np.cumsum(np.exp(likely), axis=-1)).sum(axis=-1).clip(max=OUTCOMES - 1)
    return Latents(difficulty, own[ids], noise, _loss(likely, outcome), -(np.exp(likely) * likely).sum(axis=-1), logits, outcome)


def observations(seed: int, start: int, behind: Latents, truth: str, kind: str, recursions: int, policies: Sequence[str]) -> dict[str, NDArray]:
    """Columns of `observations` of a checkpoint for the same sequences, [N, T]; NaN where NULL, losses at the last position included."""
    random = np.random.default_rng([seed, 2, start, recursions, kind == "expert"])
    score = (_score(behind, truth) + random.normal(0, 0.01, behind.noise.shape)).astype(np.float32)
    columns, router = (_expert if kind == "expert" else _token)(score, recursions)
    depths = {"router": router}
    own = behind.loss + np.abs(random.normal(0, 0.1, score.shape))
    for policy in policies:
        name = "router" if policy == "router_depths_open" else policy.removesuffix("_open")
        if name not in depths:
            depths[name] = _swapped(random, name, score, router, recursions)
        depth = depths[name]
        loss = _loss_at(behind, truth, own, score, depth, recursions)
        if truth == "gate" and name == policy:
            loss = loss + GATE_COST * np.abs(depth - router) / max(recursions - 1, 1)
        columns["depth" if policy == "router" else f"depth_{policy}"] = depth.astype(np.uint8)
        columns[f"loss_{policy}"] = _scored(loss + random.normal(0, 0.03, loss.shape).clip(-loss / 2))
    columns["entropy"] = _scored(behind.entropy)
    return columns


def scored_columns(behind: Latents) -> dict[str, NDArray]:
    """The reference's own loss and entropy, as the columns of its pass."""
    return {"loss_router": _scored(behind.loss), "entropy": _scored(behind.entropy)}


def capacities(length: int, recursions: int) -> list[int]:
    """How many tokens an expert-choice recursion keeps."""
    return [max(1, int((recursions - r) / recursions * length)) for r in range(recursions)]


def _token_effects(seed: int, tokens: int) -> tuple[NDArray, NDArray]:
    """Each token's difficulty and its own score, correlated 0.7."""
    random = np.random.default_rng([seed, 4])
    difficult, other = random.normal(0, TOKEN, tokens), random.normal(0, 1, tokens)
    return difficult, 0.7 * difficult / TOKEN + np.sqrt(1 - 0.7**2) * other


def _score(behind: Latents, truth: str) -> NDArray:
    if truth == "lexical":
        return behind.own
    if truth == "noise":
        return behind.noise
    if truth == "difficulty":
        return (behind.difficulty + 0.7 * behind.noise) / 1.3
    return (behind.own + behind.difficulty + behind.noise) / 1.9


def _loss_at(behind: Latents, truth: str, own: NDArray, score: NDArray, depth: NDArray, recursions: int) -> NDArray:
    missing = (recursions - depth) / max(recursions - 1, 1)  # 1 at depth 1, 0 at depth R
    if truth == "sharpening":
        return _loss(_log_softmax((1 - 0.5 * missing)[..., None] * behind.logits), behind.outcome)
    if truth in ("noise", "gate"):
        return own
    return own + BRINGS * missing / (1 + np.exp(-2.0 * score))


def _swapped(random: np.random.Generator, name: str, score: NDArray, router: NDArray, recursions: int) -> NDArray:
    """Depths under a policy, [N, T]."""
    if name == "random":
        return _by_quota(random.random(score.shape), recursions)
    if name == "inverted":
        return _by_quota(-score, recursions)
    if name == "shuffled":
        return random.permuted(router, axis=1)
    return _fixed(int(name.removeprefix("depth_")), score, recursions)


def _fixed(depth: int, score: NDArray, recursions: int) -> NDArray:
    """Everywhere the same depth; expert-choice keeps one stray token at every later recursion, the likeliest."""
    depths = np.full(score.shape, depth)
    depths[np.arange(len(score)), score.argmax(axis=1)] = recursions
    return depths


def _by_quota(score: NDArray, recursions: int) -> NDArray:
    """Nested top-k within each sequence, ties to the lower position."""
    order = np.argsort(-score, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(score.shape[1]), score.shape), axis=1)
    return sum((rank < kept).astype(np.int64) for kept in capacities(score.shape[1], recursions))


def _expert(score: NDArray, recursions: int) -> tuple[dict[str, NDArray], NDArray]:
    depth, columns = _by_quota(score, recursions), {}
    for r in range(recursions):
        candidates, kept = depth >= r, depth > r
        p = (1 / (1 + np.exp(-2 * score + r))).astype(np.float32)
        dropped = candidates & ~kept
        worst = np.where(kept, p, np.inf).min(axis=1, keepdims=True)
        best = np.where(dropped, p, -np.inf).max(axis=1, keepdims=True)
        margin = np.where(kept, p - best, p - worst)
        tied = (candidates & (p == worst)).sum(axis=1, keepdims=True) * (best == worst)
        columns[f"probability_{r + 1}"] = np.where(candidates, p, np.nan).astype(np.float32)
        columns[f"margin_{r + 1}"] = np.where(candidates & dropped.any(axis=1, keepdims=True), margin, np.nan).astype(np.float32)
        columns[f"ties_{r + 1}"] = np.broadcast_to(tied, p.shape)
    return columns, depth


def _token(score: NDArray, recursions: int) -> tuple[dict[str, NDArray], NDArray]:
    centres = np.linspace(-0.9, 1.4, recursions)
    p = np.exp(_log_softmax(-2 * (score[..., None] - centres) ** 2)).astype(np.float32)
    best = np.sort(p, axis=-1)
    margin = best[..., -1] - best[..., -2]
    columns = {f"probability_{r + 1}": p[..., r] for r in range(recursions)}
    ties = (margin == 0).sum(axis=1, keepdims=True)
    return columns | {"margin_1": margin, "ties_1": np.broadcast_to(ties, margin.shape)}, 1 + p.argmax(axis=-1)


def _log_softmax(logits: NDArray) -> NDArray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _loss(log_probability: NDArray, outcome: NDArray) -> NDArray:
    return -np.take_along_axis(log_probability, outcome[..., None], axis=-1)[..., 0]


def _scored(values: NDArray) -> NDArray:
    """float32 with NaN at the last position of each sequence, which predicts nothing."""
    values = values.astype(np.float32)
    values[:, -1] = np.nan
    return values
