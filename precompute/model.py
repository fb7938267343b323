"""The MoR model on transformers' own Llama layers, with modules named as in the authors' files.

    model = load(Path("expert-3"))
    hidden = model.embed(ids)

It owns layers, routers and weights; which tokens a recursion runs over is decided in passes.py.

Shapes: N sequences, T tokens, H hidden, R recursions, K kept tokens of the fullest sequence.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from db.errors import UserError
from precompute import settings as reading
from precompute import weights
from precompute.settings import Settings


@dataclass(frozen=True)
class Checkpoint:
    """Where a model came from: facts for the `checkpoints` table."""

    name: str
    folder: Path
    settings: Settings
    parameters: int
    attention_shared: bool | None
    unshared: tuple[str, ...]
    weights_sha256: str


class Router(nn.Module):
    """Logits of one recursion's router (expert-choice) or of all R (token-choice)."""

    def __init__(self, hidden: int, outputs: int, kind: str):
        super().__init__()
        if kind == "linear":
            self.router = nn.Linear(hidden, outputs, bias=False)
        else:
            self.router = nn.Sequential(
                nn.Linear(hidden, 2 * hidden, bias=False), nn.GELU(), nn.Linear(2 * hidden, outputs, bias=False)
            )

    def forward(self, x: Tensor) -> Tensor:
        return self.router(x)


class ExpertRecursion(nn.Module):
    """One recursion of an expert-choice model: its copy of the block and its own router."""

    def __init__(self, config: LlamaConfig, settings: Settings, layers: int, index: int):
        super().__init__()
        self.block = nn.ModuleList(LlamaDecoderLayer(config, index) for _ in range(layers))
        self.mor_router = Router(config.hidden_size, 1, settings.router_type)


class TokenRecursions(nn.Module):
    """All recursions of a token-choice model and the one router that picks a depth."""

    def __init__(self, config: LlamaConfig, settings: Settings, layers: int, index: int):
        super().__init__()
        self.block_list = nn.ModuleList(
            nn.ModuleList(LlamaDecoderLayer(config, index) for _ in range(layers)) for _ in range(settings.recursions)
        )
        self.mor_router = Router(config.hidden_size, settings.recursions, settings.router_type)
        if settings.loss_free:
            self.router_bias = nn.Parameter(torch.zeros(settings.recursions), requires_grad=False)


class Body(nn.Module):
    """Embedding, layers and final norm, under the names of the authors' files."""

    def __init__(self, config: LlamaConfig, settings: Settings):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_layers(config, settings))
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class Model(nn.Module):
    """A vanilla, recursive, expert-choice or token-choice language model."""

    def __init__(self, config: LlamaConfig, settings: Settings):
        super().__init__()
        self.config, self.settings = config, settings
        self.layers_per_recursion = layers_per_recursion(config, settings)
        self.model = Body(config, settings)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self._rope: tuple[Tensor, Tensor] | None = None

    @property
    def device(self) -> torch.device:
        return self.lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.lm_head.weight.dtype

    def embed(self, ids: Tensor) -> Tensor:
        """Hidden states before the first recursion: embedding and the plain layers that precede it. [N, T] -> [N, T, H]"""
        x = self.model.embed_tokens(ids)
        return self._run(self._before(), x, None)

    def recurse(self, r: int, x: Tensor, keep: Tensor) -> Tensor:
        """The block of recursion `r` over the kept tokens of each sequence.

        x [N, T, H], keep [N, T] bool -> [kept, H], rows in the order of `x[keep]`. Kept tokens attend
        causally to each other only, at their original positions.
        """
        layers = self.blocks()[r]
        if keep.all():
            return self._run(layers, x, None).flatten(0, 1)
        counts = keep.sum(dim=1)  # [N]
        longest = int(counts.max())
        if longest == 0:
            return x[keep]
        # Kept tokens first, in causal order. The padding behind them is never attended to by them.
        positions = torch.argsort(~keep, dim=1, stable=True)[:, :longest]  # [N, K]
        kept = x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))  # [N, K, H]
        out = self._run(layers, kept, positions)
        real = torch.arange(longest, device=x.device) < counts.unsqueeze(1)  # [N, K]
        return out[real]

    def finish(self, x: Tensor) -> Tensor:
        """The plain layers after the recursions and the final norm. [N, T, H] -> [N, T, H]"""
        return self.model.norm(self._run(self._after(), x, None))

    def router_logits(self, r: int, x: Tensor) -> Tensor:
        """Expert-choice: the score of recursion `r`, [N, T]; token-choice: all R columns, [N, T, R]."""
        x = x / self.settings.temp
        if self.settings.kind == "expert":
            return self.model.layers[self.settings.first_layers + r].mor_router(x).squeeze(-1)
        return self.model.layers[self.settings.first_layers].mor_router(x)

    @property
    def router_bias(self) -> Tensor | float:
        """The loss-free balancing bias [R] of token-choice, 0 where the model has none."""
        return self.model.layers[self.settings.first_layers].router_bias if self.settings.loss_free else 0.0

    def blocks(self) -> list[nn.ModuleList]:
        """The layers of each recursion, R lists of layers (empty for plain passes)."""
        first, count = self.settings.first_layers, self.settings.recursions
        if self.settings.kind == "expert":
            return [layer.block for layer in self.model.layers[first : first + count]]
        if self.settings.kind == "token":
            return list(self.model.layers[first].block_list)
        return []

    def _before(self) -> nn.ModuleList:
        return self.model.layers[: self.settings.first_layers] if self.settings.routed else self.model.layers

    def _after(self) -> nn.ModuleList:
        if not self.settings.routed or not self.settings.first_layers:
            return nn.ModuleList()
        return self.model.layers[-1:]

    def _run(self, layers: nn.ModuleList, x: Tensor, positions: Tensor | None) -> Tensor:
        """Layers over x [N, K, H] at `positions` [N, K] (None: 0..K-1). Causal, without a mask: SDPA's own."""
        if not len(layers):
            return x
        rope = self._rotary(x, positions)
        for layer in layers:
            x = layer(x, position_embeddings=rope)
        return x

    def _rotary(self, x: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each token's original position, [N or 1, K, head], in x's precision."""
        if self._rope is None or self._rope[0].device != x.device or self._rope[0].dtype != x.dtype:
            # Built in float32 on the CPU: in bfloat16 the inverse frequencies would be wrong by far.
            everywhere = torch.arange(self.config.max_position_embeddings).unsqueeze(0)
            tables = LlamaRotaryEmbedding(self.config)(torch.zeros(1, dtype=torch.float32), everywhere)
            self._rope = tuple(table[0].to(x.device, x.dtype) for table in tables)
        cos, sin = self._rope
        if positions is None:
            return cos[: x.shape[1]].unsqueeze(0), sin[: x.shape[1]].unsqueeze(0)
        return cos[positions], sin[positions]


def layers_per_recursion(config: LlamaConfig, settings: Settings) -> int | None:
    """B, the layers of one recursion (None for vanilla): what the configuration's layers leave, divided by R."""
    if settings.recursions is None:
        return None
    return (config.num_hidden_layers - 2 * settings.first_layers) // settings.recursions


def _layers(config: LlamaConfig, settings: Settings) -> list[nn.Module]:
    if settings.kind == "vanilla":
        return [LlamaDecoderLayer(config, i) for i in range(config.num_hidden_layers)]
    count, ends = layers_per_recursion(config, settings), settings.first_layers
    if settings.kind == "recursive":
        return [LlamaDecoderLayer(config, i) for i in range(settings.recursions * count + 2 * ends)]
    if settings.kind == "expert":
        middle = [ExpertRecursion(config, settings, count, r) for r in range(settings.recursions)]
    else:
        middle = [TokenRecursions(config, settings, count, 0)]
    plain = [LlamaDecoderLayer(config, i) for i in range(2 * ends)]
    return [*plain[:ends], *middle, *plain[ends:]]


def shared_copies(model: Model) -> list[list[str]]:
    """Names of the tensors that are one weight in training, a list of R names for each."""
    settings, count = model.settings, model.layers_per_recursion
    if settings.recursions is None or not count:
        return []
    first = settings.first_layers
    place = {
        "recursive": lambda r, b: f"model.layers.{first + r * count + b}",
        "expert": lambda r, b: f"model.layers.{first + r}.block.{b}",
        "token": lambda r, b: f"model.layers.{first}.block_list.{r}.{b}",
    }[settings.kind]
    parts = LlamaDecoderLayer(model.config, 0).state_dict().keys() if count else ()
    return [[f"{place(r, b)}.{part}" for r in range(settings.recursions)] for b in range(count) for part in parts]


def build(config: LlamaConfig, settings: Settings) -> Model:
    """An empty model on the meta device; its state dict's keys and shapes are what a file must hold."""
    if settings.recursions is not None and layers_per_recursion(config, settings) < 1:
        raise UserError(
            f"{config.num_hidden_layers} layers leave none for {settings.recursions} recursions of {settings.sharing} sharing."
        )
    with torch.device("meta"):
        return Model(config, settings)


def assign(model: Model, tensors: dict[str, Tensor]) -> None:
    """Gives the model its weights; names that hold the same tensor become one parameter."""
    parameters: dict[int, nn.Parameter] = {}
    for tensor in tensors.values():
        parameters.setdefault(id(tensor), nn.Parameter(tensor, requires_grad=False))
    model.load_state_dict({name: parameters[id(tensor)] for name, tensor in tensors.items()}, strict=True, assign=True)


def load(
    folder: Path,
    config: Path | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> tuple[Model, Checkpoint]:
    """The model of a checkpoint folder, ready to run, and where it came from.

    Raises UserError for whatever in the folder does not fit: settings, configuration, tensors.
    """
    name, settings, llama = reading.read(folder, config)
    path = weights.weight_file(folder)
    model = build(llama, settings)
    found = weights.load(path)
    if settings.aux_router:
        found = {key: tensor for key, tensor in found.items() if ".mlp_router." not in key}
    expected = {key: tensor.shape for key, tensor in model.state_dict().items()}
    whole = weights.complete(found, expected, shared_copies(model), llama.tie_word_embeddings, path)
    moved = {id(tensor): tensor.to(device, dtype) for tensor in whole.tensors.values()}
    assign(model, {key: moved[id(tensor)] for key, tensor in whole.tensors.items()})
    model.eval()
    checkpoint = Checkpoint(
        name=name,
        folder=folder,
        settings=settings,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        attention_shared=whole.attention_shared if settings.recursions else None,
        unshared=whole.unshared,
        weights_sha256=weights.sha256(path),
    )
    return model, checkpoint
