"""Which of a run's processes this is: torchrun and accelerate say so in the environment.

Rank 0 leads: it prepares, packs, reports and builds. The others take ranges of sequences beside it.
"""

import os


def rank() -> int:
    """This process's number among all of the run's, 0 where it runs alone."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int | None:
    """Its number among those of this machine, which is the GPU it takes; None where it runs alone."""
    return int(os.environ["LOCAL_RANK"]) if "LOCAL_RANK" in os.environ else None


def leads() -> bool:
    """Whether this is rank 0."""
    return rank() == 0
