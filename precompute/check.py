"""The check command: a file against its contract, and against the checkpoints it came from."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import torch

from db.check import findings
from db.errors import UserError
from db.query import named
from precompute import model as models
from precompute import policies, weights
from precompute.observe import observe
from precompute.progress import say

NATS = 2e-5
SAMPLES = 2  # batches of sequences run again


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.duckdb")
    parser.add_argument("--checkpoints", type=Path, metavar="DIR", help="folder of the checkpoint folders: compares weight hashes and runs router again on a sample")
    parser.add_argument("--config", type=Path, metavar="YAML", help="the experiment's YAML of checkpoints whose folder holds none")


def run(args: argparse.Namespace) -> int:
    """Prints every finding; 0 where there is none, else 1. Raises UserError where the file cannot be read."""
    if not args.file.is_file():
        raise UserError(f"No database at {args.file}. Build one: python -m precompute demo --output {args.file}")
    try:
        found = list(findings(args.file))
        if not found and args.checkpoints:
            found = list(checkpoint_findings(args.file, args.checkpoints, args.config))
    except duckdb.Error as error:
        found = [f"the file cannot be read through: {str(error).splitlines()[0]}"]
    for finding in found:
        say(f"FAILED {finding}")
    if not found:
        say("Every check holds: tables, keys, NULL rules, ranges, depth counts, aggregates, digests" + (", checkpoints." if args.checkpoints else "."))
        print(args.file)
    return 1 if found else 0


def checkpoint_findings(path: Path, folder: Path, config: Path | None) -> Iterator[str]:
    """Where the checkpoints under `folder` are not those of the file, or give other values on a sample."""
    if not folder.is_dir():
        raise UserError(f"No folder at {folder}; give the folder that holds the checkpoint folders.")
    hashes = {weights.sha256(weights.weight_file(place)): place for place in [folder, *sorted(folder.iterdir())] if _holds_weights(place)}
    with duckdb.connect(str(path), read_only=True) as con:
        run_as = {key: value for key, value in con.execute(named()["check_facts"].sql).fetchall()}
        for row in con.execute(named()["check_checkpoints"].sql).fetchall():
            checkpoint, name, sha256, observed = row
            if sha256 not in hashes:
                yield f"table checkpoints, checkpoint {checkpoint}: no folder under {folder} holds weights with SHA-256 {sha256} ({name})"
            elif observed:
                say(f"{checkpoint}: weights are those of {hashes[sha256]}; running router on a sample.")
                yield from _other_values(con, checkpoint, hashes[sha256], config, run_as)


def _holds_weights(place: Path) -> bool:
    return place.is_dir() and any((place / name).is_file() for name in ("model.safetensors", "pytorch_model.bin"))


def _other_values(con: duckdb.DuckDBPyConnection, checkpoint: str, folder: Path, config: Path | None, run_as: dict[str, str]) -> Iterator[str]:
    """Runs the first batches again, as they were run, and compares depth and loss."""
    device = "cuda" if torch.cuda.is_available() and not run_as["device"].startswith("cpu") else "cpu"
    model, _ = models.load(folder, config, device, {"fp32": torch.float32, "bf16": torch.bfloat16}[run_as["precision"]])
    router = policies.available(model.settings)[:1]
    batch = int(run_as["batch_size"])
    # bf16 keeps about three digits: its results repeat on the same device only.
    bound = NATS if run_as["precision"] == "fp32" else 0.05
    for start in range(0, batch * SAMPLES, batch):
        rows = con.execute(named()["check_sample"].sql, {"checkpoint": checkpoint, "first": start, "last": start + batch - 1}).df()
        if rows.empty:
            return
        sequences = rows["sequence"].unique().tolist()
        shape = (len(sequences), -1)
        found = observe(model, rows["token_id"].to_numpy().reshape(shape), router, sequences, seed=0)
        yield from _differences(rows, found, checkpoint, bound, shape)


def _differences(rows: Any, found: dict[str, np.ndarray], checkpoint: str, bound: float, shape: tuple[int, int]) -> Iterator[str]:
    stored = {name: rows[name].to_numpy(float, na_value=np.nan).reshape(shape) for name in ("depth", "loss_router", "entropy")}
    allowed = {"depth": 0.0, "loss_router": bound, "entropy": bound}
    for name, values in found.items():
        if name not in stored:
            continue
        wrong = np.argwhere(np.abs(stored[name] - values) > allowed[name])
        for row, position in wrong[:1]:
            sequence = rows["sequence"].unique()[row]
            yield (
                f"table observations, checkpoint {checkpoint}, sequence {sequence}, position {position}: {name} is {stored[name][row, position]:g} "
                f"in the file and {values[row, position]:g} when run again ({len(wrong)} of {values.size} positions of the batch differ)"
            )

