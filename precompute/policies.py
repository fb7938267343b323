"""Routing policies: which tokens a recursion keeps, and which gate multiplies its output.

A policy only selects. It sees the router's probabilities and answers with the kept tokens; the
gate stays the router's own (`router`) or is held at alpha (`open`).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from db.errors import UserError
from db.schema import standard_policies
from precompute.settings import Settings


@dataclass(frozen=True)
class Step:
    """What a policy may look at when it selects the tokens of one recursion.

    `probability` [N, T] and `keep_count` belong to expert-choice; `chosen` [N, T], the router's own
    depth, to token-choice. `candidates` [N, T] were kept at every earlier recursion. `router_kept`
    [N, T] is what `router` itself kept at this recursion, where it has run already.
    """

    recursion: int
    candidates: Tensor
    sequences: Sequence[int]
    seed: int
    probability: Tensor | None = None
    keep_count: int = 0
    chosen: Tensor | None = None
    router_kept: Tensor | None = None


Select = Callable[[Step], Tensor]


@dataclass(frozen=True)
class Policy:
    """A named way to route: `select` gives the kept tokens [N, T] of a recursion."""

    name: str
    gate: str
    select: Select
    description: str
    seeded: bool = False


def top(step: Step) -> Tensor:
    """The candidates with the highest probability, ties to the lower position."""
    return _best(step.probability, step.candidates, step.keep_count)


def lowest(step: Step) -> Tensor:
    """The candidates with the lowest probability, ties to the lower position."""
    return _best(-step.probability, step.candidates, step.keep_count)


def uniform(step: Step) -> Tensor:
    """A uniformly random subset of the candidates, drawn per (seed, sequence, recursion)."""
    length = step.candidates.shape[1]
    draws = [_generator(step, sequence).random(length) for sequence in step.sequences]
    keys = torch.from_numpy(np.stack(draws)).to(step.candidates.device)
    return _best(keys, step.candidates, step.keep_count)


def as_chosen(step: Step) -> Tensor:
    """Token-choice: the tokens whose own depth is above this recursion."""
    return step.chosen > step.recursion


def shuffled(step: Step) -> Tensor:
    """Token-choice: the router's own depths, permuted within each sequence per (seed, sequence)."""
    length = step.chosen.shape[1]
    orders = [np.random.default_rng([step.seed, sequence]).permutation(length) for sequence in step.sequences]
    order = torch.from_numpy(np.stack(orders)).to(step.chosen.device)
    return step.chosen.gather(1, order) > step.recursion


def fixed(depth: int) -> Select:
    """Every token to `depth`. Expert-choice keeps max(1, 0) = one stray token after it, the likeliest."""

    def select(step: Step) -> Tensor:
        if step.recursion < depth:
            return step.candidates
        if step.chosen is not None:
            return torch.zeros_like(step.candidates)
        return _best(step.probability, step.candidates, 1)

    return select


def assigned(depths: np.ndarray) -> Select:
    """The given depths [sequences, T]: kept at recursion r where the depth is above r."""

    def select(step: Step) -> Tensor:
        rows = np.ascontiguousarray(depths[list(step.sequences)]).astype(np.int64)
        return torch.from_numpy(rows).to(step.candidates.device) > step.recursion

    return select


def replayed(step: Step) -> Tensor:
    """What `router` kept at this recursion."""
    return step.router_kept


def available(settings: Settings, assignments: dict[str, np.ndarray] | None = None) -> list[Policy]:
    """Every policy that a kind of model has, each with its open twin where its gate can be opened.

    `router` comes first: `router_depths_open` replays it. `assignments` maps a user's names to depths.
    """
    if not settings.routed:
        return [Policy("router", "router", replayed, "the model's one pass; it has no router")]
    policies: list[Policy] = []
    for name, select, seeded, description in _selections(settings, assignments or {}):
        policies.append(Policy(name, "router", select, description, seeded))
        if settings.opens:
            policies.append(Policy(f"{name}_open", "open", select, f"{description}; gate held at alpha", seeded))
    if settings.opens:
        policies.append(Policy("router_depths_open", "open", replayed, "the depths of router replayed; gate held at alpha"))
    return policies


def _selections(settings: Settings, assignments: dict[str, np.ndarray]) -> list[tuple[str, Select, bool, str]]:
    if settings.kind == "expert":
        rows = [
            ("router", top, False, "each recursion keeps its capacity's likeliest tokens, as trained"),
            ("random", uniform, True, "each recursion keeps a uniformly random subset of the same size"),
            ("inverted", lowest, False, "each recursion keeps the least likely tokens"),
        ]
    else:
        rows = [
            ("router", as_chosen, False, "each token takes its likeliest depth, as trained"),
            ("shuffled", shuffled, True, "the router's own depths, permuted within each sequence"),
        ]
    for depth in range(1, settings.recursions + 1):
        rows.append((f"depth_{depth}", fixed(depth), False, f"every token runs {depth} of {settings.recursions} recursions"))
    for name, depths in assignments.items():
        rows.append((name, assigned(depths), False, "depths given with --assign"))
    return rows


def chosen(policies: list[Policy], names: Sequence[str] | None) -> list[Policy]:
    """The policies called `names` (None: all), in running order; `router` always, as its depths are the file's."""
    return [policy for policy in policies if names is None or policy.name in names or policy.name == "router"]


def check_name(name: str, recursions: int) -> None:
    """Raises UserError where a user's policy name is malformed or taken."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name) or name.endswith("_open"):
        raise UserError(
            f"Policy name {name!r} cannot be used: it should be a lower-case letter and up to 30 letters, digits or _, and not end in _open."
        )
    if name in standard_policies(recursions) or re.fullmatch(r"depth_\d+", name) or name == "router_depths":
        raise UserError(f"Policy name {name!r} is a standard one; choose another with --assign.")


def _best(score: Tensor, candidates: Tensor, count: int) -> Tensor:
    """The `count` candidates [N, T] of highest score, ties to the lower position."""
    ranked = score.double().masked_fill(~candidates, -torch.inf).sort(dim=1, descending=True, stable=True).indices
    keep = torch.zeros_like(candidates).scatter_(1, ranked[:, :count], True)
    return keep & candidates


def _generator(step: Step, sequence: int) -> np.random.Generator:
    return np.random.default_rng([step.seed, sequence, step.recursion])
