"""A request found fit to be carried out, before any work is begun."""

import hashlib
import importlib.metadata
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from db.errors import UserError
from precompute import VERSION, machine, members
from precompute.machine import Machine
from precompute.members import Member
from precompute.request import Request
from precompute.tokenizer import Tokenizer
from precompute.work import Work

LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "duckdb", "numpy", "safetensors")


@dataclass(frozen=True)
class Plan:
    """What runs on what. `configuration` is everything that the file's values depend on."""

    request: Request
    sequences: int
    length: int
    members: list[Member]
    tokenizer: Tokenizer | None
    machine: Machine
    configuration: dict[str, Any]


def make(request: Request, work: Work) -> Plan:
    """The plan of a request; where `work` holds a run already, with the batch size that it was begun with.

    Raises UserError for whatever in the request cannot be used.
    """
    sequences, length = request.extent()
    device = machine.choose(request.device, request.precision)
    assignments = request.assigned()
    models = members.gather(request, assignments)
    tokenizer = members.common_tokenizer(request, models)
    members.refuse_lengths(models, length)
    _refuse_space(work, models, sequences * length)
    earlier = work.configuration()["batch size"] if work.opened() else None
    batch = request.batch_size or earlier or machine.batch_size(device, models, length, sequences, request.seed)
    device = replace(device, batch_size=batch)
    return Plan(request, sequences, length, models, tokenizer, device, _configuration(request, device, models, tokenizer, assignments))


def _refuse_space(work: Work, members: list[Member], positions: int) -> None:
    """An estimate on the safe side: shards and file, uncompressed."""
    recursions = max(member.checkpoint.settings.recursions or 0 for member in members)
    row = sum(5 * len(member.policies) + 8 * recursions + 60 for member in members)
    place = work.folder.parent
    need, free = 2 * row * positions - work.size(), shutil.disk_usage(place).free
    if need > free:
        raise UserError(f"{place} has {free / 1e9:.1f} GB free and this run may need {need / 1e9:.1f} GB; free space, or lower --sequences or --policies.")


def _configuration(
    request: Request, machine: Machine, members: list[Member], tokenizer: Tokenizer | None, assignments: dict[str, dict[str, np.ndarray]]
) -> dict[str, Any]:
    """Everything the values of the file depend on, and how the command asked for it."""
    return {
        "tool version": VERSION,
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "data": {
            "dataset": request.dataset,
            "split": request.split,
            "revision": request.revision,
            "texts": [[path.name, _file_sha256(path)] for path in request.texts],
            "tokens": [request.array.name, _file_sha256(request.array)] if request.array else None,
        },
        "tokenizer": tokenizer.sha256 if tokenizer else None,
        "length": request.length,
        "sequences": request.sequences,
        "checkpoints": {
            member.id: {
                "weights": member.checkpoint.weights_sha256,
                "settings": asdict(member.checkpoint.settings) | {"capacities": list(member.checkpoint.settings.capacities)},
                "policies": [policy.name for policy in member.policies],
                "is_reference": member.is_reference,
                "observed": member.observed,
                "assignments": {name: hashlib.sha256(np.ascontiguousarray(depths)).hexdigest() for name, depths in assignments.get(member.id, {}).items()},
            }
            for member in members
        },
        "device": machine.name,
        "precision": machine.precision,
        "batch size": machine.batch_size,
        "seed": request.seed,
    }


def _file_sha256(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
