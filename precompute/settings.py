"""What a checkpoint folder says about its model: the Llama configuration and the MoR settings.

Settings come from the experiment's YAML, or from the folder's name where it is one of the
released experiments. A setting that changes the forward pass and is not implemented is refused.
"""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from transformers import LlamaConfig

from db.errors import UserError

SMOLLM_360M = {
    "vocab_size": 49152,
    "hidden_size": 960,
    "intermediate_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 15,
    "num_key_value_heads": 5,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}

RELEASED = re.compile(
    r"(?P<date>\d{6})_pretrain_smollm-360m_"
    r"(?:(?P<vanilla>vanilla)_lr3e-3"
    r"|(?P<kv>kv-share_)?rec(?P<recursions>[234])_(?P<sharing>middle_cycle)_random_lr3e-3"
    r"(?:_mor_(?:(?P<expert>expert)_linear_alpha_0\.1_sigmoid_aux_loss_0\.001"
    r"|(?P<token>token)_softmax_bal_loss_coeff_0\.1_linear_zloss_1e-5))?)"
)
RELEASED_LAYERS = {4: 34}

# Paper, Table 3: the vanilla model is the only one whose token count is published exactly.
RELEASED_TRAINING_TOKENS = {"vanilla": 19_800_000_000}


@dataclass(frozen=True)
class Settings:
    """The MoR settings that decide a forward pass.

    `kind` is vanilla, recursive, expert or token; `recursions` is None for vanilla.
    `router_function` is sigmoid, tanh, softmax or None; `capacities` has one share per recursion
    (expert-choice only). `weighted` says whether a block's output is multiplied by the gate.
    """

    kind: str
    recursions: int | None = None
    sharing: str = "middle_cycle"
    router_type: str = "linear"
    router_function: str | None = None
    alpha: float = 1.0
    temp: float = 1.0
    weighted: bool = True
    capacities: tuple[float, ...] = ()
    loss_free: bool = False
    aux_router: bool = False
    training_tokens: int | None = None

    @property
    def routed(self) -> bool:
        return self.kind in ("expert", "token")

    @property
    def opens(self) -> bool:
        """Whether the gate can be held open: it multiplies, and a router function bounds it."""
        return self.routed and self.weighted and self.router_function is not None

    @property
    def first_layers(self) -> int:
        """Plain layers before the recursions (and after them): 1 for middle_cycle, 0 for cycle."""
        return 1 if self.sharing == "middle_cycle" else 0

    def as_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def read(folder: Path, config: Path | None = None) -> tuple[str, Settings, LlamaConfig]:
    """The experiment name, settings and Llama configuration of a checkpoint folder.

    `config` is the experiment's YAML where the folder holds none (or to override it).
    Raises UserError for a folder, YAML or setting that cannot be used, naming it.
    """
    if not folder.is_dir():
        raise UserError(f"No checkpoint folder at {folder}. Give the folder that holds model.safetensors or pytorch_model.bin.")
    base = _llama_json(folder)
    path = config or _yaml_in(folder)
    if path is not None:
        experiment = _load_yaml(path)
        name = str(experiment.get("name") or folder.resolve().name)
        settings = _settings(experiment, path)
        overrides = _mapping(experiment, "model_config", path)
    else:
        name = folder.resolve().name
        settings, overrides = _by_name(name, base, folder)
    # A config.json in the folder already is the configuration that was trained.
    return name, settings, _llama_config(base or {**SMOLLM_360M, **overrides}, folder)


def _llama_json(folder: Path) -> dict[str, Any] | None:
    path = folder / "config.json"
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is not a readable JSON file: {error}.") from error
    if content.get("model_type", "llama") != "llama":
        raise UserError(f"{path} says model_type {content['model_type']!r}; only llama checkpoints can be read.")
    return content


def _llama_config(content: dict[str, Any], folder: Path) -> LlamaConfig:
    content = {key: value for key, value in content.items() if key not in ("architectures", "model_type")}
    try:
        config = LlamaConfig.from_dict(content)
    except Exception as error:
        raise UserError(f"The Llama configuration of {folder} cannot be used: {error}.") from error
    config._attn_implementation = "sdpa"
    return config


def _yaml_in(folder: Path) -> Path | None:
    found = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    named = [path for path in found if path.stem in ("pretrain", folder.resolve().name)]
    if len(named or found) > 1:
        names = ", ".join(path.name for path in found)
        raise UserError(f"{folder} holds several YAML files ({names}); name the experiment's with --config.")
    return (named or found or [None])[0]


def _load_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"The experiment's YAML {path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise UserError(f"The experiment's YAML {path} holds no settings.")
    return content


def _mapping(content: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise UserError(f"{path}: {key} should be a mapping, not {value!r}.")
    return value


def _by_name(name: str, base: dict[str, Any] | None, folder: Path) -> tuple[Settings, dict[str, Any]]:
    match = RELEASED.fullmatch(name)
    if match is None:
        if base is not None and base.get("architectures") == ["LlamaForCausalLM"]:
            return Settings(kind="vanilla"), {}
        raise UserError(
            f"{folder} holds no YAML and its name is not a released experiment's: "
            "pass the experiment's YAML (conf/pretrain/<name>.yaml of the authors' repository) with --config."
        )
    if match["vanilla"]:
        return Settings(kind="vanilla", training_tokens=RELEASED_TRAINING_TOKENS["vanilla"]), {}
    if match["kv"]:
        raise UserError(f"{name}: kv_sharing is not implemented.")
    recursions = int(match["recursions"])
    overrides = {"num_hidden_layers": RELEASED_LAYERS[recursions]} if recursions in RELEASED_LAYERS else {}
    if match["expert"]:
        return _expert({"alpha": 0.1, "router_func": "sigmoid"}, {}, recursions, match["sharing"], Path(name)), overrides
    if match["token"]:
        return _token({}, {}, recursions, match["sharing"], Path(name)), overrides
    return Settings(kind="recursive", recursions=recursions, sharing=match["sharing"]), overrides


def _settings(experiment: dict[str, Any], path: Path) -> Settings:
    recursive, mor = _mapping(experiment, "recursive", path), _mapping(experiment, "mor", path)
    for refused in ("kv_sharing", "relaxation"):
        if _mapping(experiment, refused, path).get("enable"):
            raise UserError(f"{path}: {refused} is not implemented.")
    tokens = _training_tokens(experiment)
    if not recursive.get("enable"):
        if mor.get("enable"):
            raise UserError(f"{path}: mor.enable needs recursive.enable.")
        return Settings(kind="vanilla", training_tokens=tokens)
    recursions, sharing = recursive.get("num_recursion"), recursive.get("sharing", "middle_cycle")
    if not isinstance(recursions, int) or recursions < 1 or recursions > 255:
        raise UserError(f"{path}: recursive.num_recursion is {recursions!r}; it should be a whole number from 1 to 255.")
    if sharing not in ("middle_cycle", "cycle"):
        raise UserError(f"{path}: recursive.sharing {sharing!r} is not implemented; middle_cycle and cycle are.")
    if not mor.get("enable"):
        return Settings(kind="recursive", recursions=recursions, sharing=sharing, training_tokens=tokens)
    if mor.get("rand_router"):
        raise UserError(f"{path}: mor.rand_router is not implemented.")
    build = {"expert": _expert, "token": _token}.get(mor.get("type"))
    if build is None:
        raise UserError(f"{path}: mor.type {mor.get('type')!r} is not implemented; expert and token are.")
    return build(_mapping(mor, mor["type"], path), mor, recursions, sharing, path, tokens)


def _training_tokens(experiment: dict[str, Any]) -> int | None:
    steps, batch, length = (experiment.get(key) for key in ("num_train_steps", "total_batch_size", "max_length"))
    if all(isinstance(value, int) and value > 0 for value in (steps, batch, length)):
        return steps * batch * length
    return None


def _expert(choice: dict[str, Any], mor: dict[str, Any], recursions: int, sharing: str, path: Path, tokens: int | None = None) -> Settings:
    function = choice.get("router_func", "sigmoid")
    if function not in ("sigmoid", "tanh", None):
        raise UserError(f"{path}: mor.expert.router_func {function!r} is not implemented; sigmoid, tanh and null are.")
    sampling = choice.get("sampling", "aux_loss")
    if sampling not in ("aux_loss", "aux_router", None):
        raise UserError(f"{path}: mor.expert.sampling {sampling!r} is not implemented; aux_loss and aux_router are.")
    return Settings(
        kind="expert",
        router_function=function,
        alpha=_positive(choice.get("alpha", 0.1), "mor.expert.alpha", path) if function else 1.0,
        weighted=choice.get("gating", "weighted") == "weighted",
        capacities=_capacities(mor.get("capacity"), recursions, path),
        aux_router=sampling == "aux_router",
        **_common(mor, recursions, sharing, path, tokens),
    )


def _token(choice: dict[str, Any], mor: dict[str, Any], recursions: int, sharing: str, path: Path, tokens: int | None = None) -> Settings:
    function = choice.get("router_func") or "softmax"
    if function not in ("softmax", "sigmoid"):
        raise UserError(f"{path}: mor.token.router_func {function!r} is not implemented; softmax and sigmoid are.")
    balancing = choice.get("balancing", "loss")
    if balancing not in ("loss", "loss_free", None):
        raise UserError(f"{path}: mor.token.balancing {balancing!r} is not implemented; loss and loss_free are.")
    default = 1.0 if function == "softmax" else 0.1
    return Settings(
        kind="token",
        router_function=function,
        alpha=_positive(choice.get("alpha", default), "mor.token.alpha", path),
        weighted=choice.get("gating", "weighted") == "weighted",
        loss_free=balancing == "loss_free",
        **_common(mor, recursions, sharing, path, tokens),
    )


def _common(mor: dict[str, Any], recursions: int, sharing: str, path: Path, tokens: int | None) -> dict[str, Any]:
    router = mor.get("router_type", "linear")
    if router not in ("linear", "mlp", "wide_mlp"):
        raise UserError(f"{path}: mor.router_type {router!r} is not implemented; linear, mlp and wide_mlp are.")
    return {
        "recursions": recursions,
        "sharing": sharing,
        "router_type": "linear" if router == "linear" else "mlp",
        "temp": _positive(mor.get("temp", 1.0), "mor.temp", path),
        "training_tokens": tokens,
    }


def _positive(value: Any, key: str, path: Path) -> float:
    # PyYAML reads 1e-5 (no dot) as text.
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise UserError(f"{path}: {key} is {value!r}; it should be a number above 0.")
    return number


def _capacities(value: Any, recursions: int, path: Path) -> tuple[float, ...]:
    if value is None:
        return tuple((recursions - r) / recursions for r in range(recursions))
    try:
        parts = value if isinstance(value, list) else str(value).split(",")
        shares = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        shares = ()
    falling = all(later <= earlier for earlier, later in zip(shares, shares[1:]))
    if len(shares) != recursions or not falling or not all(0 <= share <= 1 for share in shares):
        raise UserError(
            f"{path}: mor.capacity is {value!r}; it should be {recursions} shares from 0 to 1, "
            "separated by commas, none above the one before."
        )
    return shares
