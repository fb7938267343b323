"""What a checkpoint folder may hold, and the sentence for what it may not."""

import json
from pathlib import Path

import pytest
import torch
import yaml

from db.errors import UserError
from precompute import model as models
from precompute import settings, weights
from tests.checkpoints import ATTENTION, NORMS, Made, altered, make, save

EXPERT = "250720_pretrain_smollm-360m_rec{}_middle_cycle_random_lr3e-3_mor_expert_linear_alpha_0.1_sigmoid_aux_loss_0.001"
TOKEN = "250720_pretrain_smollm-360m_rec3_middle_cycle_random_lr3e-3_mor_token_softmax_bal_loss_coeff_0.1_linear_zloss_1e-5"
VANILLA = "250720_pretrain_smollm-360m_vanilla_lr3e-3"
RECURSIVE = "250720_pretrain_smollm-360m_rec{}_middle_cycle_random_lr3e-3"
QUERY, SECOND = "model.layers.1.block.0.self_attn.q_proj.weight", "model.layers.2.block.0.self_attn.q_proj.weight"


def refused(folder, config=None):
    """The one sentence that refuses this folder."""
    with pytest.raises(UserError) as caught:
        models.load(folder, config)
    return str(caught.value)


REFUSED_SETTINGS = {
    "kv_sharing is not implemented": {"kv_sharing": {"enable": True}},
    "relaxation is not implemented": {"relaxation": {"enable": True}},
    "mor.rand_router is not implemented": {"mor": {"rand_router": True}},
    "recursive.sharing 'sequence' is not implemented": {"recursive": {"sharing": "sequence"}},
    "recursive.num_recursion is 0": {"recursive": {"num_recursion": 0}},
    "recursive.num_recursion is 'three'": {"recursive": {"num_recursion": "three"}},
    "mor.type 'both' is not implemented": {"mor": {"type": "both"}},
    "mor.router_type 'conv' is not implemented": {"mor": {"router_type": "conv"}},
    "mor.expert.router_func 'softmax' is not implemented": {"mor": {"expert": {"router_func": "softmax"}}},
    "mor.expert.sampling 'guess' is not implemented": {"mor": {"expert": {"sampling": "guess"}}},
    "mor.expert.alpha is 0": {"mor": {"expert": {"alpha": 0}}},
    "mor.temp is 'warm'": {"mor": {"temp": "warm"}},
    "mor.capacity is '1,0.5'; it should be 3 shares": {"mor": {"capacity": "1,0.5"}},
    "mor.capacity is '0.5,0.6,0.1'": {"mor": {"capacity": "0.5,0.6,0.1"}},
    "mor.capacity is '2,1,0.5'": {"mor": {"capacity": "2,1,0.5"}},
    "mor.capacity is '1,half,0'": {"mor": {"capacity": "1,half,0"}},
    "mor.enable needs recursive.enable": {"recursive": {"enable": False}},
    "mor should be a mapping, not 'yes'": {"mor": "yes"},
}


@pytest.mark.parametrize("sentence", REFUSED_SETTINGS)
def test_a_setting_that_changes_the_pass_and_is_not_implemented_is_refused_by_name(tmp_path, sentence):
    made = make(tmp_path / "made")
    altered(made, tmp_path / "altered", pretrain=REFUSED_SETTINGS[sentence])
    assert sentence in refused(tmp_path / "altered")


def test_token_choice_settings_are_refused_by_name(tmp_path):
    made = make(tmp_path / "made", kind="token")
    for sentence, options in {
        "mor.token.router_func 'tanh' is not implemented; softmax and sigmoid are": {"router_func": "tanh"},
        "mor.token.balancing 'luck' is not implemented; loss and loss_free are": {"balancing": "luck"},
        "mor.token.alpha is -1": {"alpha": -1},
    }.items():
        altered(made, tmp_path / "altered", pretrain={"mor": {"token": options}})
        assert sentence in refused(tmp_path / "altered")


def test_a_missing_tensor_is_named(tmp_path):
    made = make(tmp_path / "made")
    for name in ("model.norm.weight", "model.layers.4.mlp.up_proj.weight", "model.layers.2.mor_router.router.weight"):
        folder = altered(made, tmp_path / "altered", state={name: None}).folder
        assert refused(folder) == f"{folder / 'model.safetensors'}: tensor {name} is missing."
    copies = {f"model.layers.{r}.block.0.mlp.up_proj.weight": None for r in (1, 2, 3)}
    assert "tensor model.layers.1.block.0.mlp.up_proj.weight is missing." in refused(altered(made, tmp_path / "altered", state=copies).folder)
    both = {"model.embed_tokens.weight": None, "lm_head.weight": None}
    assert "tensor model.embed_tokens.weight is missing." in refused(altered(made, tmp_path / "altered", state=both).folder)


def test_an_untied_model_needs_its_head(tmp_path):
    made = make(tmp_path / "made", config={"tie_word_embeddings": False})
    assert "tensor lm_head.weight is missing." in refused(altered(made, tmp_path / "altered", state={"lm_head.weight": None}).folder)


def test_a_wrong_shape_is_named_with_both_shapes(tmp_path):
    made = make(tmp_path / "made")
    folder = altered(made, tmp_path / "altered", state={QUERY: torch.zeros(24, 23)}).folder
    assert refused(folder).endswith(f"tensor {QUERY} has shape (24, 23), expected (24, 24).")
    folder = altered(made, tmp_path / "altered", config={"vocab_size": 68}).folder
    assert "has shape (67, 24), expected (68, 24)." in refused(folder)


def test_an_unexpected_tensor_is_named(tmp_path):
    made = make(tmp_path / "made")
    extra = {"model.layers.1.mlp_router.router.weight": torch.zeros(1, 24)}
    folder = altered(made, tmp_path / "altered", state=extra).folder
    assert "unexpected tensor model.layers.1.mlp_router.router.weight of shape (1, 24)" in refused(folder)
    folder = altered(made, tmp_path / "altered", pretrain={"recursive": {"num_recursion": 2}}).folder
    assert "the settings do not describe this file" in refused(folder)
    token = make(tmp_path / "token", kind="token", options={"balancing": "loss_free"})
    folder = altered(token, tmp_path / "altered", pretrain={"mor": {"token": {"balancing": "loss"}}}).folder
    assert "unexpected tensor model.layers.1.router_bias of shape (3,)" in refused(folder)


def test_an_auxiliary_router_is_ignored_at_inference(tmp_path):
    made = make(tmp_path / "made", options={"sampling": "aux_router"})
    extra = {f"model.layers.{r}.mlp_router.router.weight": torch.zeros(1, 24) for r in (1, 2, 3)}
    model, checkpoint = models.load(altered(made, tmp_path / "altered", state=extra).folder)
    assert checkpoint.settings.aux_router and not any("mlp_router" in name for name in model.state_dict())


def test_integer_weights_are_refused(tmp_path):
    made = make(tmp_path / "made")
    folder = altered(made, tmp_path / "altered", state={"model.norm.weight": torch.ones(24, dtype=torch.int32)}).folder
    assert "tensor model.norm.weight holds torch.int32, expected floating-point numbers." in refused(folder)


def test_copies_that_disagree_must_all_be_there(tmp_path):
    made = make(tmp_path / "made", unshared=ATTENTION)
    assert f"tensor {SECOND} is missing, and the other recursions' copies of it differ." in refused(
        altered(made, tmp_path / "altered", state={SECOND: None}).folder
    )


def test_a_tied_head_that_differs_is_refused(tmp_path):
    made = make(tmp_path / "made")
    folder = altered(made, tmp_path / "altered", state={"lm_head.weight": made.state["lm_head.weight"] + 1}).folder
    assert refused(folder).endswith("lm_head.weight differs from model.embed_tokens.weight, though the configuration ties them.")


@pytest.mark.parametrize("kind", ["expert", "token", "recursive"])
def test_whether_attention_is_shared_is_recorded(tmp_path, kind):
    for unshared, shared in ((ATTENTION, False), (("v_proj",), False), (NORMS, True), ((), True)):
        model, checkpoint = models.load(make(tmp_path, kind=kind, unshared=unshared).folder)
        assert checkpoint.attention_shared is shared and bool(checkpoint.unshared) is bool(unshared)
        for group in models.shared_copies(model):
            storages = {model.get_parameter(name).data_ptr() for name in group}
            assert len(storages) == (3 if any(part in group[0] for part in unshared) else 1)
    assert models.load(make(tmp_path, kind="vanilla").folder)[1].attention_shared is None


def test_every_way_of_storing_one_model_gives_one_model(tmp_path):
    expected = models.load(make(tmp_path / "0", block=2).folder)[0].state_dict()
    ways = [dict(storage=storage, head=head, file=file) for storage in ("every", "first") for head in (True, False) for file in ("model.safetensors", "pytorch_model.bin")]
    for index, way in enumerate(ways):
        model, checkpoint = models.load(make(tmp_path / str(index), block=2, **way).folder)
        assert model.state_dict().keys() == expected.keys()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())
        assert checkpoint.parameters == 67 * 24 + 4 * 4656 + 3 * 24 + 24


class Opened:
    """Would leave a trace if a loader executed it."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.mkdir, (self.trace,)


def test_a_pickle_that_is_more_than_tensors_is_neither_loaded_nor_executed(tmp_path):
    made, trace = make(tmp_path / "made"), tmp_path / "trace"
    (made.folder / "model.safetensors").unlink()
    torch.save({**made.state, "extra": Opened(trace)}, made.folder / "pytorch_model.bin")
    assert "is a pickle that holds more than tensors" in refused(made.folder)
    assert not trace.exists()
    torch.save({**made.state, "step": 3}, made.folder / "pytorch_model.bin")
    assert refused(made.folder).endswith("does not hold a flat state dict of tensors.")
    torch.save({"model": made.state}, made.folder / "pytorch_model.bin")
    assert refused(made.folder).endswith("does not hold a flat state dict of tensors.")


def test_a_damaged_weight_file_is_named(tmp_path):
    made = make(tmp_path / "made")
    path = made.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:2000])
    assert refused(made.folder).startswith(f"{path} cannot be read as weights: it is cut short or damaged (")
    path.unlink()
    path = made.folder / "pytorch_model.bin"
    path.write_bytes(b"")
    assert refused(made.folder) == f"{path} cannot be read as weights: it is cut short or damaged (EOFError)."
    path.write_bytes(b"nothing of the kind")
    assert str(path) in refused(made.folder)


def test_a_folder_without_weights_or_that_is_absent_is_named(tmp_path):
    made = make(tmp_path / "made")
    (made.folder / "model.safetensors").unlink()
    assert refused(made.folder) == f"{made.folder} holds neither model.safetensors nor pytorch_model.bin."
    assert refused(tmp_path / "absent").startswith(f"No checkpoint folder at {tmp_path / 'absent'}.")


def test_too_few_layers_for_the_recursions_are_refused(tmp_path):
    made = make(tmp_path / "made")
    folder = altered(made, tmp_path / "altered", config={"num_hidden_layers": 4}).folder
    assert refused(folder) == "4 layers leave none for 3 recursions of middle_cycle sharing."


def test_a_broken_configuration_is_named(tmp_path):
    made = make(tmp_path / "made")
    (made.folder / "pretrain.yaml").write_text("recursive: [")
    assert refused(made.folder).startswith(f"The experiment's YAML {made.folder / 'pretrain.yaml'} cannot be read: ")
    (made.folder / "pretrain.yaml").write_text("just words")
    assert refused(made.folder) == f"The experiment's YAML {made.folder / 'pretrain.yaml'} holds no settings."
    (made.folder / "config.json").write_text("{")
    assert refused(made.folder).startswith(f"{made.folder / 'config.json'} is not a readable JSON file: ")
    (made.folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    assert "says model_type 'gpt2'; only llama checkpoints can be read." in refused(made.folder)


RELEASED = {
    VANILLA: dict(kind="vanilla"),
    RECURSIVE.format(2): dict(kind="recursive", recursions=2),
    RECURSIVE.format(4): dict(kind="recursive", recursions=4),
    EXPERT.format(2): dict(kind="expert", recursions=2),
    EXPERT.format(3): dict(kind="expert", recursions=3),
    EXPERT.format(4): dict(kind="expert", recursions=4),
    TOKEN: dict(kind="token", recursions=3),
}


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_name_stands_in_for_its_yaml(tmp_path, name):
    """A tiny model under a released name, whose config.json gives its shape."""
    made = make(tmp_path / name, block=2, **RELEASED[name])
    _, told = models.load(made.folder)
    (made.folder / "pretrain.yaml").unlink()
    _, named = models.load(made.folder)
    assert named.name == name
    same = ("kind", "recursions", "sharing", "router_type", "router_function", "alpha", "temp", "weighted", "capacities", "loss_free")
    for field in same:
        assert getattr(named.settings, field) == getattr(told.settings, field), field


def test_another_name_without_yaml_asks_for_it(tmp_path):
    made = make(tmp_path / "mine")
    (made.folder / "pretrain.yaml").rename(tmp_path / "elsewhere.yaml")
    assert "pass the experiment's YAML (conf/pretrain/<name>.yaml of the authors' repository) with --config." in refused(made.folder)
    assert models.load(made.folder, tmp_path / "elsewhere.yaml")[1].settings.kind == "expert"


def test_the_released_model_with_shared_key_values_is_refused(tmp_path):
    folder = tmp_path / EXPERT.format(3).replace("rec3", "kv-share_rec3")
    folder.mkdir()
    assert refused(folder) == f"{folder.name}: kv_sharing is not implemented."


# (layers of a recursion, layers in all, million parameters): SmolLM-360M's embedding and layers, by hand.
EMBEDDING, LAYER = 49152 * 960, 2 * 960 * 960 + 2 * 960 * 320 + 3 * 960 * 2560 + 2 * 960
SHAPES = {
    VANILLA: (None, EMBEDDING + 32 * LAYER + 960),
    RECURSIVE.format(2): (15, EMBEDDING + 17 * LAYER + 960),
    RECURSIVE.format(4): (8, EMBEDDING + 10 * LAYER + 960),
    EXPERT.format(2): (15, EMBEDDING + 17 * LAYER + 960 + 2 * 960),
    EXPERT.format(3): (10, EMBEDDING + 12 * LAYER + 960 + 3 * 960),
    EXPERT.format(4): (8, EMBEDDING + 10 * LAYER + 960 + 4 * 960),
    TOKEN: (10, EMBEDDING + 12 * LAYER + 960 + 3 * 960),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_released_name_alone_gives_the_shapes_of_smollm_360m(tmp_path, name):
    """Without config.json, on the meta device: nothing of that size is allocated."""
    (tmp_path / name).mkdir()
    _, found, llama = settings.read(tmp_path / name)
    model = models.build(llama, found)
    layers, parameters = SHAPES[name]
    assert model.layers_per_recursion == layers and llama.max_position_embeddings == 2048
    assert llama.num_hidden_layers == (34 if "rec4" in name else 32)
    copies = {copy for group in models.shared_copies(model) for copy in group[1:]} | {weights.HEAD}
    shapes = {key: tensor.numel() for key, tensor in model.state_dict().items()}
    assert sum(size for key, size in shapes.items() if key not in copies) == parameters


def test_model_config_of_the_yaml_goes_over_smollm_and_not_over_a_config_json(tmp_path):
    (tmp_path / "bare").mkdir()
    experiment = {"recursive": {"enable": True, "num_recursion": 4}, "model_config": {"num_hidden_layers": 34}}
    (tmp_path / "bare" / "pretrain.yaml").write_text(yaml.safe_dump(experiment))
    assert settings.read(tmp_path / "bare")[2].num_hidden_layers == 34
    made = make(tmp_path / "made", kind="recursive", recursions=2)
    altered(made, tmp_path / "altered", pretrain={"model_config": {"num_hidden_layers": 34}})
    assert models.load(tmp_path / "altered")[0].config.num_hidden_layers == 4


def test_stored_precision_does_not_matter_beyond_its_rounding(tmp_path):
    made = make(tmp_path / "made")
    half = Made(tmp_path / "half", {name: tensor.bfloat16() for name, tensor in made.state.items()}, made.pretrain, made.config)
    save(half)
    loaded = models.load(half.folder)[0].state_dict()
    assert all(tensor.dtype == torch.float32 for tensor in loaded.values())
    assert all(torch.equal(loaded[name], tensor.float()) for name, tensor in half.state.items())
