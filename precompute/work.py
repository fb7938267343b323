"""The working folder beside an output: tokens and finished shards, so that a killed run continues.

A shard is one checkpoint over a range of sequences, a Parquet file with its SHA-256 beside it. Both
are written under another name and moved into place, so a shard is whole or absent.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from db.errors import UserError
from precompute.progress import say

SHARD_POSITIONS = 65_536


@dataclass(frozen=True)
class Work:
    """The folder of one run. `configuration` is what its results depend on."""

    folder: Path

    def open(self, configuration: dict[str, Any]) -> None:
        """Starts the run, or continues the one found here.

        Raises UserError naming what differs where the folder belongs to another configuration.
        """
        path = self.folder / "run.json"
        if path.exists():
            earlier = self.configuration()
            changed = sorted(key for key in {*earlier, *configuration} if earlier.get(key) != configuration.get(key))
            if changed:
                raise UserError(
                    f"{self.folder} holds an unfinished run with another {', '.join(changed)}: "
                    "repeat that command to finish it, or delete the folder to start anew."
                )
            say(f"Continuing the unfinished run in {self.folder}.")
            return
        _write_aside(path, json.dumps(configuration, indent=1, sort_keys=True).encode())

    def configuration(self) -> dict[str, Any]:
        """What the run was opened with."""
        return json.loads((self.folder / "run.json").read_text("utf-8"))

    def shards(self, checkpoint: str) -> list[Path]:
        """The finished shards of a checkpoint, in the order of their sequences."""
        return sorted((self.folder / "shards" / checkpoint).glob("*.parquet"))

    def finished(self) -> bool:
        """Whether any shard is finished."""
        return any((self.folder / "shards").glob("*/*.parquet"))

    def missing(self, checkpoint: str, sequences: int, length: int, batch: int) -> Iterator[range]:
        """The ranges of sequences of a checkpoint that are still to be run, whole batches each."""
        batches = max(1, SHARD_POSITIONS // (batch * length))
        for start in range(0, sequences, batches * batch):
            reach = range(start, min(start + batches * batch, sequences))
            if not self._holds(self._path(checkpoint, reach)):
                yield reach

    def write(self, checkpoint: str, reach: range, columns: dict[str, np.ndarray]) -> None:
        """One shard: `columns` [len(reach), T] become rows with their sequence and position; NaN becomes NULL."""
        length = next(iter(columns.values())).shape[1]
        rows = {
            "sequence": np.repeat(np.arange(reach.start, reach.stop, dtype=np.int32), length),
            "position": np.tile(np.arange(length, dtype=np.int32), len(reach)),
            **{name: values.reshape(-1) for name, values in columns.items()},
        }
        table = pa.table({name: pa.array(values, from_pandas=True) for name, values in rows.items()})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        path = self._path(checkpoint, reach)
        _write_aside(path, content)
        _write_aside(path.with_suffix(".sha256"), hashlib.sha256(content).hexdigest().encode())

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, checkpoint: str, reach: range) -> Path:
        return self.folder / "shards" / checkpoint / f"{reach.start:08d}-{reach.stop:08d}.parquet"

    def _holds(self, path: Path) -> bool:
        digest = path.with_suffix(".sha256")
        if not path.exists() or not digest.exists():
            return False
        if hashlib.sha256(path.read_bytes()).hexdigest() == digest.read_text("ascii", errors="replace"):
            return True
        say(f"Shard {path} is damaged; its sequences are run again.")
        return False


def _write_aside(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".part")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
