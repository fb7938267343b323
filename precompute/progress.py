"""Progress on stderr: what runs, how far, how fast, how long still. Rank 0 alone reports."""

import sys
from types import TracebackType

from tqdm import tqdm

from precompute import ranks

FORMAT = "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt}{unit}, {rate_fmt}, {remaining} left"


class Progress:
    """A stage of known size: `with Progress("expert-3", 1000, "sequences") as progress: progress.advance(8)`."""

    def __init__(self, stage: str, total: int, unit: str):
        # A terminal is redrawn often; a log or another program reads a line every two seconds.
        every = 0.2 if sys.stderr.isatty() else 2.0
        self._bar = tqdm(total=total, desc=stage, unit=f" {unit}", bar_format=FORMAT, mininterval=every, file=sys.stderr, disable=not ranks.leads())

    def advance(self, count: int = 1) -> None:
        self._bar.update(count)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()


def say(sentence: str) -> None:
    """One line to stderr, beside the progress."""
    if ranks.leads():
        tqdm.write(sentence, file=sys.stderr)
