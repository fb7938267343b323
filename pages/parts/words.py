"""Sentences made from numbers. A direction is claimed only where the intervals lie apart."""

import re
from collections.abc import Iterable, Mapping

import pandas as pd

from db.checks import Checks
from db.intervals import NEEDED, RELIABLE, Estimate
from db.rules import THRESHOLDS
from db.study import Study

DIRECTIONS = {
    "up": "**Deeper** in the hardest tenth than in the easiest",
    "down": "**Shallower** in the hardest tenth than in the easiest",
    "neither": "**No clear difference** between the easiest tenth and the hardest",
    "unknown": "**Not to be compared**, for want of positions in decile 1 or in decile 10",
}
MEASURES = {
    "spearman_loss": "ρ of depth with vanilla loss",
    "partial_spearman_loss": "ρ beyond token and position",
    "lexical_r2": "R² of depth from the token",
    "routing_added_loss": "added loss of other routing, nats",
}
TRACKS = {True: "yes, depth tracks difficulty", False: "no, depth does not track difficulty", None: "undecided"}
LEXICAL = {True: "Mainly lexical", False: "Not mainly lexical", None: "Lexical or not is undecided"}
ROUTING = {True: "routing matters", False: "routing does not matter here", None: "whether routing matters is undecided"}


def depth_by_decile(frame: pd.DataFrame) -> str:
    """Which checkpoints go deeper from the easiest tenth to the hardest. `frame`: Study.deciles of each checkpoint, of those with positions."""
    said: dict[str, list[str]] = {direction: [] for direction in DIRECTIONS}
    for checkpoint, rows in frame.groupby("checkpoint", sort=False):
        first, last = rows.iloc[0], rows.iloc[-1]
        means = f" (mean depth {first.mean_depth:.2f} → {last.mean_depth:.2f})" if (first.decile, last.decile) == (1, 10) else ""
        said[_direction(first, last)].append(literal(checkpoint) + means)
    return " ".join(f"{DIRECTIONS[direction]}: {', '.join(who)}." for direction, who in said.items() if who)


def benefit_by_decile(frame: pd.DataFrame, benefit: str, by: str) -> str:
    """Where depth pays most, checkpoint by checkpoint. `benefit`: the column of `frame` that is shown."""
    parts = []
    for checkpoint, rows in frame.dropna(subset=[benefit]).groupby("checkpoint", sort=False):
        peak, last = rows.loc[rows[benefit].idxmax()], rows.iloc[-1]
        parts.append(f"{literal(checkpoint)} {nats(peak[benefit])} in decile {peak.decile}, {nats(last[benefit])} in decile {last.decile}")
    return f"By {by}, depth pays most at: {'; '.join(parts)}." if parts else "No checkpoint here was run at depth 1 and at full depth."


def loss_by_depth(frame: pd.DataFrame) -> str:
    """The mean vanilla loss at each depth, checkpoint by checkpoint. `frame`: Study.depths of each, of depths with positions."""
    parts = []
    for checkpoint, rows in frame.groupby("checkpoint", sort=False):
        losses = ", ".join(f"{row.vanilla_loss:.2f} at depth {row.depth}" for row in rows.itertuples())
        parts.append(f"{literal(checkpoint)} {losses}")
    return f"Mean vanilla loss in nats: {'; '.join(parts)}."


def verdict(checks: Checks, thresholds: Mapping[str, float]) -> str:
    """The answer for a checkpoint in one line, with its figures; thresholds that were moved are told."""
    tracks, lexical, routing = (rule.verdict for rule in checks.rules(thresholds))
    plain, partial, r2, swap = (estimate(found, 3) for found in checks.figures.values())
    correlation = f"Spearman's ρ = {plain} with the vanilla loss, {partial} beyond token and position." if plain != "–" else "No correlation with difficulty can be had here."
    moved = "; ".join(f"{MEASURES[figure]} {limit:g} in place of {THRESHOLDS[figure]:g}" for figure, limit in thresholds.items() if limit != THRESHOLDS[figure])
    return (
        f"**{literal(checks.checkpoint)}: {TRACKS[tracks]}.** {correlation} "
        f"{LEXICAL[lexical]} (R² = {r2}); {_routing(checks, routing)} ({checks.policy or 'random'} routing adds {swap} nats)."
        + (f" :orange-badge[thresholds moved] {moved}." if moved else "")
    )


def _routing(checks: Checks, verdict: bool | None) -> str:
    """An interval below zero is an answer too: another choice of tokens does better."""
    found = checks.figures["routing_added_loss"]
    return "another choice of tokens does better here" if found is not None and found.high < 0 else ROUTING[verdict]


def contents(study: Study) -> str:
    """What was run over what, in a sentence or two."""
    counts, source = study.counts, study.meta.get("dataset")
    documents = f" from {counts['documents']:,} documents" if counts["documents"] else ""
    difficulty = f"Difficulty is that of {literal(study.reference)}." if study.reference else "It has no reference model, so nothing in it has a difficulty."
    return (
        f"**{len(study.observed)} checkpoints** over **{counts['sequences']:,} sequences** of up to {counts['longest']:,} tokens{documents} "
        f"of {literal(str(source))}: {counts['scored']:,} scored positions for each. {difficulty}"
    )


def estimate(found: Estimate | None, digits: int) -> str:
    """A single figure with its interval."""
    return "–" if found is None else interval(found.value, found.low, found.high, digits)


def interval(value: float, low: float, high: float, digits: int) -> str:
    """A figure with its interval: 1.45 [1.44, 1.46]."""
    if pd.isna(value):
        return "–"
    text = f"{value:.{digits}f}" + ("" if pd.isna(low) else f" [{low:.{digits}f}, {high:.{digits}f}]")
    return text.replace("-", "−")


def count(number: float) -> str:
    """A count with its thousands apart, – where it is unknown."""
    return "–" if pd.isna(number) else f"{int(number):,}"


def about_intervals(sequences: Iterable[int]) -> str:
    """What the intervals of some figures are, and how far to trust them: `sequences` contribute to each."""
    few, many = min(sequences), max(sequences)
    if many < NEEDED:
        return f"No intervals: {many} sequences are fewer than {NEEDED}."
    number = f"{many:,}" if few == many else f"{few:,} to {many:,}"
    caution = f", unreliable with fewer than {RELIABLE}" if few < RELIABLE else ""
    return f"95% intervals: bootstrap over {number} sequences{caution}."


def literal(text: str) -> str:
    """Text of the file in Markdown as it stands, whatever signs are in it."""
    return re.sub(r"([\\`*_\[\]|$:<>~&])", r"\\\1", text)


def nats(value: float) -> str:
    """A difference of losses: +0.29 nats."""
    return f"{value:+.2f} nats".replace("-", "−")


def plain(text: str) -> str:
    """Markdown as bare text, for an alternative text."""
    return re.sub(r"\\(.)", r"\1", text.replace("**", ""))


def _direction(first: pd.Series, last: pd.Series) -> str:
    if (first.decile, last.decile) != (1, 10):
        return "unknown"
    if last.mean_depth_low > first.mean_depth_high:
        return "up"
    return "down" if last.mean_depth_high < first.mean_depth_low else "neither"
