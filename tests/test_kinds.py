"""Every kind of checkpoint and setting against plain_mor.py, which shares no line with precompute."""

import json

import numpy as np
import pytest
import torch
import yaml
from tests.checkpoints import ATTENTION, NORMS, make
from tests.plain_mor import Plain
from safetensors.torch import load_file
from tests.test_golden import GOLDEN, NATS, arrays
from transformers import LlamaConfig, LlamaForCausalLM

from precompute import model as models
from precompute import weights
from precompute.observe import observe
from precompute.policies import available, chosen

PLAIN_KINDS = {
    "vanilla": dict(kind="vanilla"),
    "vanilla untied": dict(kind="vanilla", config={"tie_word_embeddings": False}),
    "vanilla biases": dict(kind="vanilla", config={"attention_bias": True, "mlp_bias": True}),
    "vanilla head_dim": dict(kind="vanilla", config={"head_dim": 10, "num_attention_heads": 3, "num_key_value_heads": 1}),
    "vanilla rope and eps": dict(kind="vanilla", config={"rope_theta": 500.0, "rms_norm_eps": 0.1}),
    "vanilla bfloat16 .bin": dict(kind="vanilla", dtype=torch.bfloat16, file="pytorch_model.bin", head=False),
    "recursive 1": dict(kind="recursive", recursions=1, block=2),
    "recursive 2": dict(kind="recursive", recursions=2, block=2, storage="first", head=False),
    "recursive 3 spare layers": dict(kind="recursive", recursions=3, block=2, spare_layers=2),
    "recursive 4 cycle": dict(kind="recursive", recursions=4, sharing="cycle", spare_layers=3, storage="first"),
    "recursive 3 unshared": dict(kind="recursive", recursions=3, block=2, unshared=(*ATTENTION, *NORMS)),
}
EXPERT_KINDS = {
    "1": dict(recursions=1, block=2),
    "2": dict(recursions=2, block=2, storage="first", head=False),
    "3": dict(recursions=3, block=2, file="pytorch_model.bin"),
    "4": dict(recursions=4, spare_layers=3, storage="first", file="pytorch_model.bin", head=False),
    "5": dict(recursions=5, spare_layers=1),
    "cycle 3": dict(sharing="cycle", block=2),
    "cycle 2, layers to spare": dict(recursions=2, sharing="cycle", block=2, spare_layers=1, storage="first"),
    "mlp": dict(mor={"router_type": "mlp"}),
    "wide_mlp tanh": dict(mor={"router_type": "wide_mlp"}, options={"router_func": "tanh"}),
    "tanh": dict(options={"router_func": "tanh", "alpha": 0.3}),
    "no function": dict(options={"router_func": None, "alpha": 0.1}),
    "no function, mlp, cycle": dict(options={"router_func": None}, mor={"router_type": "mlp"}, sharing="cycle"),
    "temp 0.7": dict(mor={"temp": 0.7}),
    "temp 3, alpha 0.05": dict(mor={"temp": 3}, options={"alpha": 0.05}),
    "alpha 2": dict(options={"alpha": 2.0}),
    "alpha as text": dict(options={"alpha": "1e-1"}),
    "defaults": dict(options={"router_func": ..., "alpha": ..., "gating": ..., "sampling": ...}),
    "gating null": dict(options={"gating": None}),
    "gating none": dict(options={"gating": "none"}),
    "capacities equal": dict(mor={"capacity": "0.5,0.5,0.5"}),
    "capacities below one": dict(mor={"capacity": "0.8, 0.31, 0.05"}),
    "capacities to nothing": dict(mor={"capacity": "1,0.5,0"}),
    "capacity 1, one recursion": dict(recursions=1, mor={"capacity": 0.4}),
    "unshared attention": dict(block=2, unshared=ATTENTION),
    "norms of their own": dict(block=2, unshared=NORMS, file="pytorch_model.bin"),
    "unshared attention, untied": dict(unshared=ATTENTION, config={"tie_word_embeddings": False}),
    "biases": dict(config={"attention_bias": True, "mlp_bias": True}, storage="first"),
    "head_dim": dict(config={"head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 1}),
    "float16": dict(dtype=torch.float16),
    "bfloat16": dict(dtype=torch.bfloat16, storage="first"),
}
TOKEN_KINDS = {
    "1": dict(recursions=1, block=2),
    "2": dict(recursions=2, block=2, storage="first", head=False),
    "3": dict(recursions=3, block=2, file="pytorch_model.bin"),
    "4": dict(recursions=4, storage="first", file="pytorch_model.bin", head=False),
    "5": dict(recursions=5, spare_layers=2),
    "cycle": dict(sharing="cycle", block=2),
    "sigmoid": dict(options={"router_func": "sigmoid", "alpha": 0.3}),
    "sigmoid by default 0.1": dict(options={"router_func": "sigmoid", "alpha": ...}),
    "softmax by default 1": dict(options={"router_func": ..., "alpha": ..., "balancing": ..., "gating": ...}),
    "loss-free": dict(options={"balancing": "loss_free"}),
    "loss-free sigmoid alpha 2": dict(options={"balancing": "loss_free", "router_func": "sigmoid", "alpha": 2.0}),
    "loss-free cycle mlp": dict(options={"balancing": "loss_free"}, sharing="cycle", mor={"router_type": "mlp"}),
    "alpha 0.05": dict(options={"alpha": 0.05}),
    "temp 0.7": dict(mor={"temp": 0.7}),
    "wide_mlp": dict(mor={"router_type": "wide_mlp"}),
    "gating off": dict(options={"gating": "none"}),
    "unshared attention": dict(block=2, unshared=ATTENTION),
    "norms of their own, untied": dict(unshared=NORMS, config={"tie_word_embeddings": False}),
    "bfloat16": dict(dtype=torch.bfloat16),
}


def draw(count, length, seed=1):
    """Token ids, no token twice in a sequence: repeated ones at its start would tie exactly."""
    random = np.random.default_rng(seed)
    return np.stack([random.permutation(67)[:length] for _ in range(count)]).astype(np.int32)


def draw_depths(count, length, recursions):
    return np.random.default_rng(7).integers(1, recursions + 1, (count, length), dtype=np.int32)


def observed(model, ids, policies, batch, seed=5):
    """The columns of all sequences, `batch` of them at a time."""
    starts = range(0, len(ids), batch)
    parts = [observe(model, ids[s : s + batch], policies, range(s, min(s + batch, len(ids))), seed) for s in starts]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def hold(made, ids, batch, depths=None, names=None):
    """The policies `names` (None: all) of a checkpoint against the plain pass; returns the largest difference in nats."""
    model, _ = models.load(made.folder)
    plain = Plain(made.state, made.pretrain, made.config)
    if depths is None and plain.recursions:
        depths = draw_depths(*ids.shape, plain.recursions)
    policies = chosen(available(model.settings, {"given": depths} if model.settings.routed else {}), names)
    columns = observed(model, ids, policies, batch)
    worst = 0.0
    for policy in [policy.name for policy in policies]:
        drawn = policy.removesuffix("_open") in ("random", "shuffled", "given")
        depth = columns.get("depth" if policy == "router" else f"depth_{policy}")
        for row, sequence in enumerate(ids):
            as_plain = "assigned" + "_open" * policy.endswith("_open") if drawn else policy
            given = depths if policy.startswith("given") else depth
            due = plain.run(sequence, as_plain, given[row] if drawn else None)
            assert due.gap > 2e-6, "a cut this fine says nothing: take another seed"
            if due.depth is None:
                assert depth is None
            else:
                np.testing.assert_array_equal(depth[row], due.depth.numpy(), err_msg=f"{policy}, sequence {row}")
            worst = max(worst, apart(columns[f"loss_{policy}"][row], due.loss, f"loss {policy}"))
            if policy == "router":
                worst = max(worst, apart(columns["entropy"][row], due.entropy, "entropy"))
                hold_router(columns, row, due, model.settings.routed)
    return worst


def apart(found, due, what):
    assert np.isnan(found[-1]) and len(found) == len(due) + 1
    difference = np.abs(found[:-1] - due.numpy()).max()
    assert difference < NATS, what
    return difference


def hold_router(columns, row, due, routed):
    """Probabilities and margins, NaN exactly where the plain pass has none."""
    for r in range(len(due.probability) if routed else 0):
        for name, values in (("probability", due.probability), ("margin", due.margin)):
            column = columns.get(f"{name}_{r + 1}", np.full(columns["depth"].shape, np.nan))
            np.testing.assert_allclose(column[row], values[r].numpy(), rtol=1e-5, atol=1e-5, err_msg=f"{name}_{r + 1}")


def test_the_plain_pass_gives_the_authors_arrays():
    for name in ("expert_rec3", "token_rec3", "vanilla"):
        folder, stored = GOLDEN / name, arrays(name)
        pretrain = yaml.safe_load((folder / "pretrain.yaml").read_text())
        state = weights.load(weights.weight_file(folder))
        plain = Plain(state, pretrain, json.loads((folder / "config.json").read_text()))
        for policy in json.loads((folder / "golden.json").read_text())["policies"]:
            drawn = policy.startswith(("random", "shuffled"))
            own = "assigned" + "_open" * policy.endswith("_open") if drawn else policy
            depth = stored.get(f"{policy}.depth")
            found = plain.run(stored["input_ids"][1], own, depth[1] if drawn else None)
            assert depth is None or (found.depth.numpy() == depth[1]).all(), policy
            assert np.abs(found.loss.numpy() - stored[f"{policy}.loss"][1]).max() < NATS, policy
            assert np.abs(found.entropy.numpy() - stored[f"{policy}.entropy"][1]).max() < NATS, policy


@pytest.mark.parametrize("name", PLAIN_KINDS)
def test_plain_kinds_match_the_plain_pass(tmp_path, name):
    hold(make(tmp_path, **PLAIN_KINDS[name]), draw(3, 37), 2)


@pytest.mark.parametrize("name", EXPERT_KINDS)
def test_expert_choice_matches_the_plain_pass(tmp_path, name):
    hold(make(tmp_path, kind="expert", **EXPERT_KINDS[name]), draw(2, 37), 2)


@pytest.mark.parametrize("name", TOKEN_KINDS)
def test_token_choice_matches_the_plain_pass(tmp_path, name):
    hold(make(tmp_path, kind="token", **TOKEN_KINDS[name]), draw(2, 37), 2)


SHORT = {
    "expert, 5 recursions": dict(kind="expert", recursions=5),
    "expert, cycle tanh": dict(kind="expert", sharing="cycle", options={"router_func": "tanh"}),
    "expert, small capacities": dict(kind="expert", mor={"capacity": "0.6,0.4,0.1"}),
    "token, 4 recursions": dict(kind="token", recursions=4),
    "token, loss-free cycle": dict(kind="token", sharing="cycle", options={"balancing": "loss_free"}),
}


@pytest.mark.parametrize("name", SHORT)
def test_short_and_odd_lengths_in_any_batch(tmp_path, name):
    made = make(tmp_path, **SHORT[name])
    for length, batch in ((2, 3), (3, 2), (5, 1), (5, 3), (11, 2), (64, 3)):
        hold(made, draw(3, length, seed=length), batch)


@pytest.mark.parametrize("kind", ["expert", "token"])
def test_assigned_depths_may_leave_sequences_of_a_batch_without_tokens(tmp_path, kind):
    made = make(tmp_path, kind=kind, block=2)
    ids, lone = draw(3, 13), np.ones((3, 13), dtype=np.uint8)
    lone[1, 6] = 3
    mixed = np.stack([np.full(13, 1), np.full(13, 3), draw_depths(1, 13, 3)[0]])
    for depths in (np.ones_like(lone), np.full_like(lone, 2), lone, mixed):
        for batch in (1, 2, 3):
            hold(made, ids, batch, depths, ["given", "given_open"])


def unrolled(made, layers):
    """transformers' own model with the weights of each unrolled layer written out."""
    plain = Plain(made.state, made.pretrain, made.config, torch.float32)
    state = {name: tensor for name, tensor in plain.state.items() if ".layers." not in name}
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    for index in range(layers):
        for stored in reversed(plain.plain_layer(index)):
            prefix = f"{stored}."
            own = {name.removeprefix(prefix): tensor for name, tensor in plain.state.items() if name.startswith(prefix)}
            state |= {f"model.layers.{index}.{part}": tensor for part, tensor in own.items()}
    config = LlamaConfig.from_dict({**made.config, "num_hidden_layers": layers})
    theirs = LlamaForCausalLM(config).eval()
    theirs.load_state_dict(state, strict=True)
    return theirs


@pytest.mark.parametrize("name", PLAIN_KINDS)
def test_plain_kinds_match_transformers(tmp_path, name):
    made, ids = make(tmp_path, **PLAIN_KINDS[name]), draw(3, 37)
    layers = Plain(made.state, made.pretrain, made.config).layers
    model, _ = models.load(made.folder)
    columns = observed(model, ids, available(model.settings), 3)
    with torch.inference_mode():
        tokens = torch.from_numpy(ids).long()
        logarithm = unrolled(made, layers)(tokens).logits[:, :-1].log_softmax(-1)
    loss = -logarithm.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    entropy = -(logarithm.exp() * logarithm).sum(-1)
    assert np.abs(columns["loss_router"][:, :-1] - loss.numpy()).max() < NATS
    assert np.abs(columns["entropy"][:, :-1] - entropy.numpy()).max() < NATS


# Largest and mean difference in nats of any policy in bfloat16 on the CPU, at the golden depths.
BFLOAT16 = {"vanilla": (0.12, 0.03), "expert_rec2": (0.12, 0.02), "expert_rec3": (0.1, 0.02), "expert_rec4": (0.16, 0.02), "token_rec3": (0.4, 0.02)}


@pytest.mark.parametrize("name", BFLOAT16)
def test_bfloat16_stays_within_these_bounds(name):
    model, _ = models.load(GOLDEN / name, dtype=torch.bfloat16)
    stored = arrays(name)
    golden = [key.removesuffix(".loss") for key in stored if key.endswith(".loss")]
    replays = {f"as_{policy}": stored[f"{policy}.depth"] for policy in golden if name != "vanilla"}
    columns = observed(model, stored["input_ids"], available(model.settings, replays), 3)
    largest, mean = BFLOAT16[name]
    for policy in golden:
        replay = "router" if name == "vanilla" else f"as_{policy}" + "_open" * policy.endswith("_open")
        difference = np.abs(columns[f"loss_{replay}"][:, :-1] - stored[f"{policy}.loss"])
        assert difference.max() < largest and difference.mean() < mean, policy
    own = [policy for policy in golden if policy in ("router", "router_open", "inverted", "inverted_open")]
    for policy in own:
        depth = columns["depth" if policy == "router" else f"depth_{policy}"]
        assert (depth != stored[f"{policy}.depth"]).mean() < 0.08, policy
        assert abs(columns[f"loss_{policy}"][:, :-1].mean() - stored[f"{policy}.loss"].mean()) < 0.01, policy
    entropy = stored["vanilla.entropy" if name == "vanilla" else "router.entropy"]
    assert np.abs(columns["entropy"][:, :-1] - entropy).max() < 0.03
