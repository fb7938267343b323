"""The run command: checkpoints and held-out text -> one DuckDB file.

Everything that can be refused is refused first; then each checkpoint runs shard by shard in a
working folder beside the output, by one process or several, and the file is built from the shards.
"""

import errno
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from db import schema, writer
from db.errors import UserError
from db.query import named
from precompute import VERSION, machine, members, plan, ranks, text
from precompute import model as models
from precompute.members import Member
from precompute.observe import observe
from precompute.plan import Plan
from precompute.progress import Progress, say
from precompute.request import Request
from precompute.text import Tokens
from precompute.work import MOMENT, Work

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run(request: Request) -> Path | None:
    """Carries out a request and returns the path of the finished file, or None where this is not rank 0.

    Raises UserError for whatever in the request cannot be used. A failed run leaves no output; what
    it finished stays in the working folder, from which the same request continues.
    """
    started = time.monotonic()
    _refuse_place(request.output)
    work = Work(request.output.with_name(request.output.name + ".work"))
    if not ranks.leads():
        with work.helping(lambda late: request.output.exists() and (late or not request.force)) as needed:
            if needed:
                _help(plan.make(request, work), work)
        return None
    with work.leading():
        finished = request.output.exists() and not request.force
        if finished and not work.opened():
            raise _exists(request.output)
        found = plan.make(request, work)
        if finished:
            _refuse_another(found, work)
        else:
            _lead(found, work, started)
        work.remove()
    return request.output


def _refuse_place(output: Path) -> None:
    if output.is_dir():
        raise UserError(f"The output {output} is a folder; name a .duckdb file in it.")
    if not output.parent.is_dir():
        raise UserError(f"There is no folder {output.parent} to write {output.name} into; make it first.")
    probe = output.with_name(f".{output.name}.{os.getpid()}.probe")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"The folder {output.parent} cannot be written to: {error.strerror}.") from error


def _exists(output: Path) -> UserError:
    return UserError(f"The output {output} exists; add --force to replace it, or name another.")


def _refuse_another(found: Plan, work: Work) -> None:
    """Raises UserError unless the output is this plan's, written by a run that was killed before it had cleared up."""
    if not _written_as(found.request.output) == work.configuration() == found.configuration:
        raise _exists(found.request.output)


def _written_as(output: Path) -> dict[str, Any] | None:
    """The configuration that a finished file was written from; None where it is no such file."""
    try:
        with duckdb.connect(str(output), read_only=True) as con:
            return json.loads(dict(con.execute(named()["check_facts"].sql).fetchall())["configuration"])
    except (duckdb.Error, KeyError, ValueError):
        return None


def _lead(found: Plan, work: Work, started: float) -> None:
    """The whole run but for what other ranks take."""
    work.open(found.configuration)
    try:
        tokens = _tokens(found, work)
        text.check_range(tokens, found.members[0].vocabulary_size)
        members.refuse_assignments(found.request.assigned(), found.members, tokens)
        timings = {"preparing": time.monotonic() - started}
        for member in found.members:
            began = time.monotonic()
            _observe(found, member, tokens, work)
            timings[member.id] = time.monotonic() - began
        for member in found.members:
            _observe(found, member, tokens, work, wait=True)
        with work.alone(wait=True):
            _build(found, tokens, work, timings)
    except BaseException as error:
        explained = _explained(error, work, found.machine.batch_size)
        if isinstance(explained, UserError) and not work.finished():
            work.discard()
        raise explained from error


def _help(found: Plan, work: Work) -> None:
    """What another rank does: the ranges that nobody else has taken."""
    try:
        work.refuse_another(found.configuration)
        tokens = _packed(found, work)
        ran = sum(_observe(found, member, tokens, work) for member in found.members) if tokens else 0
    except BaseException as error:
        raise _explained(error, work, found.machine.batch_size) from error
    print(f"Rank {ranks.rank()} ran {ran} sequences.", file=sys.stderr)


def _tokens(found: Plan, work: Work) -> Tokens:
    """The array given, or the packed text: tokenised once, as a continued run finds it in the working folder."""
    request, length, count = found.request, found.length, found.sequences
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
            packed = text.pack(documents, found.tokenizer, length, count, folder, source=source, revision=revision, advance=progress.advance)
    if len(packed.ids) < count and request.sequences:
        say(f"The text gives {len(packed.ids)} sequences of {length} tokens; {count} were asked for.")
    return packed


def _packed(found: Plan, work: Work) -> Tokens | None:
    """The tokens that rank 0 packs, once it has; None where it is gone before that."""
    if found.request.array:
        return _tokens(found, work)
    while (tokens := text.saved(work.folder / "tokens")) is None and work.is_led():
        time.sleep(MOMENT)
    return tokens


def _observe(found: Plan, member: Member, tokens: Tokens, work: Work, wait: bool = False) -> int:
    """Runs the missing shards of a checkpoint that nobody else is at; with `wait`, also what others leave undone.

    Returns how many sequences it ran.
    """
    count, length = tokens.ids.shape
    missing = work.missing(member.id, count, length, found.machine.batch_size)
    if not missing:
        return 0
    model, ran = None, 0
    with Progress(member.id, count, "sequences") as progress:
        progress.advance(count - sum(len(reach) for reach in missing))
        for reach in missing:
            with work.claim(member.id, reach, wait) as mine:
                if mine:
                    model = model or models.load(member.checkpoint.folder, member.config, found.machine.device, found.machine.dtype)[0]
                    work.write(member.id, reach, _columns(model, found, member, tokens, reach, progress))
                    ran += len(reach)
                else:
                    progress.advance(len(reach))
    return ran


def _columns(model: models.Model, found: Plan, member: Member, tokens: Tokens, reach: range, progress: Progress) -> dict[str, np.ndarray]:
    """The columns of a range of sequences, run batch by batch, each [len(reach), T]."""
    size, batches = found.machine.batch_size, []
    ranges = [range(start, min(start + size, reach.stop)) for start in range(reach.start, reach.stop, size)]
    with machine.side_by_side(found.machine, model) as each:
        for columns in each(lambda batch: observe(model, tokens.ids[batch.start : batch.stop], member.policies, batch, found.request.seed), ranges):
            batches.append(columns)
            progress.advance(len(columns["loss_router"]))
    return {name: np.concatenate([columns[name] for columns in batches]) for name in batches[0]}


def _build(found: Plan, tokens: Tokens, work: Work, timings: dict[str, float]) -> None:
    request, tokenizer = found.request, found.tokenizer
    entries = [(token, None, None, False) for token in range(found.members[0].vocabulary_size)]
    if tokenizer:
        entries = [(entry.token_id, entry.token, entry.bytes, entry.is_special) for entry in tokenizer.vocabulary()]
    content = writer.Content(
        ids=tokens.ids,
        documents=tokens.documents,
        vocabulary=entries,
        sources=[_source(member, work, request.seed) for member in found.members],
        assigned=list(dict.fromkeys(name for _, name, _ in request.assignments)),
        meta={
            "schema_version": str(schema.SCHEMA_VERSION),
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "tool_version": VERSION,
            "configuration": found.configuration,
            "dataset": tokens.source,
            "dataset_revision": tokens.revision,
            "tokens_sha256": tokens.sha256,
            "tokenizer": tokenizer.name if tokenizer else None,
            "vocabulary_sha256": tokenizer.sha256 if tokenizer else None,
            "libraries": {"python": platform.python_version(), **found.configuration["libraries"]},
            "device": found.machine.name,
            "precision": found.machine.precision,
            "batch_size": str(found.machine.batch_size),
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


def _explained(error: BaseException, work: Work, batch: int) -> BaseException:
    """The error as a user can mend it, where that is what it is."""
    kept = f" What was finished stays in {work.folder}; the same command continues." if work.finished() else ""
    if machine.is_out_of_memory(error):
        return machine.out_of_memory(batch)
    if getattr(error, "errno", None) in FULL or any(os.strerror(number) in str(error) for number in FULL):
        return UserError(f"The disk of {work.folder.parent} is full.{kept} Free some space first.")
    if isinstance(error, (OSError, duckdb.IOException)):
        return UserError(f"{work.folder.parent} cannot be written to or read from ({error}).{kept}")
    return error
