"""Trains the tiny suite from scratch, one model after another, seeded and resumable.

    python -m precompute train-demo --corpus FILE --output DIR

A run that was stopped goes on where it last saved, and ends with the same weights on the same machine.
"""

import argparse
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor

from db.errors import UserError
from precompute import baselines, corpus, policies, settings
from precompute.documents import documents_in_files
from precompute.losses import training_loss
from precompute.model import Model, assign, build, load, shared_copies
from precompute.observe import observe
from precompute.progress import Progress, say
from precompute.recipe import BATCH, EXPERIMENTS, HELD_OUT_CHARACTERS, LENGTH, LLAMA, VOCABULARY
from precompute.weights import EMBEDDING, HEAD

SAVE_EVERY = 50  # steps
STATE = "training.pt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `train-demo`."""
    parser.add_argument("--corpus", type=Path, required=True, help="UTF-8 text (.xz allowed), each document ended by a line holding only <|endoftext|>")
    parser.add_argument("--output", type=Path, default=Path("suite"), help="folder of the suite (default: suite)")
    parser.add_argument("--models", nargs="+", choices=list(EXPERIMENTS), default=list(EXPERIMENTS), help="which to train (default: all)")
    parser.add_argument("--tokens", type=int, default=5_000_000, help="training tokens of each model (default: 5,000,000)")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> Path:
    """Makes the suite's text, tokenizer and models in `args.output` and returns that folder."""
    if args.tokens < BATCH * LENGTH:
        raise UserError(f"--tokens is {args.tokens}; one step takes {BATCH * LENGTH}, give at least that.")
    torch.set_num_threads(1)  # a second thread loses most of its speed when anything else runs
    training, held_out = prepare(args.corpus, args.seed, args.output)
    for model in args.models:
        train(model, training, args.tokens, args.seed, args.output / model)
        say(f"{model}: held-out loss {held_out_loss(args.output / model, held_out):.3f} nats")
    return args.output


def prepare(path: Path, seed: int, suite: Path) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out rows [sequences, LENGTH] of token ids; writes held-out text, tokenizer and baselines."""
    split = corpus.split(list(documents_in_files([path])), HELD_OUT_CHARACTERS, seed)
    tokenizer = corpus.train_tokenizer(split.training, VOCABULARY)
    _write_tokenizer(tokenizer.to_str(pretty=True), suite)
    corpus.write(suite / "held-out.txt.xz", split.held_out)
    training, held_out = (corpus.rows(documents, suite / "tokenizer.json", LENGTH) for documents in (split.training, split.held_out))
    counted = baselines.measure(training, held_out, VOCABULARY)
    (suite / "baselines.json").write_text(json.dumps(asdict(counted), indent=1) + "\n")
    say(f"Held-out loss by counting: unigram {counted.unigram:.3f}, bigram {counted.bigram:.3f} nats")
    return training, held_out


def _write_tokenizer(content: str, suite: Path) -> None:
    path = suite / "tokenizer.json"
    if path.exists() and path.read_text("utf-8") != content:
        raise UserError(f"{suite} holds a suite made from another corpus or seed; choose another folder with --output.")
    suite.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")


def train(model_id: str, rows: np.ndarray, tokens: int, seed: int, folder: Path, save_every: int = SAVE_EVERY) -> None:
    """Trains one model on rows [sequences, LENGTH] of token ids and leaves its checkpoint in `folder`.

    Its state is saved after every `save_every` steps. A finished checkpoint is left as it is; one begun
    with the same settings is continued, with others it is refused (UserError).
    """
    if (folder / "model.safetensors").exists():
        say(f"{model_id}: {folder} is trained already; delete it to train anew.")
        return
    plan = write_plan(model_id, tokens, folder)
    model = new_model(folder, seed)
    optimizer = new_optimizer(model, plan)
    begun = {"plan": plan, "seed": seed, "rows": hashlib.sha256(rows).hexdigest()}
    first = _resume(folder / STATE, begun, model, optimizer)
    steps = range(first, plan["num_train_steps"])
    with Progress(model_id, len(steps) * BATCH * LENGTH, "tokens") as progress:
        for step in steps:
            _step(model, optimizer, plan, _batch(rows, step, seed), step)
            if (step + 1) % save_every == 0:
                save_state(folder / STATE, {**begun, "step": step + 1}, model, optimizer)
            progress.advance(BATCH * LENGTH)
    save(model, folder / "model.safetensors")
    (folder / STATE).unlink(missing_ok=True)


def write_plan(model_id: str, tokens: int, folder: Path) -> dict[str, Any]:
    """Writes the model's config.json and pretrain.yaml, returns the latter."""
    experiment = EXPERIMENTS[model_id]
    plan = experiment.yaml(tokens)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**LLAMA, **experiment.overrides()}, indent=1) + "\n")
    (folder / "pretrain.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    return plan


def held_out_loss(folder: Path, rows: np.ndarray) -> float:
    """Mean loss in nats of a finished checkpoint over the predictions within rows [sequences, T], under its own router."""
    model, _ = load(folder)
    router = policies.available(model.settings)[:1]
    losses = [
        observe(model, rows[start : start + BATCH], router, range(start, start + BATCH), 0)["loss_router"]
        for start in range(0, len(rows), BATCH)
    ]
    return float(np.nanmean(np.concatenate(losses)))


def new_model(folder: Path, seed: int) -> Model:
    """The folder's model with fresh weights: matrices normal(0, 0.02), norms 1, shared weights one storage."""
    _, mor, llama = settings.read(folder)
    model = build(llama, mor)
    tensors: dict[str, Tensor] = {}
    generator = torch.Generator().manual_seed(seed)
    first = {name: group[0] for group in [*shared_copies(model), [EMBEDDING, HEAD]] for name in group}
    for name, empty in model.state_dict().items():
        origin = first.get(name, name)
        if origin == name:
            matrix = len(empty.shape) > 1
            tensors[name] = torch.empty(empty.shape).normal_(0.0, 0.02, generator=generator) if matrix else torch.ones(empty.shape)
        else:
            tensors[name] = tensors[origin]
    assign(model, tensors)
    return model.requires_grad_(True).train()


def new_optimizer(model: Model, plan: dict[str, Any]) -> torch.optim.AdamW:
    """AdamW as the plan says; norms are not decayed."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    norms = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": plan["weight_decay"]}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=plan["learning_rate"], betas=(plan["adam_beta1"], plan["adam_beta2"]), fused=True)


def rate(plan: dict[str, Any], step: int) -> float:
    """The learning rate of a step: linear warm-up, stable, linear decay to 0 over the last fifth."""
    left = plan["num_train_steps"] - step
    return plan["learning_rate"] * min(1.0, (step + 1) / plan["num_warmup_steps"], left / plan["num_decay_steps"])


def save(model: Model, path: Path) -> None:
    """Writes the weights in half precision, of each shared group only the first, at once or not at all."""
    copies = {name for group in [*shared_copies(model), [EMBEDDING, HEAD]] for name in group[1:]}
    kept = {name: tensor.detach().half().contiguous() for name, tensor in model.state_dict().items() if name not in copies}
    beside = path.with_suffix(".partial")
    save_file(kept, beside)
    beside.replace(path)


def _step(model: Model, optimizer: torch.optim.Optimizer, plan: dict[str, Any], ids: Tensor, step: int) -> float:
    router = policies.available(model.settings)[0]
    for group in optimizer.param_groups:
        group["lr"] = rate(plan, step)
    optimizer.zero_grad()
    loss = training_loss(model, ids, router)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), plan["max_grad_norm"])
    optimizer.step()
    return loss.item()


def _batch(rows: np.ndarray, step: int, seed: int) -> Tensor:
    """The sequences of a step: every epoch passes over all of them in its own random order."""
    steps_an_epoch = len(rows) // BATCH
    epoch, place = divmod(step, steps_an_epoch)
    order = np.random.default_rng([seed, epoch]).permutation(len(rows))
    return torch.from_numpy(rows[order[place * BATCH : (place + 1) * BATCH]].astype(np.int64))


def _resume(path: Path, begun: dict[str, Any], model: Model, optimizer: torch.optim.Optimizer) -> int:
    """The step to go on from; 0 where nothing was saved. Raises UserError where the saved run is another."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    if {key: state.get(key) for key in begun} != begun:
        raise UserError(f"{path} was begun with other settings; delete it, or pass the same --corpus, --tokens and --seed.")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def save_state(path: Path, facts: dict[str, Any], model: Model, optimizer: torch.optim.Optimizer) -> None:
    """Saves all that training needs to go on, at once or not at all."""
    beside = path.with_suffix(".partial")
    torch.save({**facts, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, beside)
    beside.replace(path)
