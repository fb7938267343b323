"""What a run is asked for, as the command line or another command says it."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from db.errors import UserError
from precompute import text

DEFAULT_LENGTH, DEFAULT_SEQUENCES = 2_048, 1_000


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

    def extent(self) -> tuple[int, int]:
        """How many sequences of which length are asked for."""
        if self.array is None:
            return self.sequences or DEFAULT_SEQUENCES, self.length or DEFAULT_LENGTH
        count, length = text.integers(self.array, "token array").shape
        return min(count, self.sequences or count), length

    def assigned(self) -> dict[str, dict[str, np.ndarray]]:
        """checkpoint id -> policy name -> depths [sequences, T]."""
        found: dict[str, dict[str, np.ndarray]] = {}
        for checkpoint, name, path in self.assignments:
            if name in found.setdefault(checkpoint, {}):
                raise UserError(f"--assign names {checkpoint}:{name} twice.")
            found[checkpoint][name] = text.integers(path, "assignment")
        return found
