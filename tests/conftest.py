"""Fixtures shared by all tests: the golden checkpoints and a file that the real command wrote from them."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from precompute.command import main

torch.set_num_threads(1)

GOLDEN = Path(__file__).parent / "golden"
SEQUENCES, LENGTH, VOCABULARY = 12, 48, 211


def token_array(sequences: int = SEQUENCES, length: int = LENGTH, seed: int = 0) -> np.ndarray:
    """Random ids with frequencies that fall as in text, [sequences, length] int32."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    return np.random.default_rng(seed).choice(VOCABULARY, (sequences, length), p=weights / weights.sum()).astype(np.int32)


@pytest.fixture(scope="session")
def tokens_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.npy"
    np.save(path, token_array())
    return path


def write(folder: Path, tokens_file: Path, names: tuple[str, ...]) -> Path:
    """The file of some golden checkpoints under all policies and one assignment, as the command writes it."""
    depths = np.random.default_rng(1).integers(1, 4, (SEQUENCES, LENGTH)).astype(np.uint8)
    np.save(folder / "depths.npy", depths)
    checkpoints = [f"{name}={GOLDEN / name.replace('-', '_rec')}" for name in names]
    arguments = ["run", "--reference", str(GOLDEN / "vanilla"), "--checkpoint", *checkpoints, "--tokens", str(tokens_file)]
    arguments += ["--assign", f"expert-3:mine={folder / 'depths.npy'}", "--batch-size", "4", "--output", str(folder / "golden.duckdb")]
    assert main(arguments) == 0
    return folder / "golden.duckdb"


@pytest.fixture(scope="session")
def written_file(tmp_path_factory, tokens_file) -> Path:
    """All golden checkpoints in one file."""
    return write(tmp_path_factory.mktemp("written"), tokens_file, ("vanilla", "expert-2", "expert-3", "expert-4", "token-3"))


@pytest.fixture(scope="session")
def pair_file(tmp_path_factory, tokens_file) -> Path:
    """expert-3 and token-3 alone, which is quicker to check."""
    return write(tmp_path_factory.mktemp("pair"), tokens_file, ("expert-3", "token-3"))


@pytest.fixture
def altered_file(pair_file, tmp_path) -> Path:
    """A copy of the pair's file that a test may alter."""
    return Path(shutil.copy(pair_file, tmp_path / "study.duckdb"))
