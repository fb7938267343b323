"""Mixture-of-Recursions once more, plainly: one sequence, one layer, one policy at a time.

The yardstick that test_kinds.py holds precompute against. It shares no line with it: its own
RMSNorm, rotary embedding, attention and SwiGLU in float64, from a raw state dict, the experiment's
YAML and the Llama configuration as dicts. Clear and slow, it only ever meets tiny models.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# The authors' defaults, where the YAML gives none.
FUNCTION = {"expert": "sigmoid", "token": "softmax"}
ALPHA = {"sigmoid": 0.1, "tanh": 0.1, "softmax": 1.0, None: 1.0}


@dataclass(frozen=True)
class Outcome:
    """What one policy did to one sequence of T tokens, in float64; NaN where a value does not exist."""

    depth: Tensor | None  # [T] executed recursions; None for vanilla
    logits: Tensor  # [T, vocabulary]
    loss: Tensor  # [T - 1] nats
    entropy: Tensor  # [T - 1] nats
    probability: Tensor  # [R, T] the router function without alpha
    margin: Tensor  # [R, T]
    gap: float  # in probability, between the kept and the dropped of this policy's closest cut; inf where it made none


class Plain:
    """A checkpoint of any kind. `state` may lack every copy of a shared weight but the first."""

    def __init__(self, state: dict, pretrain: dict, config: dict, dtype=torch.float64):
        self.state = {name: tensor.to(dtype) for name, tensor in state.items()}
        self.config, self.dtype = config, dtype
        self.mor = pretrain.get("mor") or {}
        recursive = pretrain.get("recursive") or {}
        self.kind = "vanilla"
        self.recursions, self.edge = 0, 0
        self.layers = config["num_hidden_layers"]
        if recursive.get("enable"):
            self.kind = self.mor["type"] if self.mor.get("enable") else "recursive"
            self.recursions = recursive["num_recursion"]
            self.edge = {"middle_cycle": 1, "cycle": 0}[recursive["sharing"]]
            self.block = (self.layers - 2 * self.edge) // self.recursions
            self.layers = self.recursions * self.block + 2 * self.edge
        options = self.mor.get(self.kind) or {}
        self.weighted = options.get("gating", "weighted") == "weighted"
        self.function = options.get("router_func", FUNCTION.get(self.kind))
        self.alpha = float(options.get("alpha", ALPHA.get(self.function)))
        self.loss_free = options.get("balancing") == "loss_free"
        self.temp = self.mor.get("temp", 1.0)

    # -- weights ---------------------------------------------------------------------------------

    def tensor(self, *names: str) -> Tensor:
        """The first of these names that the file holds."""
        return next(self.state[name] for name in names if name in self.state)

    def linear(self, x: Tensor, prefixes: list[str], bias: bool = False) -> Tensor:
        y = x @ self.tensor(*[f"{prefix}.weight" for prefix in prefixes]).T
        return y + self.tensor(*[f"{prefix}.bias" for prefix in prefixes]) if bias else y

    def plain_layer(self, index: int) -> list[str]:
        """Where layer `index` of an unrolled model may be stored: its own copy, then the first one."""
        names = [f"model.layers.{index}"]
        inside = index - self.edge
        if self.kind == "recursive" and 0 <= inside < self.recursions * self.block:
            names.append(f"model.layers.{self.edge + inside % self.block}")
        return names

    def block_layer(self, recursion: int, layer: int) -> list[str]:
        if self.kind == "token":
            return [f"model.layers.{self.edge}.block_list.{r}.{layer}" for r in (recursion, 0)]
        return [f"model.layers.{self.edge + r}.block.{layer}" for r in (recursion, 0)]

    # -- a Llama decoder layer -------------------------------------------------------------------

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]).sqrt() * weight

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotary embedding of one head x [n, D]: dimension i turns with i + D/2."""
        half = x.shape[-1] // 2
        turns = self.config["rope_theta"] ** (-torch.arange(half, dtype=self.dtype) / half)
        angle = positions.to(self.dtype)[:, None] * turns
        left, right = x[:, :half], x[:, half:]
        return torch.cat([left * angle.cos() - right * angle.sin(), right * angle.cos() + left * angle.sin()], -1)

    def attention(self, x: Tensor, positions: Tensor, names: list[str]) -> Tensor:
        heads, pairs = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        size = self.config.get("head_dim") or self.config["hidden_size"] // heads
        bias = self.config.get("attention_bias", False)
        q, k, v = (self.linear(x, [f"{n}.self_attn.{p}_proj" for n in names], bias) for p in "qkv")
        unseen = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        mixed = []
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            pair = head // (heads // pairs)
            shared = slice(pair * size, (pair + 1) * size)
            score = self.rotate(q[:, own], positions) @ self.rotate(k[:, shared], positions).T / math.sqrt(size)
            mixed.append(score.masked_fill(unseen, -math.inf).softmax(-1) @ v[:, shared])
        return self.linear(torch.cat(mixed, -1), [f"{n}.self_attn.o_proj" for n in names], bias)

    def mlp(self, x: Tensor, names: list[str]) -> Tensor:
        bias = self.config.get("mlp_bias", False)
        gate = self.linear(x, [f"{n}.mlp.gate_proj" for n in names], bias)
        up = self.linear(x, [f"{n}.mlp.up_proj" for n in names], bias)
        return self.linear(gate * gate.sigmoid() * up, [f"{n}.mlp.down_proj" for n in names], bias)

    def layer(self, x: Tensor, positions: Tensor, names: list[str]) -> Tensor:
        before = self.tensor(*[f"{n}.input_layernorm.weight" for n in names])
        x = x + self.attention(self.norm(x, before), positions, names)
        after = self.tensor(*[f"{n}.post_attention_layernorm.weight" for n in names])
        return x + self.mlp(self.norm(x, after), names)

    def shared_block(self, x: Tensor, positions: Tensor, recursion: int) -> Tensor:
        for layer in range(self.block):
            x = self.layer(x, positions, self.block_layer(recursion, layer))
        return x

    # -- the router ------------------------------------------------------------------------------

    def score(self, x: Tensor, layer: int) -> Tensor:
        name = f"model.layers.{layer}.mor_router.router"
        x = x / self.temp
        if self.mor.get("router_type", "linear") == "linear":
            return x @ self.state[f"{name}.weight"].T
        x = x @ self.state[f"{name}.0.weight"].T
        x = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        return x @ self.state[f"{name}.2.weight"].T

    def squash(self, score: Tensor) -> Tensor:
        """The router function without alpha."""
        if self.function == "softmax":
            return score.softmax(-1)
        return {"sigmoid": torch.sigmoid, "tanh": torch.tanh, None: lambda s: s}[self.function](score)

    def scaled(self, probability: Tensor) -> Tensor:
        return probability if self.function is None else self.alpha * probability

    def gate(self, p: Tensor, is_open: bool) -> Tensor:
        if not self.weighted:
            return torch.ones_like(p)
        return torch.full_like(p, self.alpha) if is_open else p

    # -- the kinds -------------------------------------------------------------------------------

    def keeps(self, recursion: int, length: int, policy: str) -> int:
        """How many tokens expert-choice keeps at this recursion."""
        if policy.startswith("depth_"):
            return length if recursion < int(policy.removeprefix("depth_")) else 1
        if self.mor.get("capacity") is None:
            capacity = (self.recursions - recursion) / self.recursions
        else:
            capacity = float(str(self.mor["capacity"]).split(",")[recursion])
        return max(1, int(capacity * length))

    def expert(self, x: Tensor, policy: str, is_open: bool, assigned):
        length = len(x)
        candidates = list(range(length))
        depth = torch.zeros(length, dtype=torch.long)
        probability = torch.full((self.recursions, length), math.nan, dtype=self.dtype)
        margin = probability.clone()
        gaps = [math.inf]
        for r in range(self.recursions):
            if not candidates:
                break
            probability[r, candidates] = self.squash(self.score(x[candidates], self.edge + r))[:, 0]
            p = self.scaled(probability[r])
            if policy == "assigned":
                kept = [t for t in candidates if assigned[t] > r]
            else:
                sign = -1.0 if policy == "inverted" else 1.0
                ranked = sorted(candidates, key=lambda t: (-sign * float(p[t]), t))
                kept = sorted(ranked[: self.keeps(r, length, policy)])
            dropped = [t for t in candidates if t not in kept]
            if kept and dropped:
                best, worst = probability[r, dropped].max(), probability[r, kept].min()
                margin[r, kept] = probability[r, kept] - best
                margin[r, dropped] = probability[r, dropped] - worst
                if policy != "assigned":
                    gaps.append(float(probability[r, dropped].min() - probability[r, kept].max() if policy == "inverted" else worst - best))
            if kept:
                h = self.shared_block(x[kept], torch.tensor(kept), r)
                x = x.clone()
                x[kept] = x[kept] + h * self.gate(p[kept], is_open)[:, None]
            for t in kept:
                depth[t] += 1
            candidates = kept
        return x, depth, probability, margin, min(gaps)

    def token(self, x: Tensor, policy: str, is_open: bool, assigned):
        length = len(x)
        probability = self.squash(self.score(x, self.edge))  # [T, R]
        p = self.scaled(probability)
        choice = p + self.state[f"model.layers.{self.edge}.router_bias"] if self.loss_free else p
        ranked = choice.sort(-1, descending=True).values
        margin = torch.full((self.recursions, length), math.nan, dtype=self.dtype)
        gap = math.inf
        if self.recursions > 1:
            margin[0] = ranked[:, 0] - ranked[:, 1]
            gap = float(margin[0].min()) if policy == "router" else math.inf
        if policy == "router":
            depth = [1 + max(range(self.recursions), key=lambda r: (float(choice[t, r]), -r)) for t in range(length)]
        elif policy == "assigned":
            depth = [int(d) for d in assigned]
        else:
            depth = [int(policy.removeprefix("depth_"))] * length
        y, h = x.clone(), x.clone()
        for r in range(self.recursions):
            running = [t for t in range(length) if depth[t] > r]
            if running:
                h[running] = self.shared_block(h[running], torch.tensor(running), r)
            for t in running:
                if depth[t] == r + 1:
                    y[t] = y[t] + h[t] * self.gate(p[t, r], is_open)
        return y, torch.tensor(depth), probability.T, margin, gap

    def run(self, ids, policy: str = "router", assigned=None) -> Outcome:
        """One sequence under one policy: `router`, `inverted`, `depth_<d>` or `assigned`, with `_open` or not.

        `router_depths_open` replays the depths of `router`; a drawn policy is `assigned` its draw.
        """
        if policy == "router_depths_open":
            return self.run(ids, "assigned_open", self.run(ids).depth)
        policy, is_open = policy.removesuffix("_open"), policy.endswith("_open")
        if is_open and (not self.weighted or self.function is None):
            raise ValueError("there is no gate to open")
        ids = torch.as_tensor(ids).long()
        everyone = torch.arange(len(ids))
        x = self.state["model.embed_tokens.weight"][ids]
        depth, gap = None, math.inf
        probability = margin = torch.full((self.recursions, len(ids)), math.nan, dtype=self.dtype)
        if self.kind in ("vanilla", "recursive"):
            for index in range(self.layers):
                x = self.layer(x, everyone, self.plain_layer(index))
            depth = torch.full_like(ids, self.recursions) if self.recursions else None
        else:
            if self.edge:
                x = self.layer(x, everyone, ["model.layers.0"])
            route = self.expert if self.kind == "expert" else self.token
            x, depth, probability, margin, gap = route(x, policy, is_open, assigned)
            if self.edge:
                last = self.recursions + 1 if self.kind == "expert" else 2
                x = self.layer(x, everyone, [f"model.layers.{last}"])
        x = self.norm(x, self.state["model.norm.weight"])
        logits = x @ self.tensor("lm_head.weight", "model.embed_tokens.weight").T
        logarithm = logits[:-1].log_softmax(-1)
        loss = -logarithm[torch.arange(len(ids) - 1), ids[1:]]
        entropy = -(logarithm.exp() * logarithm).sum(-1)
        return Outcome(depth, logits, loss, entropy, probability, margin, gap)
