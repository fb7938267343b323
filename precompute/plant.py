"""Writes a file of the real schema whose truth is known, see planted.py.

    python -m precompute plant --sequences 200 --length 256 --checkpoints 4 --truth mixed --output planted.duckdb
"""

import argparse
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

from db import schema, writer
from db.errors import UserError
from precompute import planted
from precompute.progress import Progress
from precompute.work import Work

VOCABULARY = 49_152
MODELS = (("expert-3", "expert", 3), ("token-3", "token", 3), ("expert-2", "expert", 2), ("expert-4", "expert", 4))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `plant`."""
    add = parser.add_argument
    add("--sequences", type=int, default=200, help="default: %(default)s")
    add("--length", type=int, default=256, help="tokens of a sequence (default: %(default)s)")
    add("--checkpoints", type=int, default=4, help="expert-3, token-3, expert-2, expert-4, and again with numbers (default: %(default)s)")
    add("--truth", choices=planted.TRUTHS, default="mixed", help="what the measures should find (default: %(default)s)")
    add("--vocabulary", type=int, default=VOCABULARY, help="token ids (default: %(default)s)")
    add("--seed", type=int, default=0, help="default: %(default)s")
    add("--output", metavar="FILE.duckdb", type=Path, required=True)
    add("--force", action="store_true", help="replace the output where it exists")


def run(args: argparse.Namespace) -> Path:
    """Writes the file and returns its path. Raises UserError for sizes below 1 and an output that exists without --force."""
    for name, least in (("sequences", 1), ("length", 2), ("checkpoints", 1), ("vocabulary", 2)):
        if getattr(args, name) < least:
            raise UserError(f"--{name} is {getattr(args, name)}; it should be at least {least}.")
    if args.output.exists() and not args.force:
        raise UserError(f"{args.output} exists; give another --output, or --force to replace it.")
    work = Work(args.output.with_name(f".{args.output.name}.work"))
    work.remove()
    try:
        _write(args, work)
    finally:
        work.remove()
    return args.output


def _write(args: argparse.Namespace, work: Work) -> None:
    ids, documents = planted.text(args.seed, args.sequences, args.length, args.vocabulary)
    models = [_model(number) for number in range(args.checkpoints)]
    reaches = list(work.missing("reference", args.sequences, args.length, 1))
    with Progress("planting", len(reaches) * (len(models) + 1), "shards") as progress:
        for reach in reaches:
            behind = planted.latents(args.seed, reach.start, ids[reach.start : reach.stop], documents[reach.start : reach.stop], args.truth)
            work.write("reference", reach, planted.scored_columns(behind))
            progress.advance()
            for number, (checkpoint, kind, recursions) in enumerate(models):
                names = policies(kind, recursions)
                work.write(checkpoint, reach, planted.observations(args.seed + number, reach.start, behind, args.truth, kind, recursions, names))
                progress.advance()
    content = writer.Content(
        ids=ids,
        documents=documents,
        vocabulary=[_entry(token) for token in range(args.vocabulary)],
        sources=[_reference(work), *(_source(work, *model, args.truth, args.seed) for model in models)],
        assigned=[],
        meta=_meta(args),
    )
    spill = work.folder / "spill"
    with Progress("building the file", content.steps, "steps") as progress:
        writer.write(content, args.output, spill, progress.advance)
    shutil.rmtree(spill, ignore_errors=True)


def policies(kind: str, recursions: int) -> list[str]:
    """The policies that a kind runs, as the model pass names them."""
    missing = ("shuffled",) if kind == "expert" else ("random", "inverted")
    return [name for name in schema.standard_policies(recursions) if name.removesuffix("_open") not in missing]


def _model(number: int) -> tuple[str, str, int]:
    again, place = divmod(number, len(MODELS))
    checkpoint, kind, recursions = MODELS[place]
    return (f"{checkpoint}-{again + 1}" if again else checkpoint), kind, recursions


def _entry(token: int) -> tuple[int, str, bytes, bool]:
    shown = "<|endoftext|>" if token == 0 else f" w{token}"
    return token, shown, shown.encode(), token == 0


def _reference(work: Work) -> writer.Source:
    return writer.Source(_facts("reference", "vanilla", None, "planted reference", True), [], work.shards("reference"), observed=False)


def _source(work: Work, checkpoint: str, kind: str, recursions: int, truth: str, seed: int) -> writer.Source:
    rows = [
        {"policy": name, "gate": "open" if name.endswith("_open") else "router", "description": "planted", "seed": seed}
        for name in policies(kind, recursions)
    ]
    return writer.Source(_facts(checkpoint, kind, recursions, f"planted {truth}", False), rows, work.shards(checkpoint))


def _facts(checkpoint: str, kind: str, recursions: int | None, name: str, is_reference: bool) -> dict:
    settings = {"router_function": "softmax"} if kind == "token" else {}
    if kind == "expert":
        settings = {"router_function": "sigmoid", "capacities": [(recursions - r) / recursions for r in range(recursions)]}
    return {
        "checkpoint": checkpoint,
        "name": name,
        "kind": kind,
        "recursions": recursions,
        "layers_per_recursion": 30 // recursions if recursions else None,
        "is_reference": is_reference,
        "attention_shared": True if recursions else None,
        "parameters": None,
        "training_tokens": None,
        "weights_sha256": None,
        "settings": json.dumps(settings, sort_keys=True),
    }


def _meta(args: argparse.Namespace) -> dict[str, str | None]:
    return {
        "schema_version": str(schema.SCHEMA_VERSION),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "dataset": f"planted: {args.truth}",
        "tokenizer": None,
        "seed": str(args.seed),
    }
