"""The demo: the shipped tiny suite over its held-out text, under every policy.

    python -m precompute demo
"""

import argparse
import json
from pathlib import Path

from precompute.recipe import LENGTH
from precompute.run import Request
from precompute.run import run as run_request

SUITE = Path(__file__).parent / "suite"
OUTPUT = Path("db/demo.duckdb")
ORDER = ("vanilla", "expert-2", "expert-3", "expert-4", "token-3")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `demo`."""
    parser.add_argument("--output", metavar="FILE.duckdb", type=Path, default=OUTPUT, help=f"default: {OUTPUT}, which is replaced where it exists")
    parser.add_argument("--suite", metavar="DIR", type=Path, default=SUITE, help="a suite that train-demo made (default: the shipped one)")
    parser.add_argument("--force", action="store_true", help="replace another output where it exists")


def run(args: argparse.Namespace) -> Path:
    """Builds the demo's file and returns its path. Raises UserError where the output cannot be written."""
    return run_request(request(args.output, args.suite, args.force))


def request(output: Path, suite: Path = SUITE, force: bool = False) -> Request:
    """All models of a suite that are trained, over all of its held-out text, the vanilla one being the reference."""
    predictions = json.loads((suite / "baselines.json").read_text("utf-8"))["predictions"]
    return Request(
        output=output,
        checkpoints=[(model, suite / model) for model in ORDER if (suite / model / "model.safetensors").exists()],
        reference=("vanilla", suite / "vanilla"),
        texts=[suite / "held-out.txt.xz"],
        tokenizer=str(suite / "tokenizer.json"),
        length=LENGTH,
        sequences=predictions // (LENGTH - 1),
        force=force or output == OUTPUT,
    )
