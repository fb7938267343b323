"""Do the suite's routers route? A table of the demo's file, as it stands in the README.

    python -m precompute.alive db/demo.duckdb

A router counts as alive where kept and dropped tokens separate at every recursion that drops any,
another selection costs loss, and depth is not decided by position; token-choice besides needs tokens
at every depth.
"""

import json
import sys
from pathlib import Path

import db
from db import depths, swaps
from db.errors import UserError
from db.study import Study
from precompute.demo import SUITE

SEPARATED = 0.9  # least area at each recursion that drops
BY_POSITION = 0.5  # share of depth variance that position alone must stay under
LEAST_SHARE = 0.1  # of tokens at every depth, token-choice only

HEADER = ["model", "training tokens", "held-out loss", "kept above dropped", "another selection", "by position", "depth shares", "alive"]


def table(study: Study, baselines: dict[str, float]) -> str:
    """The figures of every checkpoint of a file as a Markdown table, counting models first."""
    rows = [[name, "", f"{baselines[name]:.3f}", "", "", "", "", ""] for name in ("unigram", "bigram")]
    rows += [_row(study, checkpoint) for checkpoint in study.observed]
    lines = [HEADER, ["---"] * len(HEADER), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _row(study: Study, checkpoint: str) -> list[str]:
    facts = study.checkpoint(checkpoint)
    policy = {"expert": "random", "token": "shuffled"}.get(facts["kind"])
    sums = study.groups(checkpoint, [f"loss_{name}" for name in ("router", policy) if name])
    tokens = f"{int(facts['training_tokens']):,}" if facts["training_tokens"] > 0 else ""
    start = [checkpoint, tokens, f"{swaps.mean_loss(sums, ['router']).value[0]:.3f}"]
    if policy is None:
        return [*start, "", "", "", "", ""]
    areas = separation(study, checkpoint) if policy == "random" else []
    added, share, shares = swaps.added_loss(sums, [policy])[0], position_share(study, checkpoint), depths.share(sums).value
    verdicts = {
        "separation": all(area >= SEPARATED for area in areas),
        "selection": added.low > 0,
        "position": share < BY_POSITION,
        "shares": policy == "random" or min(shares) >= LEAST_SHARE,
    }
    failed = [name for name, holds in verdicts.items() if not holds]
    return [
        *start,
        ", ".join(f"{area:.3f}" for area in areas),
        f"{policy} {added.value:+.4f} [{added.low:+.4f}, {added.high:+.4f}]",
        f"{share:.3f}",
        " / ".join(f"{value:.1%}" for value in shares),
        f"no: {', '.join(failed)}" if failed else "yes",
    ]


def separation(study: Study, checkpoint: str) -> list[float]:
    """For each recursion that drops tokens, how often a kept one's router probability is above a dropped one's."""
    return study.frame("router_separation", checkpoint=checkpoint)["area"].tolist()


def position_share(study: Study, checkpoint: str) -> float:
    """Share of the variance of depth that lies between positions, each with its own mean."""
    return float(study.frame("position_share", checkpoint=checkpoint)["share"].iloc[0])


def main(arguments: list[str]) -> int:
    """Prints the table of one file; exit code 2 where it cannot be read."""
    try:
        if len(arguments) != 1:
            raise UserError("Name one file: python -m precompute.alive db/demo.duckdb")
        baselines = json.loads((SUITE / "baselines.json").read_text("utf-8"))
        print(table(db.open(arguments[0]), baselines))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
