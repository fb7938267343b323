"""Tiny random checkpoints of any kind, in the layouts of the authors' files.

    made = make(folder, kind="expert", recursions=3, storage="first")

Weights are large enough that hidden states differ and routers spread their probabilities.
"""

import copy
import json
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from safetensors.torch import save_file

CONFIG = {
    "model_type": "llama",
    "vocab_size": 67,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}
ATTENTION, NORMS = ("q_proj", "k_proj", "v_proj", "o_proj"), ("layernorm",)
EXPERT = {"router_func": "sigmoid", "alpha": 0.1, "sampling": "aux_loss", "gating": "weighted"}
TOKEN = {"router_func": "softmax", "alpha": 1.0, "balancing": "loss", "gating": "weighted"}


@dataclass(frozen=True)
class Made:
    """A checkpoint folder, and what is in it: the tensors of the file, the YAML and the configuration."""

    folder: Path
    state: dict[str, torch.Tensor]
    pretrain: dict
    config: dict


def make(
    folder: Path,
    kind: str = "expert",
    recursions: int = 3,
    block: int = 1,
    sharing: str = "middle_cycle",
    options: dict | None = None,
    mor: dict | None = None,
    config: dict | None = None,
    spare_layers: int = 0,
    unshared: tuple[str, ...] = (),
    storage: str = "every",
    head: bool = True,
    file: str = "model.safetensors",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Made:
    """A checkpoint of `kind` whose shared block has `block` layers.

    `options` goes over the YAML's mor.<kind> (a key set to ... is left out), `mor` over its mor and
    `config` over the Llama configuration. Parts named in `unshared` differ between recursions.
    `storage` keeps `every` copy of a shared weight or the `first`; `head` keeps a tied lm_head.weight.
    """
    ends = 2 if sharing == "middle_cycle" else 0
    layers = recursions * block + ends + spare_layers
    config = {**CONFIG, "num_hidden_layers": layers, **(config or {})}
    pretrain = _pretrain(kind, recursions, sharing, options or {}, mor or {})
    state, copies = _tensors(kind, recursions, block, ends // 2, pretrain["mor"], config, unshared, torch.Generator().manual_seed(seed))
    if storage == "first":
        state = {name: tensor for name, tensor in state.items() if name not in copies}
    if not config["tie_word_embeddings"]:
        state["lm_head.weight"] = state["lm_head.weight"].flip(0)
    elif not head:
        del state["lm_head.weight"]
    made = Made(folder, {name: tensor.to(dtype) for name, tensor in state.items()}, pretrain, config)
    save(made, file)
    return made


def save(made: Made, file: str = "model.safetensors") -> None:
    """Writes the folder. In a .bin, equal copies stay one storage, as the authors' trainer leaves them."""
    made.folder.mkdir(parents=True, exist_ok=True)
    (made.folder / "config.json").write_text(json.dumps(made.config))
    (made.folder / "pretrain.yaml").write_text(yaml.safe_dump(made.pretrain))
    for old in ("model.safetensors", "pytorch_model.bin"):
        (made.folder / old).unlink(missing_ok=True)
    if file.endswith(".bin"):
        torch.save(made.state, made.folder / file)
    else:
        save_file({name: tensor.clone().contiguous() for name, tensor in made.state.items()}, made.folder / file)


def altered(made: Made, folder: Path, state: dict | None = None, pretrain: dict | None = None, config: dict | None = None) -> Made:
    """The same checkpoint in another folder; a tensor set to None is removed, nested settings are merged."""
    tensors = {**made.state, **(state or {})}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    other = Made(folder, tensors, _merged(made.pretrain, pretrain or {}), _merged(made.config, config or {}))
    save(other)
    return other


def _merged(base: dict, over: dict) -> dict:
    result = copy.deepcopy(base)
    for key, value in over.items():
        result[key] = _merged(result.get(key) or {}, value) if isinstance(value, dict) else value
    return result


def _pretrain(kind: str, recursions: int, sharing: str, options: dict, mor: dict) -> dict:
    choices = {"expert": dict(EXPERT), "token": dict(TOKEN)}
    if kind in choices:
        choices[kind] = {key: value for key, value in {**choices[kind], **options}.items() if value is not ...}
    return {
        "name": f"tiny_{kind}",
        "recursive": {"enable": kind != "vanilla", "num_recursion": recursions, "sharing": sharing, "ln_share": True},
        "kv_sharing": {"enable": False},
        "relaxation": {"enable": False},
        "mor": {
            "enable": kind in choices,
            "type": kind if kind in choices else "expert",
            "capacity": None,
            "rand_router": False,
            "router_type": "linear",
            "temp": 1.0,
            **choices,
            **mor,
        },
    }


def _tensors(kind, recursions, block, ends, mor, config, unshared, random) -> tuple[dict[str, torch.Tensor], set[str]]:
    """Every tensor of the checkpoint, and the names of those that repeat an earlier copy."""
    hidden = config["hidden_size"]
    state = {"model.embed_tokens.weight": _matrix(config["vocab_size"], hidden, random, hidden)}
    copies: set[str] = set()

    def layer(name: str) -> None:
        state.update({f"{name}.{part}": tensor for part, tensor in _layer(config, random).items()})

    def recursion(place, r: int, b: int) -> None:
        layer(place(r, b))
        for name in [name for name in state if r and name.startswith(f"{place(r, b)}.")]:
            if not any(part in name for part in unshared):
                state[name] = state[name.replace(place(r, b), place(0, b))]
                copies.add(name)

    if kind == "vanilla":
        for index in range(config["num_hidden_layers"]):
            layer(f"model.layers.{index}")
    else:
        place = {
            "recursive": lambda r, b: f"model.layers.{ends + r * block + b}",
            "expert": lambda r, b: f"model.layers.{ends + r}.block.{b}",
            "token": lambda r, b: f"model.layers.{ends}.block_list.{r}.{b}",
        }[kind]
        last = {"recursive": ends + recursions * block, "expert": ends + recursions, "token": ends + 1}[kind]
        for index in [0, last][: 2 * ends]:
            layer(f"model.layers.{index}")
        for r in range(recursions):
            for b in range(block):
                recursion(place, r, b)
        for index, columns in {"expert": [(r, 1) for r in range(recursions)], "token": [(0, recursions)]}.get(kind, []):
            state.update(_router(f"model.layers.{ends + index}.mor_router.router", mor["router_type"], hidden, columns, random))
        if kind == "token" and mor["token"].get("balancing") == "loss_free":
            state[f"model.layers.{ends}.router_bias"] = 0.2 * torch.randn(recursions, generator=random)
    state["model.norm.weight"] = _norm(hidden, random)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state, copies


def _layer(config: dict, random: torch.Generator) -> dict[str, torch.Tensor]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, pairs = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or hidden // heads
    shapes = {
        "self_attn.q_proj": (heads * size, hidden),
        "self_attn.k_proj": (pairs * size, hidden),
        "self_attn.v_proj": (pairs * size, hidden),
        "self_attn.o_proj": (hidden, heads * size),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    found = {f"{name}.weight": _matrix(*shape, random) for name, shape in shapes.items()}
    for name, shape in shapes.items():
        if config.get("attention_bias" if name.startswith("self_attn") else "mlp_bias"):
            found[f"{name}.bias"] = 0.2 * torch.randn(shape[0], generator=random)
    for name in ("input_layernorm", "post_attention_layernorm"):
        found[f"{name}.weight"] = _norm(hidden, random)
    return found


def _router(name: str, kind: str, hidden: int, columns: int, random: torch.Generator) -> dict[str, torch.Tensor]:
    if kind == "linear":
        return {f"{name}.weight": 2 * _matrix(columns, hidden, random)}
    return {f"{name}.0.weight": 2 * _matrix(2 * hidden, hidden, random), f"{name}.2.weight": 2 * _matrix(columns, 2 * hidden, random)}


def _matrix(rows: int, columns: int, random: torch.Generator, spread: int | None = None) -> torch.Tensor:
    return torch.randn(rows, columns, generator=random) * 0.8 / (spread or columns) ** 0.5


def _norm(hidden: int, random: torch.Generator) -> torch.Tensor:
    return 1 + 0.1 * torch.randn(hidden, generator=random)
