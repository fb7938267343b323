"""The authors' own outputs on five tiny checkpoints, and transformers' on the plain ones."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from precompute import model as models
from precompute.head import loss_and_entropy
from precompute.passes import Trace, run
from precompute.policies import available

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
ROUTED = [name for name in NAMES if name != "vanilla"]
NATS = 2e-5


def arrays(name):
    with np.load(GOLDEN / name / "golden.npz") as file:
        return {key: file[key] for key in file}


def policies(model, stored):
    """Every policy the kind has; drawn ones replay the assignment that the fixture drew."""
    drawn = {"random": "random_drawn", "shuffled": "shuffled_drawn"}
    assignments = {new: stored[f"{old}.depth"] for old, new in drawn.items() if f"{old}.depth" in stored}
    return available(model.settings, assignments)


def outcomes(model, stored, batch):
    """policy -> (depth, loss, entropy, logits of sequence 0) over all sequences, `batch` at a time."""
    found = {}
    for start in range(0, len(stored["input_ids"]), batch):
        ids = torch.from_numpy(stored["input_ids"][start : start + batch]).long()
        sequences = range(start, start + len(ids))
        with torch.inference_mode():
            for leaf in run(model, ids, policies(model, stored), sequences, seed=0, trace=Trace()):
                loss, entropy = loss_and_entropy(leaf.hidden[:, :-1].flatten(0, 1), model.lm_head.weight, ids[:, 1:].flatten())
                rows = (leaf.depth, loss.view(len(ids), -1), entropy.view(len(ids), -1), model.lm_head(leaf.hidden).float())
                for policy in leaf.policies:
                    found.setdefault(policy, []).append([row.numpy() for row in rows])
    return {policy: [np.concatenate(column) for column in zip(*batches)] for policy, batches in found.items()}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_every_golden_array_holds(name, batch):
    model, _ = models.load(GOLDEN / name)
    stored = arrays(name)
    found = outcomes(model, stored, batch)
    for policy in json.loads((GOLDEN / name / "golden.json").read_text())["policies"]:
        own = policy.replace("random", "random_drawn").replace("shuffled", "shuffled_drawn").replace("vanilla", "router")
        depth, loss, entropy, logits = found[own]
        if name != "vanilla":
            np.testing.assert_array_equal(depth, stored[f"{policy}.depth"], err_msg=policy)
        assert np.abs(loss - stored[f"{policy}.loss"]).max() < NATS, policy
        assert np.abs(entropy - stored[f"{policy}.entropy"]).max() < NATS, policy
        assert np.abs(logits[0, ::4] - stored[f"{policy}.logits_seq0"]).max() < NATS, policy
