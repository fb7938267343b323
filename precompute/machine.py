"""Where and how the models run: the device, the precision, and the batch that fits."""

import platform
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from db.errors import UserError
from precompute import model as models
from precompute import ranks
from precompute.members import Member
from precompute.observe import observe
from precompute.progress import say

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
CPU_TOKENS = 2_048  # of a batch: more of them are no faster
GPU_TOKENS = 32_768  # at most: a whole batch is lost when a run is killed
SMALL = 512  # hidden size under which a matrix product is too short to be divided among threads


@dataclass(frozen=True)
class Machine:
    """A device, a precision (a key of PRECISIONS) and the sequences run at once, None until they are known."""

    device: torch.device
    precision: str
    batch_size: int | None = None

    @property
    def name(self) -> str:
        """The device as a reader knows it; results repeat bit by bit only on its like."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"cpu ({platform.machine()})"

    @property
    def dtype(self) -> torch.dtype:
        return PRECISIONS[self.precision]


def choose(device: str, precision: str) -> Machine:
    """The machine for --device and --precision; ranks of one computer take a GPU each. Raises UserError where there is none."""
    name = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"The device {name!r} is unknown; try cpu, cuda or cuda:1.") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise UserError("CUDA was asked for and is not available here; use --device cpu, or install torch for your GPU.")
    if found.type == "cuda" and found.index is None:
        found = torch.device("cuda", ranks.local_rank() or 0)
    if found.type == "cuda" and found.index >= torch.cuda.device_count():
        raise UserError(f"There is no GPU {found.index}; this machine has {torch.cuda.device_count()}.")
    if found.type not in ("cpu", "cuda"):
        raise UserError(f"The device {name!r} is not supported; use cpu or cuda.")
    return Machine(found, precision if precision != "auto" else "bf16" if found.type == "cuda" else "fp32")


def batch_size(machine: Machine, members: Iterable[Member], length: int, sequences: int, seed: int) -> int:
    """Sequences of `length` to run at once: on a CPU few, on a GPU as many as every member fits."""
    if machine.device.type == "cpu":
        return max(1, CPU_TOKENS // length)
    most = max(1, min(GPU_TOKENS // length, sequences))
    try:
        for member in members:
            most = _fitting(member, machine, length, most, seed)
    except (RuntimeError, MemoryError) as error:
        raise out_of_memory(1) if is_out_of_memory(error) else error from error
    say(f"Sequences run at once: {most}, found by trying; they stay the same when the run is continued.")
    return most


@contextmanager
def side_by_side(machine: Machine, model: models.Model) -> Iterator[Callable]:
    """A `map` for work with a model: a CPU gives a small one's batches a thread each, and all its threads to each batch of others."""
    threads = torch.get_num_threads()
    if machine.device.type != "cpu" or model.config.hidden_size >= SMALL:
        yield map
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(threads)


def largest(attempt: Callable[[int], None], most: int) -> int:
    """The last of 1, 2, 4, .. up to `most` before `attempt(batch)` runs out of memory; its error where 1 does."""
    fits = 0
    while (batch := max(1, 2 * fits)) <= most:
        try:
            attempt(batch)
        except (RuntimeError, MemoryError) as error:
            if not fits or not is_out_of_memory(error):
                raise
            break
        fits = batch
    return fits


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch, numpy or Python could not allocate, on whichever device."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def out_of_memory(batch: int, option: str = "--batch-size") -> UserError:
    """What to do where `batch` sequences do not fit."""
    mend = f"try {option} {batch // 2}" if batch > 1 else "lower --length or use --precision bf16"
    return UserError(f"Out of memory with a batch of {batch} sequences; {mend}.")


def _fitting(member: Member, machine: Machine, length: int, most: int, seed: int) -> int:
    model, _ = models.load(member.checkpoint.folder, member.config, machine.device, machine.dtype)
    return largest(lambda batch: _try(model, member, batch, length, seed), most)


def _try(model: models.Model, member: Member, batch: int, length: int, seed: int) -> None:
    """Runs random tokens as the run will run its own."""
    torch.cuda.empty_cache()
    ids = np.random.default_rng(0).integers(0, member.vocabulary_size, (batch, length))
    observe(model, ids, member.policies, range(batch), seed)
