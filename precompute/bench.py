"""How near the machine's limit a pass comes: operations planned and done, their rate against the rate of a bare product.

    python -m precompute bench --shapes 360m --policies router random inverted depth_1 depth_2 depth_3

An expert-choice model of three recursions with random weights runs random tokens: what a pass takes
does not depend on their values.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from db.errors import UserError
from precompute import machine as machines
from precompute import model as models
from precompute import operations, policies, settings
from precompute.machine import Machine
from precompute.model import Model
from precompute.observe import predictions
from precompute.operations import Operations
from precompute.passes import Trace, run as run_pass
from precompute.policies import Policy
from precompute.progress import say

EXPERIMENT = "250720_pretrain_smollm-360m_rec3_middle_cycle_random_lr3e-3_mor_expert_linear_alpha_0.1_sigmoid_aux_loss_0.001"
TINY = {"vocab_size": 384, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 8, "num_attention_heads": 3, "num_key_value_heads": 1}
SHAPES = {"360m": settings.SMOLLM_360M, "tiny": settings.SMOLLM_360M | TINY}
SIDES = {"cpu": 2_048, "cuda": 8_192}  # of the square matrices whose product is the measure
PRODUCTS = 5


@dataclass(frozen=True)
class Timing:
    """One pass: what it did, the seconds in the layers and in the head, and the most memory it held, in bytes."""

    done: Operations
    body: float
    head: float
    memory: int


@dataclass(frozen=True)
class Measured:
    """The median pass of several, and the device's rate of products before and after them, in operations a second."""

    timing: Timing
    before: float
    after: float

    @property
    def rate(self) -> float:
        return (self.before + self.after) / 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench`."""
    add = parser.add_argument
    add("--shapes", choices=sorted(SHAPES), default="360m", help="size of the model (default: 360m, the released one)")
    add("--policies", metavar="POLICY", nargs="+", help="default: all of an expert-choice model")
    add("--sequences", type=int, default=1, help="sequences run at once (default: 1)")
    add("--length", type=int, default=2_048, help="tokens of a sequence (default: 2048)")
    add("--repeats", type=int, default=1, help="passes, of which the median is given (default: 1)")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    add("--precision", choices=["auto", "fp32", "bf16"], default="auto", help="default: bf16 on a GPU, fp32 on a CPU")


def run(args: argparse.Namespace) -> int:
    """Prints the table. Raises UserError where an option cannot be used."""
    machine = machines.choose(args.device, args.precision)
    if min(args.sequences, args.repeats) < 1 or not 2 <= args.length <= SHAPES[args.shapes]["max_position_embeddings"]:
        raise UserError(f"--sequences and --repeats should be 1 or more, and --length from 2 to {SHAPES[args.shapes]['max_position_embeddings']}.")
    with tempfile.TemporaryDirectory() as folder:
        place = write_random(Path(folder) / EXPERIMENT, SHAPES[args.shapes])
        model, _ = models.load(place, None, machine.device, machine.dtype)
    found = _policies(model, args.policies)
    say(f"Running {args.repeats} pass(es) of {args.sequences} x {args.length} tokens under {len(found)} policies.")
    try:
        measured = measure(model, found, machine, args.sequences, args.length, args.repeats)
    except (RuntimeError, MemoryError) as error:
        raise machines.out_of_memory(args.sequences, "--sequences") if machines.is_out_of_memory(error) else error from error
    print(table(model, [policy.name for policy in found], machine, args, measured))
    return 0


def write_random(folder: Path, shapes: dict) -> Path:
    """A checkpoint folder in these shapes with random weights; its name says which experiment it is. Returns the folder."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **shapes}), "utf-8")
    _, found, config = settings.read(folder, None)
    model = models.build(config, found)
    copies = {name for group in models.shared_copies(model) for name in group[1:]} | {"lm_head.weight"}
    draw = torch.Generator().manual_seed(0)
    save_file({name: _random(tensor.shape, draw) for name, tensor in model.state_dict().items() if name not in copies}, folder / "model.safetensors")
    return folder


def _random(shape: torch.Size, draw: torch.Generator) -> torch.Tensor:
    return torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=draw) * 0.02


def _policies(model: Model, names: Sequence[str] | None) -> list[Policy]:
    offered = policies.available(model.settings)
    for name in names or ():
        if name not in [policy.name for policy in offered]:
            raise UserError(f"There is no policy {name!r} here; there are {', '.join(policy.name for policy in offered)}.")
    return policies.chosen(offered, names)


def measure(model: Model, found: list[Policy], machine: Machine, sequences: int, length: int, repeats: int) -> Measured:
    """Times passes of random tokens, after a short one that is not counted."""
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, model.config.vocab_size, (sequences, length))).to(machine.device)
    _pass(model, found, ids if machine.device.type == "cuda" else ids[:, :64], machine)
    before = product_rate(machine)
    timings = sorted((_pass(model, found, ids, machine) for _ in range(repeats)), key=lambda timing: timing.body + timing.head)
    return Measured(timings[len(timings) // 2], before, product_rate(machine))


def product_rate(machine: Machine) -> float:
    """Operations a second of a product of two large square matrices: the median of five, after one that is not counted."""
    side = SIDES[machine.device.type]
    one, other = (torch.randn(side, side, device=machine.device, dtype=machine.dtype) for _ in range(2))
    seconds = []
    for _ in range(1 + PRODUCTS):
        began = _now(machine)
        one @ other
        seconds.append(_now(machine) - began)
    return 2 * side**3 / statistics.median(seconds[1:])


@torch.inference_mode()
def _pass(model: Model, found: list[Policy], ids: torch.Tensor, machine: Machine) -> Timing:
    """One batch under every policy, as `run` does it but for writing it down."""
    _reset_peak(machine)
    body = head = 0.0
    with operations.counted(model) as done:
        began = _now(machine)
        for leaf in run_pass(model, ids, found, range(len(ids)), 0, Trace()):
            between = _now(machine)
            predictions(model, leaf, ids)
            done.head += len(ids) * operations.head(model.config, ids.shape[1])
            body, began, head = body + between - began, _now(machine), head + _now(machine) - between
    return Timing(done, body, head, _peak(machine))


def _now(machine: Machine) -> float:
    if machine.device.type == "cuda":
        torch.cuda.synchronize(machine.device)
    return time.perf_counter()


def _reset_peak(machine: Machine) -> None:
    if machine.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(machine.device)
    elif sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def _peak(machine: Machine) -> int:
    """Most bytes held since the reset: of the GPU, or of this process (on Linux; else 0)."""
    if machine.device.type == "cuda":
        return torch.cuda.max_memory_allocated(machine.device)
    lines = Path("/proc/self/status").read_text().splitlines() if sys.platform == "linux" else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def table(model: Model, names: list[str], machine: Machine, args: argparse.Namespace, measured: Measured) -> str:
    """What was measured, as Markdown."""
    timing, count = measured.timing, args.sequences
    alone, shared = (plan(model, names, args.length) for plan in (operations.alone, operations.shared))
    floor, took = count * shared.all / measured.rate, timing.body + timing.head
    threads = f", {torch.get_num_threads()} threads" if machine.device.type == "cpu" else ""
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    rows = [
        ("planned, each policy alone", count * alone.all, None),
        ("planned, sharing what is the same", count * shared.all, None),
        ("done: layers", timing.done.body, timing.body),
        ("done: head", timing.done.head, timing.head),
        ("done", timing.done.all, took),
    ]
    return "\n".join([
        f"expert-3, shapes {args.shapes}, random weights; {machine.name}, {machine.precision}{threads}; {count} x {args.length} tokens at once, median of {args.repeats}",
        f"policies: {', '.join(names)}",
        "",
        "| operations | GFLOP | seconds | GFLOP/s | of the product's rate |",
        "|---|---|---|---|---|",
        *(_row(*row, measured.rate) for row in rows),
        "",
        f"A product of {SIDES[machine.device.type]:,} x {SIDES[machine.device.type]:,} matrices: {measured.before / 1e9:,.1f} GFLOP/s before, {measured.after / 1e9:,.1f} after (medians of {PRODUCTS}).",
        f"The shared plan at that rate takes {floor:.2f} s; done in {took / floor:.2f} times that, {took / count:.2f} s a sequence.",
        f"Peak memory {timing.memory / 1e9:.2f} GB, of which {weights / 1e9:.2f} GB are weights.",
    ])


def _row(name: str, count: int, seconds: float | None, rate: float) -> str:
    if seconds is None:
        return f"| {name} | {count / 1e9:,.1f} | | | |"
    return f"| {name} | {count / 1e9:,.1f} | {seconds:.2f} | {count / seconds / 1e9:,.1f} | {count / seconds / rate:.0%} |"
