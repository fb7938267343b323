"""Runs the command in processes of its own that start in milliseconds, so that tests can kill them.

A server process imports everything once and forks a child for every start.
"""

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import torch
from tqdm import tqdm

from precompute import command, work

server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(["tests.processes", "transformers.models.llama.modeling_llama", "datasets", "duckdb", "pandas"])

SHARD_POSITIONS = 256
PATIENCE = 3.0


def start(arguments: list[str], log: Path, rank: int | None = None) -> ForkServerProcess:
    """`python -m precompute ARGUMENTS`, its output added to `log`, with small shards; as a rank of several or alone."""
    process = server.Process(target=_run, args=(arguments, log, rank))
    process.start()
    return process


def _run(arguments: list[str], log: Path, rank: int | None) -> None:
    if rank is not None:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(1)
    tqdm.set_lock(threading.RLock())  # its own, between processes, would be left behind by a kill
    work.SHARD_POSITIONS, work.PATIENCE = SHARD_POSITIONS, PATIENCE
    with open(log, "a", buffering=1) as sys.stdout:
        sys.stderr = sys.stdout
        os._exit(command.main(arguments))


def until(holds: Callable[[], bool], process: ForkServerProcess) -> bool:
    """Waits until something holds or the process has ended; whether the former came first."""
    while not holds():
        if not process.is_alive():
            return False
        time.sleep(0.001)
    return True
