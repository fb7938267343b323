"""What training minimises: the language model's loss and what is asked of the router besides.

Shapes: N sequences, T tokens, R recursions, P predictions, V vocabulary, H hidden.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from precompute import passes
from precompute.model import Model
from precompute.passes import Trace
from precompute.policies import Policy

SELECTED = 0.001  # expert-choice: weight of the cross-entropy between router and selection
BALANCE = 0.1  # token-choice: weight of the balancing loss
LOGSUMEXP = 1e-5  # token-choice: weight of the squared logsumexp of the router's logits
HEAD_ROWS = 256  # predictions at a time: their logits stay in the processor's cache


def training_loss(model: Model, ids: Tensor, router: Policy) -> Tensor:
    """Mean loss over the predictions of ids [N, T] under the model's own router, plus its router's losses."""
    trace = Trace()
    leaf = next(passes.run(model, ids, [router], range(len(ids)), 0, trace))
    hidden, targets = leaf.hidden[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
    return CrossEntropy.apply(hidden, model.lm_head.weight, targets) + routing_loss(model.settings.kind, trace)


def routing_loss(kind: str, trace: Trace) -> Tensor | float:
    """The router's losses: expert-choice `selection_loss`, token-choice `balance_loss` and z-loss, else 0."""
    if kind == "expert":
        return SELECTED * selection_loss(trace)
    if kind == "token":
        logits, probability = trace.logits[0], trace.probability[0]
        return BALANCE * balance_loss(probability) + LOGSUMEXP * logits.logsumexp(dim=-1).square().mean()
    return 0.0


def selection_loss(trace: Trace) -> Tensor:
    """Sum over recursions of the binary cross-entropy of router logits and "was kept", mean over candidates."""
    return sum(
        F.binary_cross_entropy_with_logits(logits[candidates], kept[candidates].float())
        for logits, candidates, kept in zip(trace.logits, trace.candidates, trace.kept)
    )


def balance_loss(probability: Tensor) -> Tensor:
    """R times the sum over depths of mean probability times share of tokens; 1 where both are even. [N, T, R] -> []"""
    columns = probability.shape[-1]
    share = F.one_hot(probability.argmax(dim=-1), columns).float().mean(dim=(0, 1))  # [R]
    return columns * (probability.mean(dim=(0, 1)) * share).sum()


class CrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of hidden [P, H] @ weight[V, H].T and targets [P], gradients made on the way.

    A third faster on a processor than keeping the P x V logits for a backward pass.
    """

    @staticmethod
    def forward(context, hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        total, d_hidden, d_weight = hidden.new_zeros(()), torch.empty_like(hidden), torch.zeros_like(weight)
        for start in range(0, len(hidden), HEAD_ROWS):
            rows = slice(start, start + HEAD_ROWS)
            slope = (hidden[rows] @ weight.T).softmax(dim=-1)
            column = targets[rows].unsqueeze(1)
            found = slope.gather(1, column)
            total -= found.log().sum()
            slope.scatter_(1, column, found - 1).div_(len(hidden))
            torch.mm(slope, weight, out=d_hidden[rows])
            d_weight.addmm_(slope.T, hidden[rows])
        context.save_for_backward(d_hidden, d_weight)
        return total / len(hidden)

    @staticmethod
    def backward(context, slope: Tensor) -> tuple[Tensor, Tensor, None]:
        d_hidden, d_weight = context.saved_tensors
        return d_hidden * slope, d_weight * slope, None
