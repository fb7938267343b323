"""One batch of sequences through a model under many policies, sharing what is the same.

Policies that keep the same tokens at a recursion share its block; they part where their selections
or gates part. One policy alone runs the same code, so sharing changes no value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from precompute.model import Model
from precompute.policies import Policy, Step


@dataclass
class Leaf:
    """Where policies with one common result end: their names, `hidden` [N, T, H] before the head, `depth` [N, T]."""

    policies: list[str]
    hidden: Tensor
    depth: Tensor


@dataclass
class Trace:
    """What the router did under its own policy, one entry a recursion (token-choice: one in all).

    `logits`, `probability`: [N, T] (token-choice [N, T, R]); `candidates` and `kept`: [N, T] bool.
    """

    logits: list[Tensor] = field(default_factory=list)
    probability: list[Tensor] = field(default_factory=list)
    candidates: list[Tensor] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)


def run(
    model: Model, ids: Tensor, policies: Sequence[Policy], sequences: Sequence[int], seed: int, trace: Trace
) -> Iterator[Leaf]:
    """Runs ids [N, T] under every policy, yielding each distinct result once; fills `trace`.

    `router` must be the first policy. `sequences` are the indices that random draws depend on.
    """
    x = model.embed(ids)
    everything = torch.ones_like(ids, dtype=torch.bool)
    nothing = torch.zeros_like(ids)
    if not model.settings.routed:
        depth = nothing + (model.settings.recursions or 0)
        yield Leaf([policy.name for policy in policies], model.finish(x), depth)
        return
    walk = {"expert": ExpertChoice, "token": TokenChoice}[model.settings.kind](model, sequences, seed, trace)
    yield from walk.start(x, everything, nothing, list(policies))


class ExpertChoice:
    """Each recursion keeps some of the tokens kept before: x <- x + gate * block(x) on the kept."""

    def __init__(self, model: Model, sequences: Sequence[int], seed: int, trace: Trace):
        self.model, self.sequences, self.seed, self.trace = model, sequences, seed, trace

    def start(self, x: Tensor, candidates: Tensor, depth: Tensor, policies: list[Policy]) -> Iterator[Leaf]:
        yield from self._descend(0, x, candidates, depth, policies)

    def _descend(self, r: int, x: Tensor, candidates: Tensor, depth: Tensor, policies: list[Policy]) -> Iterator[Leaf]:
        settings = self.model.settings
        if r == settings.recursions:
            yield Leaf([policy.name for policy in policies], self.model.finish(x), depth)
            return
        logits = self.model.router_logits(r, x)
        probability = router_function(settings.router_function, logits)
        step = Step(
            recursion=r,
            candidates=candidates,
            sequences=self.sequences,
            seed=self.seed,
            probability=probability.detach(),
            keep_count=max(1, int(settings.capacities[r] * x.shape[1])),
        )
        for keep, group in _groups(step, policies, self.trace, logits, probability):
            out = self.model.recurse(r, x, keep)  # [kept, H]
            for gate in ("router", "open"):
                members = [policy for policy in group if policy.gate == gate]
                if members:
                    yield from self._descend(r + 1, self._add(x, out, keep, probability, gate), keep, depth + keep, members)

    def _add(self, x: Tensor, out: Tensor, keep: Tensor, probability: Tensor, gate: str) -> Tensor:
        settings = self.model.settings
        if gate == "open":
            out = out * settings.alpha
        elif settings.weighted:
            scale = settings.alpha if settings.router_function else 1.0
            out = out * (probability[keep] * scale).unsqueeze(-1)
        return x.index_put((keep,), x[keep] + out)


class TokenChoice:
    """The router picks a depth per token at once: h <- block(h) on those not done, y = x + gate * h at the end."""

    def __init__(self, model: Model, sequences: Sequence[int], seed: int, trace: Trace):
        self.model, self.sequences, self.seed, self.trace = model, sequences, seed, trace

    def start(self, x: Tensor, candidates: Tensor, depth: Tensor, policies: list[Policy]) -> Iterator[Leaf]:
        settings = self.model.settings
        self.x = x
        self.logits = self.model.router_logits(0, x)  # [N, T, R]
        self.probability = router_function(settings.router_function, self.logits)
        biased = self.probability * settings.alpha + self.model.router_bias
        # argmax of equal entries may differ between devices: the first, that is the shallower, wins here.
        self.chosen = 1 + (biased == biased.amax(dim=-1, keepdim=True)).int().argmax(dim=-1)  # [N, T]
        yield from self._descend(0, x, candidates, depth, policies)

    def _descend(self, r: int, h: Tensor, candidates: Tensor, depth: Tensor, policies: list[Policy]) -> Iterator[Leaf]:
        if r == self.model.settings.recursions:
            for gate in ("router", "open"):
                members = [policy.name for policy in policies if policy.gate == gate]
                if members:
                    yield Leaf(members, self.model.finish(self._add(h, depth, gate)), depth)
            return
        step = Step(recursion=r, candidates=candidates, sequences=self.sequences, seed=self.seed, chosen=self.chosen)
        for keep, group in _groups(step, policies, self.trace, self.logits, self.probability):
            out = self.model.recurse(r, h, keep)
            yield from self._descend(r + 1, h.index_put((keep,), out), keep, depth + keep, group)

    def _add(self, h: Tensor, depth: Tensor, gate: str) -> Tensor:
        settings = self.model.settings
        if gate == "open":
            h = h * settings.alpha
        elif settings.weighted:
            column = (depth - 1).clamp(min=0).unsqueeze(-1)
            h = h * (self.probability.gather(-1, column) * settings.alpha)
        return self.x + h


def router_function(name: str | None, logits: Tensor) -> Tensor:
    """The router's probabilities, without alpha, in the shape of its logits."""
    if name == "sigmoid":
        return torch.sigmoid(logits)
    if name == "tanh":
        return torch.tanh(logits)
    return torch.softmax(logits, dim=-1) if name == "softmax" else logits


def _groups(
    step: Step, policies: list[Policy], trace: Trace, logits: Tensor, probability: Tensor
) -> list[tuple[Tensor, list[Policy]]]:
    """Policies by the tokens they keep at this step; `router`'s own step goes into the trace."""
    groups: list[tuple[Tensor, list[Policy]]] = []
    for policy in policies:
        if policy.name == "router":
            keep = policy.select(step)
            trace.logits.append(logits)
            trace.probability.append(probability)
            trace.candidates.append(step.candidates)
            trace.kept.append(keep)
        else:
            keep = policy.select(_with_router(step, trace))
        for known, members in groups:
            if torch.equal(known, keep):
                members.append(policy)
                break
        else:
            groups.append((keep, [policy]))
    return groups


def _with_router(step: Step, trace: Trace) -> Step:
    kept = trace.kept[step.recursion] if step.recursion < len(trace.kept) else None
    return Step(**{**step.__dict__, "router_kept": kept})
