"""The working folder beside an output: tokens and finished shards, so that a killed run continues.

A shard is one checkpoint over a range of sequences, a Parquet file with its SHA-256 beside it. Both
are written under another name and moved into place, so a shard is whole or absent. Several processes
may fill the folder at once: each claims a range before it runs it, and the claim of a process that
died is free again.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from db.errors import UserError
from precompute.locks import Lock
from precompute.progress import say

SHARD_POSITIONS = 16_384  # at most as many are lost when a run is killed
PATIENCE = 60.0  # seconds that another rank waits for rank 0 to start
MOMENT = 0.05  # seconds between two looks at what another process does


@dataclass(frozen=True)
class Work:
    """The folder of one run."""

    folder: Path

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Holds the folder, as rank 0 does throughout a run; leaves none where no run was opened in it.

        Raises UserError where another run holds it, or where it is somebody's folder of another kind.
        """
        self._refuse_foreign()
        self.folder.mkdir(exist_ok=True)
        lock = Lock(self.folder / "lock")
        if not _taken_soon(lock):
            raise UserError(f"Another run is writing into {self.folder}; wait for its end, or name another --output.")
        try:
            yield
        finally:
            if lock.is_held() and not self.opened():
                shutil.rmtree(self.folder, ignore_errors=True)
            lock.release()

    @contextmanager
    def helping(self, is_over: Callable[[bool], bool]) -> Iterator[bool]:
        """Takes part in the run that rank 0 leads, once it is opened. False where nothing is left to run.

        `is_over(late)` says, while no rank 0 is there, whether it has come and gone; `late` is True
        when it was waited for in vain. Raises UserError where it does not come.
        """
        waited_since = time.monotonic()
        while not (self.opened() and self.is_led()):
            late = time.monotonic() - waited_since > PATIENCE
            if not self.is_led() and is_over(late):
                yield False
                return
            if late and not self.is_led():
                raise UserError(f"No rank 0 runs into {self.folder}; start every rank with the same command, as torchrun does.")
            time.sleep(MOMENT)
        lock = Lock(self.folder / "helpers")
        try:
            yield lock.take(wait=False, shared=True)
        finally:
            lock.release()

    def is_led(self) -> bool:
        """Whether a rank 0 holds the folder."""
        lock = Lock(self.folder / "lock")
        try:
            return not lock.take(wait=False, shared=True)
        except FileNotFoundError:
            return False
        finally:
            lock.release()

    @contextmanager
    def alone(self, wait: bool) -> Iterator[bool]:
        """Whether no other rank works in the folder, and none is let in meanwhile; with `wait`, once that is so."""
        lock = Lock(self.folder / "helpers")
        try:
            yield lock.take(wait)
        finally:
            lock.release()

    def size(self) -> int:
        """Bytes of the finished shards."""
        return sum(path.stat().st_size for path in self.folder.glob("shards/*/*.parquet"))

    def opened(self) -> bool:
        """Whether a run was opened here."""
        return (self.folder / "run.json").is_file()

    def open(self, configuration: dict[str, Any]) -> None:
        """Starts the run, or continues the one found here. `configuration` is what its results depend on.

        Raises UserError naming what differs where the folder belongs to another configuration.
        """
        if not self.opened() or not self.holds_results():
            _write_aside(self.folder / "run.json", json.dumps(configuration, indent=1, sort_keys=True).encode())
            return
        self.refuse_another(configuration)
        say(f"Continuing the unfinished run in {self.folder}.")

    def refuse_another(self, configuration: dict[str, Any]) -> None:
        """Raises UserError naming what differs where the run was opened with another configuration."""
        changed = "; ".join(changes(self.configuration(), configuration))
        if changed:
            raise UserError(
                f"{self.folder} holds an unfinished run with another {changed}. Repeat that command to finish it, or delete the folder to start anew."
            )

    def holds_results(self) -> bool:
        """Whether anything is there that a run can continue from."""
        return self.finished() or (self.folder / "tokens" / "packed.json").is_file()

    def configuration(self) -> dict[str, Any]:
        """What the run was opened with. Raises UserError where that cannot be read."""
        path = self.folder / "run.json"
        try:
            return json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read ({error}); delete the folder {self.folder} to start anew.") from error

    def shards(self, checkpoint: str) -> list[Path]:
        """The finished shards of a checkpoint, in the order of their sequences."""
        return sorted((self.folder / "shards" / checkpoint).glob("*.parquet"))

    def finished(self) -> bool:
        """Whether any shard is finished."""
        return any((self.folder / "shards").glob("*/*.parquet"))

    def missing(self, checkpoint: str, sequences: int, length: int, batch: int) -> list[range]:
        """The ranges of sequences of a checkpoint that are still to be run, whole batches each; says which shards are damaged."""
        step = batch * max(1, SHARD_POSITIONS // (batch * length))
        ranges = [range(start, min(start + step, sequences)) for start in range(0, sequences, step)]
        found = [reach for reach in ranges if not self._holds(self._path(checkpoint, reach))]
        for path in (self._path(checkpoint, reach) for reach in found):
            if path.exists() and path.with_suffix(".sha256").exists():
                say(f"Shard {path} is damaged; its sequences are run again.")
        return found

    @contextmanager
    def claim(self, checkpoint: str, reach: range, wait: bool) -> Iterator[bool]:
        """Whether this process is to run a range: False where another is at it or has finished it.

        With `wait` only the latter: another process's claim is waited for, until it finishes or dies.
        """
        path = self._path(checkpoint, reach)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(path.with_suffix(".claim"))
        try:
            yield lock.take(wait) and not self._holds(path)
        finally:
            lock.release()

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

    def discard(self) -> None:
        """Removes the folder, unless another rank works in it."""
        if self.folder.is_dir():
            with self.alone(wait=False) as alone:
                if alone:
                    self.remove()

    def remove(self) -> None:
        """Removes the folder, what says that a run was opened last: until then it counts as one."""
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, checkpoint: str, reach: range) -> Path:
        return self.folder / "shards" / checkpoint / f"{reach.start:08d}-{reach.stop:08d}.parquet"

    def _holds(self, path: Path) -> bool:
        digest = path.with_suffix(".sha256")
        if not path.exists() or not digest.exists():
            return False
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest.read_text("ascii", errors="replace")

    def _refuse_foreign(self) -> None:
        """A folder of this name without a run in it holds at most what a run killed at its start leaves."""
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"{self.folder} is a file; the run needs a folder of that name, so move it away.")
        found = [path.name for path in self.folder.glob("*")]
        if not self.opened() and any(name not in ("lock", "helpers") and not name.endswith(".part") for name in found):
            raise UserError(f"{self.folder} holds {sorted(found)[0]} and no run; the run needs a folder of that name, so move it away.")


def changes(earlier: dict[str, Any], now: dict[str, Any], place: str = "") -> Iterator[str]:
    """Where two configurations differ, with both values: "seed (0, now 7)"."""
    for key in sorted({*earlier, *now}):
        old, new = earlier.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from changes(old, new, f"{place}{key} ")
        elif old != new:
            yield f"{place}{key} ({_shown(old)}, now {_shown(new)})"


def _shown(value: Any) -> str:
    text = "none" if value is None else "one" if isinstance(value, dict) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _taken_soon(lock: Lock) -> bool:
    """Tries for a second: a run that was just stopped may still hold it, and waiting ranks touch it."""
    tries = 20
    while not (taken := lock.take(wait=False)) and tries:
        time.sleep(MOMENT)
        tries -= 1
    return taken


def _write_aside(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
