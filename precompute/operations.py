"""How many floating-point operations a run takes: planned from its policies alone, and counted as it goes.

Only matrix products count, a multiplication and an addition each; attention counts the pairs that
causality leaves. What else a layer does is a few thousandths of that.

Shapes: N sequences, T tokens, K tokens a layer runs over.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from db.check import depth_counts
from precompute.model import Model
from precompute.settings import Settings


@dataclass
class Operations:
    """Operations of the layers (`body`) and of the products with the vocabulary (`head`)."""

    body: int = 0
    head: int = 0

    @property
    def all(self) -> int:
        return self.body + self.head


def layer(config: LlamaConfig, tokens: int) -> int:
    """Operations of one layer over K = `tokens` tokens of one sequence."""
    hidden, size = config.hidden_size, config.head_dim
    queries, pairs = config.num_attention_heads * size, config.num_key_value_heads * size
    weights = hidden * (2 * queries + 2 * pairs + 3 * config.intermediate_size)
    return 2 * tokens * weights + 2 * queries * tokens * (tokens + 1)


def head(config: LlamaConfig, tokens: int) -> int:
    """Operations of the head over a sequence of `tokens`, the last of which predicts nothing."""
    return 2 * (tokens - 1) * config.hidden_size * config.vocab_size


def alone(model: Model, policies: Sequence[str], length: int) -> Operations:
    """Operations a sequence takes when an expert-choice model runs every policy from the embedding to the head."""
    ends = 2 * model.settings.first_layers
    return Operations(
        body=sum(
            ends * layer(model.config, length) + model.layers_per_recursion * sum(layer(model.config, kept) for kept in _kept(model.settings, policy, length))
            for policy in policies
        ),
        head=len(policies) * head(model.config, length),
    )


def shared(model: Model, policies: Sequence[str], length: int) -> Operations:
    """Operations a sequence takes when the policies of an expert-choice model share what is the same.

    Two policies share a recursion where they share what went before it and keep the same tokens: by
    rule, as two selections that differ by rule are the same by accident only.
    """
    settings, found = model.settings, Operations()
    found.body = settings.first_layers * layer(model.config, length)
    for kept in _walk(settings, list(policies), 0, length, length):
        if kept is not None:
            found.body += model.layers_per_recursion * layer(model.config, kept)
        else:
            found.body += settings.first_layers * layer(model.config, length)
            found.head += head(model.config, length)
    return found


@contextmanager
def counted(model: Model) -> Iterator[Operations]:
    """Counts what the layers of a model do meanwhile; `head` is for the caller to add to."""
    found = Operations()

    def count(module: LlamaDecoderLayer, inputs: tuple, output: object) -> None:
        sequences, tokens, _ = inputs[0].shape
        found.body += sequences * layer(model.config, tokens)

    hooks = [module.register_forward_hook(count) for module in model.modules() if isinstance(module, LlamaDecoderLayer)]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _kept(settings: Settings, policy: str, length: int) -> list[int]:
    """How many tokens each recursion keeps under a policy."""
    counts = depth_counts(policy, settings.recursions, list(settings.capacities), length)
    return [sum(counts[r + 1 :]) for r in range(settings.recursions)]


def _groups(settings: Settings, policies: list[str], r: int, candidates: int, length: int) -> dict[tuple[str, int], list[str]]:
    """Policies with one history by what they keep at recursion r: a rule and a number of tokens."""
    groups: dict[tuple[str, int], list[str]] = {}
    for policy in policies:
        kept = _kept(settings, policy, length)[r]
        rule = policy.removesuffix("_open")
        if kept >= candidates:
            rule, kept = "all", candidates
        elif rule.startswith("depth_"):
            rule = "stray"
        elif rule == "router_depths" and "router" in policies:
            rule = "router"
        groups.setdefault((rule, kept), []).append(policy)
    return groups


def _walk(settings: Settings, policies: list[str], r: int, candidates: int, length: int) -> Iterator[int | None]:
    """From recursion r on, the tokens of every block that is run, and None for every result."""
    if r == settings.recursions:
        yield None
        return
    for (_, kept), members in _groups(settings, policies, r, candidates, length).items():
        yield kept
        for part in _by_gate(members):
            yield from _walk(settings, part, r + 1, kept, length)


def _by_gate(policies: list[str]) -> list[list[str]]:
    parts = [[policy for policy in policies if policy.endswith("_open") == is_open] for is_open in (False, True)]
    return [part for part in parts if part]
