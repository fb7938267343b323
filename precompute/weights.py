"""State dicts as the authors' files hold them: every copy of a shared weight, or only the first.

`complete` turns what a file holds into exactly the tensors that the model expects; copies that are
equal become one storage, copies that differ stay apart.
"""

import hashlib
import pickle
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from db.errors import UserError

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class Weights:
    """A complete state dict, and the layer tensors whose copies differ between recursions."""

    tensors: dict[str, torch.Tensor]
    unshared: tuple[str, ...]

    @property
    def attention_shared(self) -> bool:
        return not any(part in name for name in self.unshared for part in ATTENTION)


def weight_file(folder: Path) -> Path:
    """The folder's model.safetensors or pytorch_model.bin. Raises UserError where neither is there."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder} holds neither model.safetensors nor pytorch_model.bin.")


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a weight file, on the CPU, never executing code from it."""
    try:
        if path.suffix == ".safetensors":
            # Memory-mapped tensors are only 8-byte aligned, which changes last digits of a product.
            return {name: tensor.clone() for name, tensor in load_file(path).items()}
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(f"{path} is a pickle that holds more than tensors, or is damaged; it was not loaded. Save its state dict alone.") from error
    except Exception as error:  # A damaged file makes the readers raise whatever they trip over.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} cannot be read as weights: it is cut short or damaged ({reason:.200}).") from error
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise UserError(f"{path} does not hold a flat state dict of tensors.")
    return dict(content)


def complete(
    found: dict[str, torch.Tensor],
    expected: dict[str, torch.Size],
    shared: list[list[str]],
    tied: bool,
    path: Path,
) -> Weights:
    """The tensors named in `expected`, filled from the copies that the file holds.

    `shared` lists the names that are copies of one weight in training, one group a weight.
    Raises UserError naming a tensor that is missing, unexpected or of another shape.
    """
    groups = [*shared, [EMBEDDING, HEAD]] if tied else shared
    _refuse_foreign(found, expected, path)
    tensors, unshared = dict(found), []
    for group in groups:
        copies = [name for name in group if name in found]
        _refuse_missing(copies, group, path)
        if all(_equal(found[copies[0]], found[name]) for name in copies[1:]):
            tensors.update({name: found[copies[0]] for name in group})
        elif EMBEDDING in group:
            raise UserError(f"{path}: {HEAD} differs from {EMBEDDING}, though the configuration ties them.")
        elif len(copies) < len(group):
            missing = next(name for name in group if name not in found)
            raise UserError(f"{path}: tensor {missing} is missing, and the other recursions' copies of it differ.")
        else:
            unshared.append(group[0])
    for name in expected:
        _refuse_missing([name] if name in tensors else [], [name], path)
    return Weights(tensors, tuple(unshared))


def _refuse_foreign(found: dict[str, torch.Tensor], expected: dict[str, torch.Size], path: Path) -> None:
    for name, tensor in found.items():
        if name not in expected:
            raise UserError(f"{path}: unexpected tensor {name} of shape {tuple(tensor.shape)}; the settings do not describe this file.")
        if tensor.shape != expected[name]:
            raise UserError(f"{path}: tensor {name} has shape {tuple(tensor.shape)}, expected {tuple(expected[name])}.")
        if not tensor.is_floating_point():
            raise UserError(f"{path}: tensor {name} holds {tensor.dtype}, expected floating-point numbers.")


def _refuse_missing(present: list[str], group: list[str], path: Path) -> None:
    if not present:
        raise UserError(f"{path}: tensor {group[0]} is missing.")


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and (one.data_ptr() == other.data_ptr() or torch.equal(one, other))
