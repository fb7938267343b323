"""The run command: checkpoints and held-out text -> one DuckDB file.

Everything that can be refused is refused first; then each checkpoint runs shard by shard in a
working folder beside the output, and the file is built from the shards.
"""

import errno
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from db import schema, writer
from db.errors import UserError
from precompute import VERSION, policies, text, tokenizer
from precompute import model as models
from precompute.observe import observe
from precompute.policies import Policy
from precompute.progress import Progress, say
from precompute.settings import RELEASED
from precompute.text import Tokens
from precompute.tokenizer import Tokenizer
from precompute.work import Work

DEFAULT_LENGTH, DEFAULT_SEQUENCES = 2_048, 1_000
DEFAULT_TOKENIZER = "HuggingFaceTB/SmolLM-135M"
LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "duckdb", "numpy", "safetensors")
BATCH_TOKENS = {"cpu": 2_048, "other": 16_384}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Request:
    """What the command line asks for; paths as given. `checkpoints` and `configs` map ids to folders and YAMLs."""

    output: Path
    checkpoints: list[tuple[str | None, Path]]
    reference: tuple[str | None, Path] | None = None
    dataset: str | None = None
    split: str | None = None
    revision: str | None = None
    texts: list[Path] = field(default_factory=list)
    array: Path | None = None
    tokenizer: str | None = None
    length: int | None = None
    sequences: int | None = None
    policies: list[str] | None = None
    assignments: list[tuple[str, str, Path]] = field(default_factory=list)
    configs: list[tuple[str | None, Path]] = field(default_factory=list)
    device: str = "auto"
    precision: str = "auto"
    batch_size: int | None = None
    seed: int = 0
    force: bool = False


@dataclass(frozen=True)
class Member:
    """A checkpoint of the run, known to be whole: where it is, what it is, what it runs under."""

    id: str
    config: Path | None
    checkpoint: models.Checkpoint
    layers_per_recursion: int | None
    vocabulary_size: int
    longest: int
    policies: list[Policy]
    is_reference: bool
    observed: bool


@dataclass(frozen=True)
class Machine:
    """Where and how the models run."""

    device: torch.device
    precision: str
    batch_size: int


def run(request: Request) -> Path:
    """Carries out a request and returns the path of the finished file.

    Raises UserError for whatever in the request cannot be used. A failed run leaves no output; what
    it finished stays in the working folder, from which the same request continues.
    """
    started = time.monotonic()
    _refuse_output(request)
    count, length = _extent(request)
    machine = _machine(request, length)
    assignments = _assignments(request)
    members = _members(request, assignments)
    vocabulary = _vocabulary(request, members)
    _refuse_lengths(members, length)
    _refuse_space(request.output, members, count * length)
    work = Work(request.output.with_name(request.output.name + ".work"))
    try:
        work.open(_configuration(request, machine, members, vocabulary, assignments))
        tokens = _tokens(request, vocabulary, length, count, work)
        text.check_range(tokens, members[0].vocabulary_size)
        _refuse_assignments(assignments, members, tokens)
        timings = {"preparing": time.monotonic() - started}
        for member in members:
            began = time.monotonic()
            _observe(member, tokens, work, machine, request.seed)
            timings[member.id] = time.monotonic() - began
        _build(request, machine, members, tokens, vocabulary, work, timings)
    except BaseException as error:
        if not work.finished():
            work.remove()
        raise _explained(error, work, machine) from error
    work.remove()
    return request.output


def _refuse_output(request: Request) -> None:
    output = request.output
    if output.is_dir():
        raise UserError(f"The output {output} is a folder; name a .duckdb file in it.")
    if output.exists() and not request.force:
        raise UserError(f"The output {output} exists; add --force to replace it, or name another.")
    if not output.parent.is_dir():
        raise UserError(f"There is no folder {output.parent} to write {output.name} into; make it first.")
    probe = output.with_name(f".{output.name}.probe")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"The folder {output.parent} cannot be written to: {error.strerror}.") from error


def _extent(request: Request) -> tuple[int, int]:
    """How many sequences of which length are asked for."""
    if request.array is None:
        return request.sequences or DEFAULT_SEQUENCES, request.length or DEFAULT_LENGTH
    count, length = text.integers(request.array, "token array").shape
    return min(count, request.sequences or count), length


def _machine(request: Request, length: int) -> Machine:
    name = request.device if request.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"The device {name!r} is unknown; try cpu, cuda or cuda:1.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError("CUDA was asked for and is not available here; use --device cpu, or install torch for your GPU.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"There is no GPU {device.index}; this machine has {torch.cuda.device_count()}.")
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"The device {name!r} is not supported; use cpu or cuda.")
    precision = request.precision if request.precision != "auto" else "bf16" if device.type == "cuda" else "fp32"
    tokens = BATCH_TOKENS.get(device.type, BATCH_TOKENS["other"])
    return Machine(device, precision, request.batch_size or max(1, tokens // length))


def _assignments(request: Request) -> dict[str, dict[str, np.ndarray]]:
    """checkpoint id -> policy name -> depths [sequences, T]."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for checkpoint, name, path in request.assignments:
        if name in found.setdefault(checkpoint, {}):
            raise UserError(f"--assign names {checkpoint}:{name} twice.")
        found[checkpoint][name] = text.integers(path, "assignment")
    return found


def _members(request: Request, assignments: dict[str, dict[str, np.ndarray]]) -> list[Member]:
    """Every model of the run, the reference first."""
    places = [(_identify(place), place[1]) for place in request.checkpoints]
    ids = [name for name, _ in places]
    for name in ids:
        if ids.count(name) > 1:
            raise UserError(f"Two checkpoints are called {name}; tell them apart with --checkpoint ID=DIR.")
    for name in assignments:
        if name not in ids:
            raise UserError(f"--assign names the checkpoint {name}, which is not given; the checkpoints are {', '.join(ids)}.")
    configs = _configs(request, ids)
    members = []
    reference = request.reference[1].resolve() if request.reference else None
    if request.reference and reference not in [folder.resolve() for _, folder in places]:
        name = _identify(request.reference)
        if name in ids:
            raise UserError(f"The reference and a checkpoint are both called {name}; tell them apart with --checkpoint ID=DIR.")
        members.append(_member(name, request.reference[1], configs.get(name), {}, None, True, False))
    for name, folder in places:
        config = configs.get(name) or configs.get(None)
        is_reference = reference is not None and folder.resolve() == reference
        members.append(_member(name, folder, config, assignments.get(name, {}), request.policies, is_reference, True))
    _refuse_policies(request.policies, members)
    return members


def _identify(place: tuple[str | None, Path]) -> str:
    """The id given, the short id of a released experiment, or the folder's name."""
    name, folder = place
    if name is None:
        name = folder.resolve().name
        released = RELEASED.fullmatch(name)
        if released and released["vanilla"]:
            name = "vanilla"
        elif released:
            name = f"{released['expert'] or released['token'] or 'recursive'}-{released['recursions']}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UserError(f"{name!r} cannot be a checkpoint's id: use letters, digits, '.', '_' and '-' (--checkpoint ID=DIR).")
    return name


def _configs(request: Request, ids: Sequence[str]) -> dict[str | None, Path]:
    """--config by checkpoint id; None for one that names no id and so holds for all."""
    configs = dict(request.configs)
    for name, path in configs.items():
        if name is not None and name not in ids and not (request.reference and _identify(request.reference) == name):
            raise UserError(f"--config names the checkpoint {name}, which is not given.")
        if not path.is_file():
            raise UserError(f"There is no YAML at {path}.")
    return configs


def _member(
    name: str, folder: Path, config: Path | None, assigned: dict[str, np.ndarray], wanted: list[str] | None, is_reference: bool, observed: bool
) -> Member:
    model, checkpoint = models.load(folder, config, device="meta")
    settings = checkpoint.settings
    if assigned and not settings.routed:
        raise UserError(f"--assign gives depths to {name}, a {settings.kind} model; only expert-choice and token-choice models route.")
    for policy in assigned:
        policies.check_name(policy, settings.recursions)
    offered = policies.available(settings, assigned)
    _say_what_is_left_out(name, checkpoint)
    return Member(
        id=name,
        config=config,
        checkpoint=checkpoint,
        layers_per_recursion=model.layers_per_recursion,
        vocabulary_size=model.config.vocab_size,
        longest=model.config.max_position_embeddings,
        policies=policies.chosen(offered, [*wanted, *assigned] if wanted is not None else None) if observed else offered[:1],
        is_reference=is_reference,
        observed=observed,
    )


def _say_what_is_left_out(name: str, checkpoint: models.Checkpoint) -> None:
    settings = checkpoint.settings
    if settings.routed and not settings.opens:
        reason = "its router has no function that bounds it" if settings.weighted else "its gating does not multiply by the gate"
        say(f"{name}: no policy is run with its gate held open, since {reason}.")
    if settings.aux_router:
        say(f"{name}: sampling is aux_router; its mlp_router does nothing at inference and is ignored.")
    if checkpoint.attention_shared is False:
        say(f"{name}: its recursions do not share attention weights; each runs with its own.")


def _refuse_policies(wanted: list[str] | None, members: list[Member]) -> None:
    observed = [member for member in members if member.observed]
    for name in wanted or []:
        have = [member.id for member in observed if name in [policy.name for policy in member.policies]]
        if not have:
            raise UserError(f"No checkpoint of this run has a policy {name!r}; see --help for the policies of each kind.")
        for member in observed:
            if member.id not in have:
                say(f"{member.id}: it has no policy {name}; skipped.")


def _vocabulary(request: Request, members: list[Member]) -> Tokenizer | None:
    """The tokenizer, where one is needed or given; its vocabulary and every model's must be the same."""
    first = members[0]
    for member in members[1:]:
        if member.vocabulary_size != first.vocabulary_size:
            raise UserError(
                f"The vocabularies differ: {first.id} has {first.vocabulary_size} entries and {member.id} {member.vocabulary_size}; "
                "models are compared token by token, so give checkpoints of one tokenizer."
            )
    own = {member.id: member.checkpoint.folder for member in members if (member.checkpoint.folder / "tokenizer.json").is_file()}
    name = request.tokenizer or (None if request.array else str(next(iter(own.values()), DEFAULT_TOKENIZER)))
    if name is None:
        return None
    found = tokenizer.load(name)
    if found.size != first.vocabulary_size:
        raise UserError(f"The tokenizer {name} has {found.size} entries and {first.id} {first.vocabulary_size}; give the tokenizer that the model was trained with.")
    for member, folder in own.items():
        other = tokenizer.load(str(folder))
        if other.sha256 != found.sha256:
            raise UserError(
                f"The tokenizer {name} (vocabulary {found.sha256[:12]}) is not the one in {member}'s folder ({other.sha256[:12]}); "
                "give the tokenizer that the model was trained with."
            )
    return found


def _refuse_lengths(members: list[Member], length: int) -> None:
    if length < 2:
        raise UserError(f"A length of {length} leaves nothing to predict; use at least 2.")
    for member in members:
        if length > member.longest:
            raise UserError(f"A length of {length} is beyond what {member.id} can read ({member.longest} positions); lower --length.")


def _refuse_space(output: Path, members: list[Member], positions: int) -> None:
    """An estimate on the safe side: shards and file, uncompressed."""
    recursions = max(member.checkpoint.settings.recursions or 0 for member in members)
    row = sum(5 * len(member.policies) + 8 * recursions + 60 for member in members)
    need, free = 2 * row * positions, shutil.disk_usage(output.parent).free
    if need > free:
        raise UserError(f"{output.parent} has {free / 1e9:.1f} GB free and this run may need {need / 1e9:.1f} GB; free space, or lower --sequences or --policies.")


def _configuration(
    request: Request, machine: Machine, members: list[Member], vocabulary: Tokenizer | None, assignments: dict[str, dict[str, np.ndarray]]
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
        "tokenizer": vocabulary.sha256 if vocabulary else None,
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
        "device": machine.device.type,
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


def _tokens(request: Request, vocabulary: Tokenizer | None, length: int, count: int, work: Work) -> Tokens:
    """The array given, or the packed text: tokenised once, as a continued run finds it in the working folder."""
    if request.array:
        return text.from_array(request.array, request.length, request.sequences)
    folder = work.folder / "tokens"
    packed = text.saved(folder)
    if packed is None:
        if request.dataset:
            documents, source, revision = text.documents_in_dataset(request.dataset, request.split, request.revision)
        else:
            documents, source, revision = text.documents_in_files(request.texts), ", ".join(path.name for path in request.texts), None
        with Progress("packing text", count, "sequences") as progress:
            packed = text.pack(documents, vocabulary, length, count, folder, source=source, revision=revision, advance=progress.advance)
    if len(packed.ids) < count and request.sequences:
        say(f"The text gives {len(packed.ids)} sequences of {length} tokens; {count} were asked for.")
    return packed


def _refuse_assignments(assignments: dict[str, dict[str, np.ndarray]], members: list[Member], tokens: Tokens) -> None:
    recursions = {member.id: member.checkpoint.settings.recursions for member in members}
    for checkpoint, named in assignments.items():
        for name, depths in named.items():
            if depths.shape != tokens.ids.shape:
                raise UserError(f"The assignment {checkpoint}:{name} has shape {depths.shape}; the tokens have {tokens.ids.shape}.")
            if depths.min() < 1 or depths.max() > recursions[checkpoint]:
                sequence, position = np.argwhere((depths < 1) | (depths > recursions[checkpoint]))[0]
                raise UserError(
                    f"The assignment {checkpoint}:{name} gives depth {depths[sequence, position]} at sequence {sequence}, position {position}; "
                    f"depths of {checkpoint} are 1 to {recursions[checkpoint]}."
                )


def _observe(member: Member, tokens: Tokens, work: Work, machine: Machine, seed: int) -> None:
    """Every missing shard of a checkpoint."""
    count, length = tokens.ids.shape
    missing = list(work.missing(member.id, count, length, machine.batch_size))
    if not missing:
        return
    model, _ = models.load(member.checkpoint.folder, member.config, machine.device, PRECISIONS[machine.precision])
    with Progress(member.id, count, "sequences") as progress:
        progress.advance(count - sum(len(reach) for reach in missing))
        for reach in missing:
            batches = []
            for start in range(reach.start, reach.stop, machine.batch_size):
                batch = range(start, min(start + machine.batch_size, reach.stop))
                batches.append(observe(model, tokens.ids[batch.start : batch.stop], member.policies, batch, seed))
                progress.advance(len(batch))
            work.write(member.id, reach, {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]})


def _build(
    request: Request, machine: Machine, members: list[Member], tokens: Tokens, vocabulary: Tokenizer | None, work: Work, timings: dict[str, float]
) -> None:
    size = members[0].vocabulary_size
    entries = [(token, None, None, False) for token in range(size)]
    if vocabulary:
        entries = [(entry.token_id, entry.token, entry.bytes, entry.is_special) for entry in vocabulary.vocabulary()]
    content = writer.Content(
        ids=tokens.ids,
        documents=tokens.documents,
        vocabulary=entries,
        sources=[_source(member, work, request.seed) for member in members],
        assigned=list(dict.fromkeys(name for _, name, _ in request.assignments)),
        meta={
            "schema_version": str(schema.SCHEMA_VERSION),
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "tool_version": VERSION,
            "configuration": work.configuration(),
            "dataset": tokens.source,
            "dataset_revision": tokens.revision,
            "tokens_sha256": tokens.sha256,
            "tokenizer": vocabulary.name if vocabulary else None,
            "vocabulary_sha256": vocabulary.sha256 if vocabulary else None,
            "libraries": {"python": platform.python_version(), **work.configuration()["libraries"]},
            "device": torch.cuda.get_device_name(machine.device) if machine.device.type == "cuda" else f"cpu ({platform.machine()})",
            "precision": machine.precision,
            "batch_size": str(machine.batch_size),
            "seed": str(request.seed),
            "seconds": {stage: round(seconds, 1) for stage, seconds in timings.items()},
        },
    )
    with Progress("building the file", content.steps, "steps") as progress:
        writer.write(content, request.output, work.folder / "spill", progress.advance)


def _source(member: Member, work: Work, seed: int) -> writer.Source:
    checkpoint, settings = member.checkpoint, member.checkpoint.settings
    facts = {
        "checkpoint": member.id,
        "name": checkpoint.name,
        "kind": settings.kind,
        "recursions": settings.recursions,
        "layers_per_recursion": member.layers_per_recursion,
        "is_reference": member.is_reference,
        "attention_shared": checkpoint.attention_shared,
        "parameters": checkpoint.parameters,
        "training_tokens": settings.training_tokens,
        "weights_sha256": checkpoint.weights_sha256,
        "settings": settings.as_json(),
    }
    rows = [
        {"policy": policy.name, "gate": policy.gate, "description": policy.description, "seed": seed if policy.seeded else None}
        for policy in member.policies
    ]
    return writer.Source(facts, rows, work.shards(member.id), member.observed)


def _explained(error: BaseException, work: Work, machine: Machine) -> BaseException:
    """The error as a user can mend it, where that is what it is."""
    kept = f" What was finished stays in {work.folder}; the same command continues." if work.finished() else ""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error):
        batch = machine.batch_size
        mend = f"try --batch-size {max(1, batch // 2)}" if batch > 1 else "lower --length or use --precision bf16"
        return UserError(f"Out of memory with a batch of {batch} sequences; {mend}.")
    if getattr(error, "errno", None) in FULL or any(os.strerror(number) in str(error) for number in FULL):
        return UserError(f"The disk of {work.folder.parent} is full.{kept} Free some space first.")
    return error
