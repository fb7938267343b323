"""The models that take part in a run: each known to be whole, and all to fit each other and the tokens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from db.errors import UserError
from precompute import model as models
from precompute import policies, tokenizer
from precompute.policies import Policy
from precompute.progress import say
from precompute.request import Request
from precompute.settings import RELEASED
from precompute.text import Tokens
from precompute.tokenizer import Tokenizer

DEFAULT_TOKENIZER = "HuggingFaceTB/SmolLM-135M"


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


def gather(request: Request, assignments: dict[str, dict[str, np.ndarray]]) -> list[Member]:
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


def common_tokenizer(request: Request, members: list[Member]) -> Tokenizer | None:
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


def refuse_lengths(members: list[Member], length: int) -> None:
    if length < 2:
        raise UserError(f"A length of {length} leaves nothing to predict; use at least 2.")
    for member in members:
        if length > member.longest:
            raise UserError(f"A length of {length} is beyond what {member.id} can read ({member.longest} positions); lower --length.")


def refuse_assignments(assignments: dict[str, dict[str, np.ndarray]], members: list[Member], tokens: Tokens) -> None:
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


