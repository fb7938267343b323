"""The study in one command, for who has the released checkpoints: five models, the held-out set, every policy, the report.

    python -m precompute reproduce --checkpoints checkpoints
"""

import argparse
from pathlib import Path

import db
from db import published, terminal
from db.errors import UserError
from db.report import report
from precompute.progress import say
from precompute.request import Request
from precompute.run import run as run_request

OUTPUT = Path("db/reproduction.duckdb")
DRIVE = "1pYKJOu2aBGC-jgoWbfP6T_vqEYtUVxa4"
REFERENCE = "vanilla"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `reproduce`: the study's own choices are the defaults."""
    add = parser.add_argument
    add("--checkpoints", metavar="DIR", type=Path, required=True, help="folder of the released checkpoints' folders, each named as its experiment")
    add("--output", metavar="FILE.duckdb", type=Path, default=OUTPUT, help=f"default: {OUTPUT}")
    add("--force", action="store_true", help="replace the output where it exists")
    add("--dataset", metavar="NAME", default=published.DATASET, help=f"default: {published.DATASET}")
    add("--split", help="split of the data set")
    add("--revision", help="revision of the data set")
    add("--tokenizer", metavar="NAME|DIR|FILE", default=published.TOKENIZER, help=f"default: {published.TOKENIZER}")
    add("--length", type=int, default=published.LENGTH, help=f"default: {published.LENGTH}")
    add("--sequences", type=int, default=published.SEQUENCES, help=f"default: {published.SEQUENCES}")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    add("--precision", choices=["auto", "fp32", "bf16"], default="auto", help="default: bf16 on a GPU, fp32 on a CPU")
    add("--batch-size", type=int, help="sequences run at once")
    add("--seed", type=int, default=0, help="seed of random and shuffled (default: 0)")


def run(args: argparse.Namespace) -> Path | None:
    """Runs the study, prints its report and returns the path of the file; None where this is not rank 0.

    Raises UserError where no released checkpoint is there, and as `run` does.
    """
    found = folders(args.checkpoints)
    missing = [f"{name} ({experiment})" for name, experiment in published.EXPERIMENTS.items() if name not in found]
    absent = f"Missing under {args.checkpoints}: {'; '.join(missing)}. gdown --folder {DRIVE} fetches them."
    if not found:
        raise UserError(absent)
    if missing:
        say(absent)
    path = run_request(request(args, found))
    if path is None:
        return None
    print(terminal.text(report(db.open(str(path)))))
    if missing:
        print(absent)
    return path


def folders(place: Path) -> dict[str, Path]:
    """The released checkpoints' folders in `place` or in a folder of it, by their short ids. Raises UserError where it is no folder."""
    if not place.is_dir():
        raise UserError(f"No folder at {place}; give the one that holds the checkpoints' folders.")
    found = {name: [*place.glob(experiment), *sorted(place.glob(f"*/{experiment}"))] for name, experiment in published.EXPERIMENTS.items()}
    return {name: paths[0] for name, paths in found.items() if paths}


def request(args: argparse.Namespace, found: dict[str, Path]) -> Request:
    """Every checkpoint there is under all policies; the vanilla one is the reference, where it is there."""
    return Request(
        output=args.output,
        checkpoints=[(name, folder) for name, folder in found.items()],
        reference=(REFERENCE, found[REFERENCE]) if REFERENCE in found else None,
        dataset=args.dataset,
        split=args.split,
        revision=args.revision,
        tokenizer=args.tokenizer,
        length=args.length,
        sequences=args.sequences,
        device=args.device,
        precision=args.precision,
        batch_size=args.batch_size,
        seed=args.seed,
        force=args.force,
    )
