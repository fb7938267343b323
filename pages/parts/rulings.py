"""The figures that the reading rules of a checkpoint judge, each with its interval."""

from db import swaps
from db.figures import Figures
from db.intervals import Estimate


def figures(found: Figures) -> dict[str, Estimate | None]:
    """Each judged figure under the name that its rule's condition gives it; None where it was not run."""
    policy = swaps.random_policy(found.policies)
    return {
        "spearman_loss": found.correlations["spearman_loss"],
        "partial_spearman_loss": found.correlations["partial_spearman_loss"],
        "lexical_r2": found.lexical.r2,
        "routing_added_loss": found.added_loss[found.compared.index(policy)] if policy else None,
    }


def swapped(found: Figures) -> str:
    """What stands in for the router in routing_added_loss: random, or shuffled for token-choice."""
    return swaps.random_policy(found.policies) or "random"
