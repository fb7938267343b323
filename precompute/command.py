"""The command line of precompute: run, reproduce, check, bench, demo, plant, train-demo.

An error of the user's is one sentence on stderr and exit code 2; the last line of stdout is the file written.
"""

import argparse
import re
import sys
from pathlib import Path


from db.errors import UserError
from precompute import bench, check, demo, plant, reproduce, train
from precompute.request import Request
from precompute.run import run

EPILOG = """policies: router, random, inverted (expert-choice), shuffled (token-choice), depth_1 to depth_R, each also with
its gate held open (<policy>_open), router_depths_open, and those given with --assign. Default: all that a kind has."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0, 1 for failed checks, 2 for unusable input, 130 when stopped."""
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        return args.command(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped. The same command continues where a run was stopped.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m precompute", description="From Mixture-of-Recursions checkpoints to one DuckDB file.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="run checkpoints under every routing policy and write the file", epilog=EPILOG))
    one = commands.add_parser("reproduce", help="the study in one command: the released checkpoints, the held-out set, the report")
    reproduce.add_arguments(one)
    one.set_defaults(command=lambda args: _written(reproduce.run(args)))
    one = commands.add_parser("check", help="verify a finished file")
    check.add_arguments(one)
    one.set_defaults(command=check.run)
    one = commands.add_parser("bench", help="measure a pass of a model with random weights against the machine's limit")
    bench.add_arguments(one)
    one.set_defaults(command=bench.run)
    one = commands.add_parser("demo", help="build the demo from the tiny suite that is shipped")
    demo.add_arguments(one)
    one.set_defaults(command=lambda args: _written(demo.run(args)))
    one = commands.add_parser("plant", help="write a file whose truth is known, for tests and benchmarks")
    plant.add_arguments(one)
    one.set_defaults(command=lambda args: _written(plant.run(args)))
    one = commands.add_parser("train-demo", help="train the tiny suite anew")
    train.add_arguments(one)
    one.set_defaults(command=lambda args: _written(train.run(args)))
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--reference", metavar="[ID=]DIR", help="the model whose loss and entropy are the difficulty; without it the vanilla columns are NULL")
    add("--checkpoint", metavar="[ID=]DIR", nargs="+", action="extend", required=True, help="a checkpoint folder; several may follow")
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--dataset", metavar="NAME", help="data set of the hub, or a folder or file that datasets reads; column text")
    data.add_argument("--text", metavar="FILE", nargs="+", action="extend", type=Path, help="UTF-8 text, documents separated by a line holding only <|endoftext|>")
    data.add_argument("--tokens", metavar="FILE.npy", type=Path, help="integer array [sequences, length]")
    add("--split", help="split of the data set")
    add("--revision", help="revision of the data set")
    add("--tokenizer", metavar="NAME|DIR|FILE", help="default: tokenizer.json of a checkpoint's folder, else HuggingFaceTB/SmolLM-135M; none with --tokens")
    add("--length", type=_positive, help="tokens of a sequence (default: 2048, with --tokens the array's)")
    add("--sequences", type=_positive, help="sequences to run (default: 1000, with --tokens all)")
    add("--policies", metavar="POLICY", nargs="+", action="extend", help="see below; router is always run")
    add("--assign", metavar="ID:NAME=FILE.npy", nargs="+", action="extend", default=[], help="depths [sequences, length] to run a checkpoint under, as policy NAME")
    add("--config", metavar="[ID=]YAML", nargs="+", action="extend", default=[], help="the experiment's YAML, where a folder holds none")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    add("--precision", choices=["auto", "fp32", "bf16"], default="auto", help="default: bf16 on a GPU, fp32 on a CPU")
    add("--batch-size", type=_positive, help="sequences run at once; stored, as float rounding depends on it")
    add("--seed", type=_whole, default=0, help="seed of random and shuffled (default: 0)")
    add("--output", metavar="FILE.duckdb", type=Path, required=True)
    add("--force", action="store_true", help="replace the output where it exists")
    parser.set_defaults(command=_run)


def _run(args: argparse.Namespace) -> int:
    request = Request(
        output=args.output,
        checkpoints=[_place(value) for value in args.checkpoint],
        reference=_place(args.reference) if args.reference else None,
        dataset=args.dataset,
        split=args.split,
        revision=args.revision,
        texts=args.text or [],
        array=args.tokens,
        tokenizer=args.tokenizer,
        length=args.length,
        sequences=args.sequences,
        policies=[name for value in args.policies for name in value.split(",")] if args.policies else None,
        assignments=[_assignment(value) for value in args.assign],
        configs=[_place(value) for value in args.config],
        device=args.device,
        precision=args.precision,
        batch_size=args.batch_size,
        seed=args.seed,
        force=args.force,
    )
    return _written(run(request))


def _written(path: Path | None) -> int:
    if path:
        print(path)
    return 0


def _place(value: str) -> tuple[str | None, Path]:
    """[ID=]PATH; a path that exists as it stands holds no id, whatever its characters."""
    name, equals, path = value.partition("=")
    if not equals or Path(value).exists():
        return None, Path(value)
    return name, Path(path)


def _assignment(value: str) -> tuple[str, str, Path]:
    match = re.fullmatch(r"([^:=]+):([^=]+)=(.+)", value)
    if match is None:
        raise UserError(f"--assign {value!r} is not of the form ID:NAME=FILE.npy.")
    return match[1], match[2], Path(match[3])


def _positive(value: str) -> int:
    if not value.isdigit() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value!r} should be a whole number above 0")
    return int(value)


def _whole(value: str) -> int:
    if not value.isdigit():
        raise argparse.ArgumentTypeError(f"{value!r} should be a whole number, 0 or more")
    return int(value)
