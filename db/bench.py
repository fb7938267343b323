"""Every named question beside the best vectorised pandas form of it: same answer first, then time and memory.

Each side runs in a process of its own: this project's over the file, pandas' over a frame of one
checkpoint's observations that is already in memory. Times are medians of 5 after one warm run.
"""

import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

import db
from db import connection
from db.errors import UserError
from db.questions import QUESTIONS, Memory, Scene
from db.report import report

RUNS = 5
TOLERANCE = 2e-6  # of answers: pandas adds float32 values in their own precision where this project does not


@dataclass(frozen=True)
class Row:
    """Milliseconds of each side, NaN where there is no pandas form."""

    question: str
    milliseconds: float
    pandas_milliseconds: float


@dataclass(frozen=True)
class Bench:
    """The table, and the peak memory in MB of each process: the questions', the report's, pandas'."""

    rows: list[Row]
    report_seconds: float
    peaks: dict[str, float]
    threads: int


def bench(path: str, threads: int) -> Bench:
    """Time every question. Raises UserError where the two forms of one do not give the same answer."""
    own, own_peak = _in_process(_time_own, path, threads)
    other, other_peak = _in_process(_time_pandas, path, threads)
    seconds, report_peak = _in_process(_time_report, path, threads)
    for name, (_, answer) in other.items():
        compare(name, own[name][1], answer)
    rows = [Row(name, 1e3 * spent, 1e3 * other[name][0] if name in other else np.nan) for name, (spent, _) in own.items()]
    return Bench(rows, seconds, {"the questions": own_peak, "the report": report_peak, "pandas": other_peak}, threads)


def _in_process(work: Callable, path: str, threads: int) -> tuple:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare, initargs=(threads,)) as pool:
        return pool.submit(_with_peak, work, path).result()


def _prepare(threads: int) -> None:
    connection.set_threads(threads)


def _with_peak(work: Callable, path: str) -> tuple:
    found = work(path)
    return found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def scene(path: str) -> Scene:
    """What the questions are asked of: the first checkpoint with a router. Raises UserError where there is none."""
    study = db.open(path)
    if not study.routed:
        raise UserError(f"{study.name} holds no checkpoint with a router; the bench asks about depth.")
    checkpoint = study.routed[0]
    minimum = study.default_minimum()
    token_id = int(study.tokens(checkpoint, minimum)["token_id"].iloc[0])
    return Scene(study, checkpoint, study.counts["sequences"] // 2, token_id, minimum)


def _time_own(path: str) -> dict[str, tuple[float, np.ndarray]]:
    asked = scene(path)
    return {question.name: _timed(lambda: question.ask(asked)) for question in QUESTIONS}


def _time_pandas(path: str) -> dict[str, tuple[float, np.ndarray]]:
    asked = scene(path)
    held = memory(path, asked)
    return {question.name: _timed(lambda: question.pandas(asked, held)) for question in QUESTIONS if question.pandas}


def _time_report(path: str) -> float:
    study = db.open(path)
    start = time.perf_counter()
    report(study)
    return time.perf_counter() - start


def memory(path: str, scene: Scene) -> Memory:
    """The frames that pandas asks."""
    file = connection.database(path)
    with file.cursor(file.signature()) as cursor:
        rows = cursor.sql("from observations where checkpoint = $checkpoint", params={"checkpoint": scene.checkpoint})
        every = rows.to_arrow_reader().read_pandas()  # streamed, in the order of the file: a whole result would not fit DuckDB's memory
    scored = every[every["next_token_id"].notna()]
    kept = scored[(scored["token_id"] != 0) & (scored["position"] >= 16)]
    return Memory(every, scored, kept)


def _timed(ask: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    answer, times = ask(), []
    for _ in range(RUNS):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return statistics.median(times), answer


def compare(name: str, own: np.ndarray, other: np.ndarray) -> None:
    """Raises UserError where the two answers differ by more than TOLERANCE."""
    if own.shape != other.shape or not np.allclose(own, other, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
        raise UserError(f"The bench's two answers to {name!r} differ.")


def machine() -> str:
    """The machine in a line: processor and cores."""
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} cores"


def text(found: Bench) -> str:
    """The bench as a table in Markdown."""
    header = "| question | this, ms | pandas, ms | pandas ÷ this |"
    lines = [f"| {row.question} | {row.milliseconds:.1f} | {_shown(row.pandas_milliseconds)} | {_shown(row.pandas_milliseconds / row.milliseconds)} |" for row in found.rows]
    peaks = ", ".join(f"{name} {peak:,.0f} MB" for name, peak in found.peaks.items())
    facts = f"{machine()}; {found.threads} threads of DuckDB. The report of every checkpoint with all intervals: {found.report_seconds:.1f} s. Peak memory: {peaks}."
    return "\n".join([header, "|---|---|---|---|", *lines, "", facts])


def _shown(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.1f}"
